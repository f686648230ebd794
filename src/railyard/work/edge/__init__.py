"""Inference in a cloud, at edge sites, or on the device, from a scenario to its figures."""
