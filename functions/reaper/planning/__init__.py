"""What `plan` and `decide` rest on: possible actions, dates, the reasons in words, contained resources, and what limits and jumps put on hold."""
