"""Tools of all rooms: errors, units, files, records of fields, registries."""
