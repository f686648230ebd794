"""Networks as they were found: devices and cables read from the tools that discover them, one file a tool."""
