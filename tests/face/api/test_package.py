"""What `import railyard` offers."""

from __future__ import annotations

import importlib
import pkgutil

import railyard


def test_no_exported_name_is_also_a_room():
    """Python sets a module as an attribute of its package on import: it would hide the function of that name."""
    rooms = {module.name for module in pkgutil.iter_modules(railyard.__path__)}
    assert rooms.isdisjoint(railyard.__all__)
    for room in rooms - {"__main__"}:
        importlib.import_module(f"railyard.{room}")
    assert callable(railyard.command)
