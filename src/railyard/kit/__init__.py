"""What every room stands on: errors, units, records, registries, tables, files, and imports that wait."""

from __future__ import annotations

import builtins
import sys
from contextlib import contextmanager
from importlib import import_module
from threading import RLock
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_lock = RLock()


class _Name:
    """A name of a module that was not imported yet; its attributes are names in it."""

    def __init__(self, module: str, name: str = "") -> None:
        self.module, self.name = module, name

    def __getattr__(self, name: str) -> _Name:
        return _Name(self.module, name)


class _Room(ModuleType):
    """A package that imports one of its files when a name of it is first used."""

    def __getattr__(self, name: str) -> Any:
        later = self.__dict__["_later"].get(name)
        if later is None:
            raise AttributeError(f"module `{self.__name__}` has no attribute `{name}`")
        self.__dict__[name] = found = getattr(import_module(later.module), later.name)
        return found

    def __setattr__(self, name: str, value: object) -> None:
        # An import sets the file as an attribute of its package, where a name of the room may be called the same.
        if not (isinstance(value, ModuleType) and name in self.__dict__["_later"]):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *self.__dict__["_later"]})


@contextmanager
def lazily(room: dict[str, Any]) -> Iterator[None]:
    """Postpones the imports of the block: `from FILE import NAME` runs when another module uses the name.

    A package offers the names of its files so, and who imports one file of it does not load the others. The names are
    for other modules; the package's own code cannot use them.

    Args:
        room: `globals()` of the package.
    """
    loads = builtins.__import__

    def postponed(name: str, given: Any = None, *others: Any) -> Any:
        return _Name(name) if given is room else loads(name, given, *others)

    with _lock:
        vars(builtins)["__import__"] = postponed
        try:
            yield
        finally:
            vars(builtins)["__import__"] = loads
    room["_later"] = {key: room.pop(key) for key, value in list(room.items()) if isinstance(value, _Name)}
    sys.modules[room["__name__"]].__class__ = _Room
