"""Networks as found: devices and cables read from discovery tools, one file per tool."""
