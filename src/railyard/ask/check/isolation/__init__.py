"""Whether tenants are kept apart by what configurations say: read, put together as routes, walked as packets."""
