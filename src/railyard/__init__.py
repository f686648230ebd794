"""One model of an AI cluster, from collectives to cables.

    import railyard

    run = railyard.run("scenario.yaml")
    print(run)
    run.table("time")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.errors import InputError, RailyardError

if TYPE_CHECKING:
    from railyard.api import Run, compare, load, run

__all__ = ["InputError", "RailyardError", "Run", "__version__", "compare", "load", "run"]

_LAZY = ("Run", "compare", "load", "run")


def __getattr__(name: str) -> Any:
    # Reading a scenario needs heavy packages; `import railyard` alone must not.
    if name in _LAZY:
        from railyard import api

        return getattr(api, name)
    if name == "__version__":
        from importlib import metadata

        return metadata.version("railyard")
    raise AttributeError(f"module 'railyard' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
