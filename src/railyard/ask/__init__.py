"""Questions: one folder for each, with all that answers it."""
