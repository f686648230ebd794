"""Ways to keep updates from the server, one file each: its record is its registration."""
