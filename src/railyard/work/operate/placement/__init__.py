"""Placement policies of a scheduler: one file each."""
