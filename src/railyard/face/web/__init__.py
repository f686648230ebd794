"""The page and its API: scenarios written, checked, run and compared in a browser, over the command line's files."""
