"""A run as the steps of a workflow: the same four phases, each in a process of its own, with what they hand over in a store."""
