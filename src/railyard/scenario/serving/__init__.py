"""A serving workload in a scenario: its sections, what they become, the run, the result."""
