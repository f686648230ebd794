"""Measures of requests: latencies that add up, percentiles, goodput under an objective, capacity, fronts."""
