"""Channels that need the Azure SDK."""
