"""Pipelines: stages on hardware of their own that requests go through."""
