"""Requests that are served: what their kinds have in common."""
