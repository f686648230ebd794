"""Schedules of collectives for a given network."""
