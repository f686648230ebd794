"""Metrics of a record: utilization, causes of waiting, tails, the bottleneck."""
