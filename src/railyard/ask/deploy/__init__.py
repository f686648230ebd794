"""Audits, cable plans and configurations: the simulated cluster and the one in the data center."""
