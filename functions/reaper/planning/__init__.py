"""What `plan` and `decide` rest on: possible actions, dates, the reasons in words, and what limits and jumps put on hold."""
