"""Which cluster to build: a space of designs, its front, how sure the choice is and what would change it."""
