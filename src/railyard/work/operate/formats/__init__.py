"""Formats of schedulers' and fabric managers' topologies: one file each."""
