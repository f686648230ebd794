"""What breaks, when, for how long; fits and forecasts of it."""
