"""Values in files: the fields of records, their units and readers."""
