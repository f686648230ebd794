"""Answers from a cloud, from sites at the edge, or on the device, from a scenario to its figures."""
