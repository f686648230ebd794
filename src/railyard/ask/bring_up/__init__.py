"""A cluster in the time in which it is built: who pulls what when, what goes wrong, and what stands idle meanwhile."""
