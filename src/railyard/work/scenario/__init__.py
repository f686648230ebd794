"""Scenarios: from a YAML file to a run. Reads, checks and composes what other rooms offer; computes nothing itself."""
