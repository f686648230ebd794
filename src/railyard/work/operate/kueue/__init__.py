"""Kueue: topology-aware scheduling, quotas and admission, checked against Kueue's own test tables."""
