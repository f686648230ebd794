"""Failures: what breaks, when and for how long; fits and forecasts from recorded histories."""
