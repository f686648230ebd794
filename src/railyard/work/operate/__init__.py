"""Many jobs on one cluster for months: queue, placement, contention, failures, recovery, goodput."""
