"""Whether configurations isolate tenants: they are read, turned into routes, and walked as packets."""
