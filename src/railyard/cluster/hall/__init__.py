"""The floor of a data center: devices in racks, racks in rows, rows in banks, and cable distances between them."""
