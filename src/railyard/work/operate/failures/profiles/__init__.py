"""Failure profiles of fleets: one file each."""
