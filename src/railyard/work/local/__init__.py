"""Training on sites that step by themselves and meet now and then."""
