"""Algorithms of federated learning, one file each: its record is its registration."""
