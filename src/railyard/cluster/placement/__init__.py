"""Placement policies: one file each, and the registry of them."""

from railyard.cluster.placement.policy import Choice, Policy, by_domain, place, policies

__all__ = ["Choice", "Policy", "by_domain", "place", "policies"]
