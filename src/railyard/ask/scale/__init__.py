"""Forecasts a step on a cluster from traces of one node or of a few ranks."""
