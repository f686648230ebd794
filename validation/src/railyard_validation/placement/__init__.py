"""Published effects of placement and traffic control, in the package's own model."""
