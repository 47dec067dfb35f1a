"""What changes or restores resources. Loaded only to act, to restore or to undo."""
