"""Where texts are stored: in a cloud or in a folder."""
