"""Training: from a scenario to a measured step."""
