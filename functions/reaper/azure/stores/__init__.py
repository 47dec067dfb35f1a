"""Where rows, texts and secrets are kept in this cloud."""
