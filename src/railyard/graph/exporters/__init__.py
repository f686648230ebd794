"""File formats for records, one file each, whose record registers it."""
