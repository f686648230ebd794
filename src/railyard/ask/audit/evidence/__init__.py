"""What follows from what devices say of themselves: counters, tables, sessions, settings, parts; one file a kind."""
