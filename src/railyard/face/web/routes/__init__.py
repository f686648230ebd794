"""Routes of the server, one file a kind of thing."""
