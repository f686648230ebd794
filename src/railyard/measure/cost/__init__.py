"""What it costs: power, capital, dollars an hour and per million tokens, each as a range with its sources."""
