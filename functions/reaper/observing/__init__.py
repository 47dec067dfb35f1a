"""What `observe` rests on: the window to read, the checks on what a kind lists, and the cache of descriptions that never change."""
