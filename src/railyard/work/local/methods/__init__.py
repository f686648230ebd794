"""Ways of training on sites, one file each: its record is its registration."""
