"""What a server does for somebody, one file a verb: its record is its form on the page, its check and its work."""
