"""One model of an AI cluster, from collectives to cables: `railyard.run("scenario.yaml")`, `compare`, `explain`."""

from __future__ import annotations

import importlib
from typing import Any

from railyard.kit.errors import InputError, RailyardError

# The names that come from `railyard.face.api` are typed in the stub beside this file: reading a scenario needs heavy
# packages, and `import railyard` alone must not; nor may the rooms, which lie in this package, depend on its face.
__all__ = ["InputError", "RailyardError", "Run", "__version__", "compare", "explain", "load", "query", "run"]

_FROM_API = ("Run", "compare", "explain", "load", "query", "run")


def __getattr__(name: str) -> Any:
    if name in _FROM_API:
        return getattr(importlib.import_module("railyard.face.api"), name)
    if name == "__version__":
        from importlib import metadata

        return metadata.version("railyard")
    raise AttributeError(f"module 'railyard' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
