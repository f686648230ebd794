"""Federated learning as messages and computation: algorithms, compression, secure aggregation, selection."""
