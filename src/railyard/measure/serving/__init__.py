"""What serving requests came to: latencies that add up, percentiles, goodput under an objective, capacity, fronts."""
