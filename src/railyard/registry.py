"""One registry for every seam: a record in a file is its own registration, schema, documentation and test subject."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from railyard.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")

_plugins_loaded = False


def load_plugins() -> None:
    """Imports every module that a third-party package names in the entry-point group `railyard.plugins`; once."""
    global _plugins_loaded  # noqa: PLW0603 - importing twice would register twice
    if _plugins_loaded:
        return
    _plugins_loaded = True
    from importlib import metadata  # 10 ms that `railyard packet` has no use for

    for entry in metadata.entry_points(group="railyard.plugins"):
        entry.load()


class Registry(Generic[T]):
    """Names of one kind of thing and their records.

    Args:
        kind: What the records are, in the user's words ("topology", "fabric"); used in messages.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._records: dict[str, T] = {}

    def add(self, name: str, record: T) -> T:
        """Registers `record` under `name`; a name can be taken only once."""
        if name in self._records:
            raise InputError(f"the {self.kind} `{name}` is registered twice", found=name)
        self._records[name] = record
        return record

    def register(self, name: str) -> Callable[[T], T]:
        """The same as a decorator."""
        return lambda record: self.add(name, record)

    def get(self, name: str) -> T:
        """The record of that name.

        Raises:
            InputError: There is none; says which there are and the nearest spelling.
        """
        if name not in self._records:
            load_plugins()
        if name not in self._records:
            raise InputError(
                f"there is no {self.kind} `{name}`",
                found=name,
                allowed=self.names(),
                hint=did_you_mean(name, self._records),
            )
        return self._records[name]

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._records)

    def items(self) -> list[tuple[str, T]]:
        """All names and records, sorted by name."""
        return sorted(self._records.items(), key=lambda item: item[0])

    def __contains__(self, name: object) -> bool:
        return name in self._records

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self._records)
