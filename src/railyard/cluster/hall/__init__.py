"""Where the machine stands: devices in racks, racks in rows, rows in banks, and how far it is from there to there."""
