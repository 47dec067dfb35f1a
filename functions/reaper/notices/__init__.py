"""What owners and admins are sent: notices, reminders and summaries, and the channels that carry them."""
