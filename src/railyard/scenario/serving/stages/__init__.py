"""A request that goes through several stages on pools of different hardware: `workload: pipeline:`."""
