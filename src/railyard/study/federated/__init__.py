"""Rounds on clients, from a scenario to its figures."""
