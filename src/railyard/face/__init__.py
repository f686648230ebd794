"""User interfaces: command line, Python, web page and report."""
