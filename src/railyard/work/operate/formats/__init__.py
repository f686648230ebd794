"""Topology formats of schedulers and fabric managers, one file each."""
