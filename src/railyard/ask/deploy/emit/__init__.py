"""A plan as files that other programs read: one file a format."""
