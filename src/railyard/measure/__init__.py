"""From when things happened to what it means: utilization, causes of waiting, tails, the bottleneck."""
