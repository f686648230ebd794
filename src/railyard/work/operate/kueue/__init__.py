"""Kueue: topology-aware scheduling, quotas and admission, judged by the tables of its own tests."""
