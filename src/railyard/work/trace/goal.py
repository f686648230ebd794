"""Reads GOAL schedules, the input of LogGOPSim and ATLAHS, as text and in the binary form of `txt2bin`.

    num_ranks 2
    rank 0 {
      l1: calc 1000
      l2: send 80000000b to 1 tag 7 cpu 0 nic 0
      l2 requires l1
    }
    rank 1 {
      l1: recv 80000000b from 0 tag 7
    }

Calculations are in nanoseconds. The grammar is that of `txt2bin.re`, the binary layout that of `Parser.hpp` of
spcl/LogGOPSim: a cookie, a table of ranks, and for each its operations of 39 bytes and the numbers of those that
follow.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.graph import AT_RECEIVER, AT_SENDER
from railyard.kit.errors import InputError
from railyard.work.trace.builder import MOST, MOST_HOSTS, GraphBuilder, content
from railyard.work.trace.formats import COOKIE

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from railyard.work.trace.builder import Trace


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
class GoalOperation:
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


def tasks(ranks: list[list[GoalOperation]]) -> Trace:
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


def _gates(builder: GraphBuilder, rank: int, operations: list[GoalOperation], rows: list[int]) -> dict[int, int]:
    """A row for the beginning of every operation whose beginning matters: it waits in the operation's place."""
    gates = {}
    for place in sorted({other for operation in operations for other in operation.irequires}):
        gates[place] = builder.work(rank, 0, op="begin", line=operations[place].line)
        builder.wait(rows[place], [(gates[place], AT_SENDER)])
    return gates


def _peer(operation: GoalOperation, rank: int, ranks: int) -> None:
    if (operation.kind, operation.size, operation.peer) == (SEND, 0, MARKER):
        operation.kind, operation.peer = CALC, 0
    wild = operation.kind == RECV and operation.peer == ANY
    if operation.kind != CALC and not wild and not 0 <= operation.peer < ranks:
        raise InputError(
            f"rank {rank} has a peer that is not a rank", found=operation.peer, line=operation.line or None
        )
    if operation.kind == SEND and operation.peer == rank:
        raise InputError(f"rank {rank} sends to itself", line=operation.line or None)


def _begin(builder: GraphBuilder, rank: int, operation: GoalOperation) -> int:
    """The row of an operation: a flow of a send, local work otherwise."""
    if operation.kind == SEND:
        return builder.transfer(rank, operation.peer, max(operation.size, 1), line=operation.line)
    if operation.kind == CALC:
        return builder.work(rank, operation.size * _PS_PER_NS, line=operation.line)
    return builder.work(rank, 0, op="receive", line=operation.line)


def _match(ranks: list[list[GoalOperation]]) -> dict[tuple[int, int], tuple[int, int]]:
    """The send that every receive takes, by rank and place of both; receives that take anything choose last.

    Raises:
        InputError: Something is left over.
    """
    sent: defaultdict[int, defaultdict[tuple[int, int], deque[int]]] = defaultdict(lambda: defaultdict(deque))
    exact: list[tuple[int, int, GoalOperation]] = []
    wild: list[tuple[int, int, GoalOperation]] = []
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


def _take(waiting: defaultdict[tuple[int, int], deque[int]], operation: GoalOperation, rank: int) -> tuple[int, int]:
    """The first message that suits a receive, taken off the list."""
    exact = operation.peer, operation.tag
    for sender, tag in waiting if ANY in exact else (exact,):
        places = waiting.get((sender, tag))
        if places and operation.peer in {sender, ANY} and operation.tag in {tag, ANY}:
            return sender, places.popleft()
    text = "any rank" if operation.peer == ANY else f"rank {operation.peer}"
    raise InputError(f"rank {rank} receives from {text} what nobody sends", line=operation.line or None)


