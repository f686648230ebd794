"""How values are written in files: the fields of records, their units and readers."""
