"""Kinds of work, one file each: its record is its registration."""
