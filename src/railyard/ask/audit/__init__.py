"""Finds faults of a network, and what each costs."""
