"""Measuring the accelerator at hand, and constants from your own measurements."""
