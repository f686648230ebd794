"""Finds the guilty part from traces, logs and counters."""
