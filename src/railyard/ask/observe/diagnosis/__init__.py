"""Finds the guilty part of a record, or none."""
