"""Predictions against published measurements, row by row."""