_TOKEN = re.compile(r"//[^\n]*|/\*.*?\*/|-1|\d+|[A-Za-z_][A-Za-z0-9_]*|[:{}]|\n|[^\S\n]+|.", re.DOTALL)
_BLANK = re.compile(r"//[^\n]*|/\*.*?\*/|\s+", re.DOTALL)
_KINDS = {"send": SEND, "recv": RECV, "calc": CALC}
_PEER = {SEND: "to", RECV: "from"}
_NODE = np.dtype(
    [
        ("waits", "<u4"), ("kind", "u1"), ("peer", "<u4"), ("size", "<u8"), ("tag", "<u4"), ("cpu", "u1"),
        ("nic", "u1"), ("after", "<u4"), ("after_first", "<u4"), ("begun", "<u4"), ("begun_first", "<u4"),
    ]
)  # fmt: skip


def read(path: Path) -> Trace:
    """The tasks of a schedule; the binary form is known by its first bytes.

    Raises:
        InputError: The file cannot be read, or is no schedule; with the line of the text form.
    """
    data = content(path)
    try:
        return tasks(_binary(data) if data.startswith(COOKIE) else _Text(data).ranks())
    except InputError as error:
        raise error.located(file=path) from None


@dataclass
class _Text:
    """The text form: tokens with their lines, and what has been read of them."""

    data: bytes
    tokens: list[tuple[str, int]] = field(default_factory=list)
    at: int = 0

    def __post_init__(self) -> None:
        try:
            text = self.data.decode()
        except UnicodeDecodeError as error:
            raise InputError("the file is not text in UTF-8", found=f"byte {error.start}") from None
        line = 1
        for match in _TOKEN.finditer(text):
            if not _BLANK.fullmatch(match[0]):
                self.tokens.append((match[0], line))
            line += match[0].count("\n")
        self.tokens.append(("", line))

    def ranks(self) -> list[list[GoalOperation]]:
        """The operations of every rank."""
        self._expect("num_ranks")
        count = self._number("num_ranks", low=1, high=MOST_HOSTS)
        ranks: dict[int, list[GoalOperation]] = {}
        while self.tokens[self.at][0]:
            self._expect("rank")
            line = self.tokens[self.at][1]
            rank = self._number("the rank", high=count - 1)
            if rank in ranks:
                raise InputError(f"rank {rank} is given twice", line=line)
            self._expect("{")
            ranks[rank] = self._rank()
        return [ranks.get(rank, []) for rank in range(count)]

    def _rank(self) -> list[GoalOperation]:
        operations: list[GoalOperation] = []
        labels: dict[str, int] = {}
        links: list[tuple[str, str, str, int]] = []
        while (token := self._next())[0] != "}":
            word, line = token
            if word in _KINDS:
                operations.append(self._operation(_KINDS[word], line))
                continue
            self._name(word, line)
            following, there = self._next()
            if following == ":":
                self._label(labels, word, line, len(operations))
                kind, line = self._next()
                if kind not in _KINDS:
                    raise InputError("unexpected word", line=line, found=kind, allowed=tuple(_KINDS))
                operations.append(self._operation(_KINDS[kind], line))
            elif following in {"requires", "irequires"}:
                links.append((following, word, self._next()[0], line))
            else:
                raise InputError("unexpected word", line=there, found=following, allowed=(":", "requires", "irequires"))
        for relation, word, other, line in links:
            _link(operations, labels, relation, (word, other), line)
        return operations

    def _label(self, labels: dict[str, int], word: str, line: int, place: int) -> None:
        if word in labels:
            raise InputError(f"the label `{word}` is given twice in a rank", line=line)
        labels[word] = place

    def _name(self, word: str, line: int) -> None:
        if not word:
            raise InputError("the file ends within a rank", line=line, allowed="}")
        if not re.fullmatch(r"[A-Za-z_]\w*", word):
            raise InputError("unexpected word", line=line, found=word, allowed=(*_KINDS, "a label", "}"))

    def _operation(self, kind: int, line: int) -> GoalOperation:
        operation = GoalOperation(kind, self._number("the size", high=MOST // 1000), line=line)
        if kind != CALC:
            self._expect("b")
            self._expect(_PEER[kind])
            operation.peer = self._number("the rank", high=ANY - 1, wild=kind == RECV)
        options = ("tag", "cpu", "nic") if kind != CALC else ("cpu", "nic")
        while self.tokens[self.at][0] in options and self.tokens[self.at + 1][0] not in {":", "requires", "irequires"}:
            word = self._next()[0]
            value = self._number(word, high=ANY - 1, wild=word == "tag")
            operation.tag = value if word == "tag" else operation.tag
        return operation

    def _next(self) -> tuple[str, int]:
        token = self.tokens[self.at]
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def _expect(self, word: str) -> None:
        found, line = self._next()
        if found != word:
            raise InputError("unexpected word", line=line, found=found or "the end of the file", allowed=f"`{word}`")

    def _number(self, what: str, *, low: int = 0, high: int, wild: bool = False) -> int:
        text, line = self._next()
        if wild and text == "-1":
            return ANY
        if not (text.isascii() and text.isdigit()) or len(text) > 19 or not low <= int(text) <= high:
            allowed = f"an integer from {low} to {high}"
            raise InputError(f"{what}: expected a number in range", line=line, found=text, allowed=allowed)
        return int(text)


def _link(
    operations: list[GoalOperation], labels: dict[str, int], relation: str, words: tuple[str, str], line: int
) -> None:
    for word in words:
        if word not in labels:
            raise InputError(f"no operation of the rank is labelled `{word}`", line=line)
    getattr(operations[labels[words[0]]], relation).append(labels[words[1]])


def _binary(data: bytes) -> list[list[GoalOperation]]:
    """The operations of every rank of the binary form.

    Raises:
        InputError: The file ends early, or a number in it points outside.
    """
    base = len(COOKIE)
    ranks = int(_array(data, base, 1, "<u4")[0])
    if not 1 <= ranks <= MOST_HOSTS:
        raise InputError("the number of ranks is out of range", found=ranks, allowed=f"1 to {MOST_HOSTS}")
    table = _array(data, base + 6, 2 * ranks, "<u8").reshape(ranks, 2)
    return [_binary_rank(data, base + int(start), rank) for rank, (start, _) in enumerate(table)]


def _binary_rank(data: bytes, start: int, rank: int) -> list[GoalOperation]:
    count, roots = (int(value) for value in _array(data, start, 2, "<u4"))
    first = start + 8 + 4 * roots
    nodes = _array(data, first, count, _NODE)
    ends = np.concatenate(
        [nodes["after_first"] + nodes["after"].astype(np.int64), nodes["begun_first"] + nodes["begun"].astype(np.int64)]
    )
    followers = _array(data, first + count * _NODE.itemsize, int(ends.max(initial=0)), "<u4")
    if count and not (np.isin(nodes["kind"], list(_KINDS.values())).all() and (followers < count).all()):
        raise InputError(f"rank {rank} has an operation of no kind, or one that follows what is not there")
    if (nodes["size"] > MOST // 1000).any():
        raise InputError(f"rank {rank} has an operation that is too large", found=int(nodes["size"].max()))
    operations = [
        GoalOperation(int(node["kind"]), int(node["size"]), int(node["peer"]), int(node["tag"])) for node in nodes
    ]
    for relation, name in (("requires", "after"), ("irequires", "begun")):
        for place, node in enumerate(nodes):
            begin = int(node[f"{name}_first"])
            for follower in followers[begin : begin + int(node[name])] if node[name] else ():
                getattr(operations[int(follower)], relation).append(place)
    return operations


def _array(data: bytes, start: int, count: int, kind: str | np.dtype[np.void]) -> NDArray[Any]:
    """Numbers out of the file.

    Raises:
        InputError: It ends before them.
    """
    layout = np.dtype(kind)
    if start < 0 or start + count * layout.itemsize > len(data):
        raise InputError(
            "the schedule ends early", found=f"{len(data)} bytes", allowed=f"{start + count * layout.itemsize} bytes"
        )
    return np.frombuffer(data, layout, count, start)
