"""Ways to send fewer bytes, one file each: its record is its registration."""
