"""Measuring the accelerator at hand, and constants from measurements of one's own."""
