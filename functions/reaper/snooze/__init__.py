"""Snooze links: signed links in notices, the pages behind them, and what a click records."""
