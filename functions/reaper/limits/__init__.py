"""Too many actions at once means none: caps, jumps of the idle share, and what is on hold because of them."""
