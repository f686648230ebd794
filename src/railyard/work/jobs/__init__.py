"""Several jobs on one cluster: each alone, all together, and all but one."""
