"""Operations of a GOAL schedule, and the tasks that they make: what the text and the binary form have in common.

An operation of a rank sends, receives or calculates. `requires` lets it wait until another operation of its rank is
done, `irequires` until it has begun. A receive is done when the message has arrived and everything that the receive
waits for is done. The next send of a rank to another with a tag meets the next receive there (MPI's order).
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railyard.graph import AT_RECEIVER, AT_SENDER
from railyard.kit.errors import InputError
from railyard.work.trace.builder import GraphBuilder

if TYPE_CHECKING:
    from railyard.work.trace.trace import Trace

ANY = (1 << 32) - 1
SEND, RECV, CALC = 1, 2, 3
MARKER = 9_999_999
"""Schedgen joins operations by a send of nothing to this rank (`schedgen.cpp`); it is no message."""

LEFT_OUT = (
    "operations of one CPU do not wait for one another unless the schedule says so",
    "CPU overheads of sending and receiving (o and O of LogGOPS)",
    "receives from any rank or with any tag take messages in the order of the schedule, not of arrival",
)
_PS_PER_NS = 1000


@dataclass
class Operation:
    """One operation of a rank.

    Attributes:
        kind: `SEND`, `RECV` or `CALC`.
        size: Bytes, or nanoseconds of a calculation.
        peer: The other rank; `ANY` of a receive that takes what comes.
        tag: Of the message; `ANY` of a receive that takes every tag.
        line: Line of the file; 0 in the binary form.
        requires: Operations of the rank that must be done.
        irequires: Operations of the rank that must have begun.
    """

    kind: int
    size: int
    peer: int = 0
    tag: int = 0
    line: int = 0
    requires: list[int] = field(default_factory=list)
    irequires: list[int] = field(default_factory=list)


def tasks(ranks: list[list[Operation]]) -> Trace:
    """The tasks of a schedule, a list of operations a rank.

    Raises:
        InputError: A receive has no send, a send no receive, or a peer is no rank.
    """
    builder = GraphBuilder(len(ranks))
    for rank, operations in enumerate(ranks):
        for operation in operations:
            _peer(operation, rank, len(ranks))
    rows = [[_begin(builder, rank, operation) for operation in operations] for rank, operations in enumerate(ranks)]
    messages = _match(ranks)
    for rank, operations in enumerate(ranks):
        gates = _gates(builder, rank, operations, rows[rank])
        for place, operation in enumerate(operations):
            waits = [(rows[rank][other], AT_SENDER) for other in operation.requires]
            waits += [(gates[other], AT_SENDER) for other in operation.irequires]
            builder.wait(gates.get(place, rows[rank][place]), list(dict.fromkeys(waits)))
            if operation.kind == RECV:
                sender, sent = messages[rank, place]
                builder.wait(rows[rank][place], [(rows[sender][sent], AT_RECEIVER)])
    return builder.build(left_out=LEFT_OUT)


def _gates(builder: GraphBuilder, rank: int, operations: list[Operation], rows: list[int]) -> dict[int, int]:
    """A row for the beginning of every operation whose beginning matters: it waits in the operation's place."""
    gates = {}
    for place in sorted({other for operation in operations for other in operation.irequires}):
        gates[place] = builder.work(rank, 0, op="begin", line=operations[place].line)
        builder.wait(rows[place], [(gates[place], AT_SENDER)])
    return gates


def _peer(operation: Operation, rank: int, ranks: int) -> None:
    if (operation.kind, operation.size, operation.peer) == (SEND, 0, MARKER):
        operation.kind, operation.peer = CALC, 0
    wild = operation.kind == RECV and operation.peer == ANY
    if operation.kind != CALC and not wild and not 0 <= operation.peer < ranks:
        raise InputError(f"rank {rank} has a peer that is no rank", found=operation.peer, line=operation.line or None)
    if operation.kind == SEND and operation.peer == rank:
        raise InputError(f"rank {rank} sends to itself", line=operation.line or None)


def _begin(builder: GraphBuilder, rank: int, operation: Operation) -> int:
    """The row of an operation: a flow of a send, local work otherwise."""
    if operation.kind == SEND:
        return builder.transfer(rank, operation.peer, max(operation.size, 1), line=operation.line)
    if operation.kind == CALC:
        return builder.work(rank, operation.size * _PS_PER_NS, line=operation.line)
    return builder.work(rank, 0, op="receive", line=operation.line)


def _match(ranks: list[list[Operation]]) -> dict[tuple[int, int], tuple[int, int]]:
    """The send that every receive takes, by rank and place of both; receives that take anything choose last.

    Raises:
        InputError: Something is left over.
    """
    sent: defaultdict[int, defaultdict[tuple[int, int], deque[int]]] = defaultdict(lambda: defaultdict(deque))
    exact: list[tuple[int, int, Operation]] = []
    wild: list[tuple[int, int, Operation]] = []
    for rank, operations in enumerate(ranks):
        for place, operation in enumerate(operations):
            if operation.kind == SEND:
                sent[operation.peer][rank, operation.tag].append(place)
            elif operation.kind == RECV:
                (wild if ANY in {operation.peer, operation.tag} else exact).append((rank, place, operation))
    taken = {(rank, place): _take(sent[rank], operation, rank) for rank, place, operation in (*exact, *wild)}
    left = [(rank, *key, places[0]) for rank, waiting in sent.items() for key, places in waiting.items() if places]
    for rank, sender, tag, place in left:
        line = ranks[sender][place].line or None
        raise InputError(f"nobody receives a message from rank {sender} to rank {rank} with tag {tag}", line=line)
    return taken


def _take(waiting: defaultdict[tuple[int, int], deque[int]], operation: Operation, rank: int) -> tuple[int, int]:
    """The first message that suits a receive, taken off the list."""
    exact = operation.peer, operation.tag
    for sender, tag in waiting if ANY in exact else (exact,):
        places = waiting.get((sender, tag))
        if places and operation.peer in {sender, ANY} and operation.tag in {tag, ANY}:
            return sender, places.popleft()
    text = "any rank" if operation.peer == ANY else f"rank {operation.peer}"
    raise InputError(f"rank {rank} receives from {text} what nobody sends", line=operation.line or None)
