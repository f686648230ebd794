"""Sites that train together, from a scenario to its figures."""
