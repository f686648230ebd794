"""One model of an AI cluster, from collectives to cables: `railyard.run("scenario.yaml")`, `compare`, `explain`."""

from __future__ import annotations

import importlib
from typing import Any

from railyard.kit.errors import InputError, RailyardError

# Other names are typed in the stub beside this file and imported when they are used: reading a scenario needs heavy
# packages, and `import railyard` alone must not; nor may the rooms, which lie in this package, depend on its face.
_LAZY = {
    **dict.fromkeys(("Run", "compare", "explain", "load", "query", "run", "simulate"), "railyard.face.api"),
    "Cluster": "railyard.work.scenario.cluster:ClusterSection",
    "Fabric": "railyard.work.scenario.cluster:NetworkSection",
    "Job": "railyard.work.jobs.section:JobSection",
    "Record": "railyard.graph.record",
    "command": "railyard.face.verb",
}

__all__ = [
    "Cluster",
    "Fabric",
    "InputError",
    "Job",
    "RailyardError",
    "Record",
    "Run",
    "__version__",
    "command",
    "compare",
    "explain",
    "load",
    "query",
    "run",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        module, _, attribute = _LAZY[name].partition(":")
        return getattr(importlib.import_module(module), attribute or name)
    if name == "__version__":
        from importlib import metadata

        return metadata.version("railyard")
    raise AttributeError(f"module 'railyard' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
