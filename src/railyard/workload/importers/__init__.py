"""Readers of what other tools write: model configurations from elsewhere become the catalogue's own records."""
