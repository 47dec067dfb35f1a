"""What `plan` and `decide` rest on: possible actions, dates, the reasons in words, and whether a notice counts."""
