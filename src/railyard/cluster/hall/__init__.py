"""The data hall: devices in racks, racks in rows, rows in banks, and cable distances between them."""
