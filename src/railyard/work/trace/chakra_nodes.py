"""Nodes of a Chakra execution trace, whatever the form of its file."""

from __future__ import annotations

from dataclasses import dataclass, field

from railyard.kit.errors import InputError
from railyard.work.trace.builder import MOST

METADATA, MEM_LOAD, MEM_STORE, COMPUTE, SEND, RECV, COLLECTIVE = range(1, 8)
"""`NodeType` of the schema."""
LAST_KIND = COLLECTIVE

Scalar = int | float | str | bool


@dataclass
class ChakraNode:
    """One node.

    Attributes:
        id: Its number in the trace.
        name: As the framework called it.
        kind: `COMPUTE`, `SEND`, ... as in the schema's `NodeType`.
        duration_us: Measured time.
        control: Nodes that it names as control dependencies.
        data: Nodes that it names as data dependencies.
        attributes: Scalars by name.
    """

    id: int = 0
    name: str = ""
    kind: int = 0
    duration_us: int = 0
    control: list[int] = field(default_factory=list)
    data: list[int] = field(default_factory=list)
    attributes: dict[str, Scalar] = field(default_factory=dict)

    def number(self, key: str, *, high: int = MOST, default: int | None = None) -> int:
        """An attribute that must be an integer.

        Raises:
            InputError: It is missing without a default, or out of range.
        """
        value = self.attributes.get(key, default)
        if value is None:
            raise InputError(f"node {self.id} ({self.name}) has no attribute `{key}`")
        if isinstance(value, str) or not 0 <= value <= high:
            raise InputError(
                f"node {self.id} ({self.name}): `{key}` is out of range", found=value, allowed=f"0 to {high}"
            )
        return int(value)


@dataclass(frozen=True, eq=False)
class RankTrace:
    """The trace of one rank.

    Attributes:
        nodes: In the order of the file.
        ranks: How many ranks the file says that the job has; 0 where it says none.
    """

    nodes: list[ChakraNode]
    ranks: int = 0
