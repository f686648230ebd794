"""Who is selected among those who are there, one file each: its record is its registration."""
