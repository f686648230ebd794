"""What the nodes of one rank wait for: dependencies on nodes that are there, without cycles.

The converter of PyTorch traces writes the caller of an operation as its control dependency, and what the operation
waits for as data dependencies (`pytorch_converter.py` of mlcommons/chakra); Chakra's feeder follows the latter only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from railyard.graph import AT_RECEIVER, AT_SENDER, CollectiveKind
from railyard.kit.errors import InputError
from railyard.work.trace.builder import MOST

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from railyard.work.trace.builder import GraphBuilder, Lacks


METADATA, MEM_LOAD, MEM_STORE, COMPUTE, SEND, RECV, COLLECTIVE = range(1, 8)
"""`NodeType` of the schema."""
LAST_KIND = COLLECTIVE

Scalar = int | float | str | bool


@dataclass
class ChakraNode:
    """One node.

    Attributes:
        kind: `COMPUTE`, `SEND`, ... as in the schema's `NodeType`.
        duration_us: Measured time.
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
        ranks: How many ranks the file says that the job has; 0 where it says none.
    """

    nodes: list[ChakraNode]
    ranks: int = 0


KINDS = (
    "ALL_REDUCE", "REDUCE", "ALL_GATHER", "GATHER", "SCATTER", "BROADCAST", "ALL_TO_ALL", "REDUCE_SCATTER",
    "REDUCE_SCATTER_BLOCK", "BARRIER",
)  # fmt: skip
"""`CollectiveCommType` of the schema."""

_SYMBOLIC = {
    "ALL_REDUCE": CollectiveKind.ALL_REDUCE,
    "REDUCE": CollectiveKind.REDUCE,
    "ALL_GATHER": CollectiveKind.ALL_GATHER,
    "BROADCAST": CollectiveKind.BROADCAST,
    "ALL_TO_ALL": CollectiveKind.ALL_TO_ALL,
    "REDUCE_SCATTER": CollectiveKind.REDUCE_SCATTER,
    "REDUCE_SCATTER_BLOCK": CollectiveKind.REDUCE_SCATTER,
    "BARRIER": CollectiveKind.ALL_TO_ALL,
}
_ROOTED = frozenset({"REDUCE", "BROADCAST"})


class CollectiveCall(NamedTuple):
    """What a collective does.

    Attributes:
        kind: One of `KINDS`.
        size_bytes: What one member puts in.
    """

    kind: str
    group: str
    size_bytes: int


class CollectiveEnds(NamedTuple):
    """Start and end of a collective on a rank.

    Attributes:
        begin: The task after which it may begin.
        end: The task that ends when it is done.
    """

    rank: int
    begin: int
    end: int


def add_collective(
    builder: GraphBuilder,
    shape: CollectiveCall,
    from_root: Sequence[CollectiveEnds],
    in_order: Sequence[CollectiveEnds],
) -> None:
    """Adds a collective."""
    if shape.kind not in _SYMBOLIC:
        for member in in_order:
            if member is not from_root[0]:
                _add_spoke(builder, shape, from_root[0], member, len(in_order))
        return
    members = from_root if shape.kind in _ROOTED else in_order
    count = len(members)
    moved = {"ALL_GATHER": shape.size_bytes * count, "BARRIER": count}.get(shape.kind, shape.size_bytes)
    ranks = tuple(member.rank for member in members)
    task = builder.collective(_SYMBOLIC[shape.kind], shape.group, ranks, moved)
    builder.wait(task, [(member.begin, AT_SENDER) for member in members])
    for member in members:
        builder.wait(member.end, [(task, AT_RECEIVER)])


def _add_spoke(
    builder: GraphBuilder, shape: CollectiveCall, root: CollectiveEnds, member: CollectiveEnds, count: int
) -> None:
    """Adds what a root sends a member of a scatter, or gets from one of a gather."""
    down = shape.kind == "SCATTER"
    source, target = (root, member) if down else (member, root)
    size = -(-shape.size_bytes // count) if down else shape.size_bytes
    transfer = builder.transfer(source.rank, target.rank, max(size, 1))
    builder.wait(transfer, [(source.begin, AT_SENDER)])
    builder.wait(source.end, [(transfer, AT_SENDER)])
    builder.wait(target.end, [(transfer, AT_RECEIVER)])


Order = dict[int, list[int]]

MISSING = "{} dependencies are on nodes that the trace does not hold: they are left out"
CALLERS = "{} control dependencies name the caller of an operation (PyTorch): only data dependencies are waited for"
CONTROL_CYCLES = "{} control dependencies lie on dependency cycles: they are left out"
CYCLES = "{} data dependencies lie on dependency cycles and point to later nodes: they are left out"

_PYTORCH = "rf_id"


def waits_of(nodes: list[ChakraNode], lacks: Lacks) -> Order:
    """The nodes that each node waits for, by number."""
    control = {node.id: node.control for node in nodes}
    if any(_PYTORCH in node.attributes for node in nodes):
        lacks.note(CALLERS, sum(map(len, control.values())))
        control = {}
    data = _present({node.id: node.data for node in nodes}, lacks)
    control = _present(control, lacks)
    waits = _joined(data, control)
    cyclic = _on_cycles(waits)
    if not cyclic:
        return waits
    lacks.note(CONTROL_CYCLES, sum(len(control.get(node, ())) for node in cyclic))
    waits |= {node: data[node] for node in cyclic}
    cyclic = _on_cycles(waits)
    place = {node.id: number for number, node in enumerate(nodes)}
    kept = {node: [other for other in waits[node] if place[other] < place[node]] for node in cyclic}
    lacks.note(CYCLES, sum(len(waits[node]) - len(kept[node]) for node in cyclic))
    return waits | kept


def _present(waits: Mapping[int, list[int]], lacks: Lacks) -> Order:
    """Dependencies on nodes that are there, each once."""
    known = waits.keys()
    found = {node: [other for other in dict.fromkeys(others) if other in known] for node, others in waits.items()}
    lacks.note(MISSING, sum(sum(other not in known for other in others) for others in waits.values()))
    return found


def _joined(data: Order, control: Order) -> Order:
    return {node: [*dict.fromkeys([*control.get(node, ()), *others])] for node, others in data.items()}


def _on_cycles(waits: Order) -> list[int]:
    """Nodes on a cycle or between two: what is left when nodes go that wait for nothing, or that nothing waits for."""
    left = _without_ends(waits)
    followers: Order = {node: [] for node in left}
    for node in left:
        for other in waits[node]:
            if other in left:
                followers[other].append(node)
    return sorted(_without_ends(followers))


def _without_ends(waits: Order) -> set[int]:
    """Nodes that are never reached when every node goes as soon as all that it waits for are gone."""
    followers: Order = {node: [] for node in waits}
    missing = {}
    for node, others in waits.items():
        inner = [other for other in others if other in followers]
        missing[node] = len(inner)
        for other in inner:
            followers[other].append(node)
    front = [node for node, count in missing.items() if not count]
    while front:
        node = front.pop()
        del missing[node]
        for other in followers[node]:
            missing[other] -= 1
            if not missing[other]:
                front.append(other)
    return set(missing)
