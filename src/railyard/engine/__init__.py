"""Engines: when everything in a task graph happens on a cluster."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from railyard.engine.contract import (
        Engine,
        Jitter,
        Probes,
        Progress,
        Stall,
        engines,
        get,
    )

__all__ = [
    "Engine",
    "Jitter",
    "Probes",
    "Progress",
    "Stall",
    "engines",
    "get",
]

_REGISTER = ("analytic", "flow")
"""Modules that put an engine into the registry when they are imported; folders are found by their name."""


def __getattr__(name: str) -> Any:
    # `railyard packet` needs the packet engine alone, and the others pull in clusters, catalogue and pydantic.
    if name not in __all__:
        raise AttributeError(f"module 'railyard.engine' has no attribute '{name}'")
    for module in _REGISTER:
        importlib.import_module(f"railyard.engine.{module}")
    return getattr(importlib.import_module("railyard.engine.contract"), name)
