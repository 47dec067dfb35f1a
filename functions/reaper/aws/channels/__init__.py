"""Channels that need boto3."""
