"""Collectives of a Chakra trace as symbolic collectives of the graph; a scatter or gather as its transfers.

Sizes of a trace are what one member puts in, as ASTRA-sim counts them (`Ring.cc`); those of the graph are the larger of
one member's send and receive buffer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from railyard.graph import AT_RECEIVER, AT_SENDER, CollectiveKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.work.trace.builder import GraphBuilder

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
        group: Name of the process group.
        size_bytes: What one member puts in.
    """

    kind: str
    group: str
    size_bytes: int


class Member(NamedTuple):
    """Where a collective begins and ends on a rank.

    Attributes:
        rank: The rank.
        begin: The task after which it may begin.
        end: The task that ends when it is done.
    """

    rank: int
    begin: int
    end: int


def add_collective(
    builder: GraphBuilder, shape: CollectiveCall, from_root: Sequence[Member], in_order: Sequence[Member]
) -> None:
    """Adds a collective.

    Args:
        builder: Takes the tasks.
        shape: What it does.
        from_root: The members, the root first.
        in_order: The same by rank.
    """
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


def _add_spoke(builder: GraphBuilder, shape: CollectiveCall, root: Member, member: Member, count: int) -> None:
    """Adds what a root sends a member of a scatter, or gets from one of a gather."""
    down = shape.kind == "SCATTER"
    source, target = (root, member) if down else (member, root)
    size = -(-shape.size_bytes // count) if down else shape.size_bytes
    transfer = builder.transfer(source.rank, target.rank, max(size, 1))
    builder.wait(transfer, [(source.begin, AT_SENDER)])
    builder.wait(source.end, [(transfer, AT_SENDER)])
    builder.wait(target.end, [(transfer, AT_RECEIVER)])
