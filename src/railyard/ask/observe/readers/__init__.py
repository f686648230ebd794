"""A file a format; a file is its own registration."""
