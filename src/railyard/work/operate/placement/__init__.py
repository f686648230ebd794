"""Placement policies of schedulers, one file each."""
