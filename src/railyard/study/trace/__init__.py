"""Traces that are run again: preparation, simulation, figures."""
