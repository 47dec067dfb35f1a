"""Where texts are stored, in a cloud or in a folder, and where secrets are read."""
