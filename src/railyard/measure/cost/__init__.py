"""Cost: power, capital, dollars per hour and per million tokens, each as a range with its sources."""
