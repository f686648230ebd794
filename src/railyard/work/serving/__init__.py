"""Serving: what is asked of a deployment, and what an iteration of its replicas costs."""
