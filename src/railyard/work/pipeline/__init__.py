"""Pipelines: requests pass through stages on separate hardware."""
