"""What gets cabled: devices in racks, and every cable with both ends."""
