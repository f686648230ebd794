"""Formats of job traces: one file each."""
