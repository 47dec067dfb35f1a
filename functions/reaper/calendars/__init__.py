"""Calendars of the policy: days off, freezes and business days; where they are read from, and what they do to dates."""
