"""Ways in: the command line, Python, the page and the report."""
