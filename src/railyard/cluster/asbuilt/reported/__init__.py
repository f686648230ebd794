"""What devices report about themselves other than neighbors: counters, tables, sessions, settings, parts."""
