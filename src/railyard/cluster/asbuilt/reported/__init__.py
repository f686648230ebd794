"""What devices say of themselves except neighbours: counters, tables, sessions, settings, parts; one file a tool."""
