"""Placement policies: one file each, and the registry of them."""

from importlib import import_module
from pkgutil import iter_modules

from railyard.cluster.placement.policy import Choice, Policy, by_domain, place, policies

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["Choice", "Policy", "by_domain", "place", "policies"]
