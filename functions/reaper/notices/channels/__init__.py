"""Channels for notices and summaries: one file per type."""
