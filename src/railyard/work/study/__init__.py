"""Runs a document for every kind of work in the same order: prepare, run, measure, write."""
