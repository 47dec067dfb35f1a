"""Which places a run covers: the words that name AWS accounts, and how a call narrows them."""
