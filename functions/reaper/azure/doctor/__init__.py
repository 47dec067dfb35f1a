"""What `reaper doctor` checks in this cloud alone."""
