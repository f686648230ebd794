"""A file an operating system; a file is its own registration."""
