"""From the cluster that was simulated to the one in the hall and back: audit, cable plan, configurations."""
