"""A cluster while it runs, by its Prometheus: expected values, and alerts that were tried on simulated faults."""
