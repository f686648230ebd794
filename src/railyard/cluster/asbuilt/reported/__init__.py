"""What devices say of themselves besides neighbours: counters, tables, sessions, settings, parts; one file a tool."""
