"""Calendars of the policy: days off, freezes and business days: how they are read, and how they move dates."""
