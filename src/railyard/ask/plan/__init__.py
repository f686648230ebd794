"""Searches for what should be built: `railyard plan`."""
