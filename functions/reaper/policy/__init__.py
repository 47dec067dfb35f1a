"""The policy: its file, its rules, owners, office hours and the resource tags that may change them."""
