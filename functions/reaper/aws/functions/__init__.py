"""The entry points that are deployed, and what they share."""
