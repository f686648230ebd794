"""What each member of a collective sends and receives, from the schedule of its algorithm."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from railyard.collective.algorithm import ALGORITHMS
from railyard.engine.lab.blueprint import Script
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from railyard.collective.schedule import Schedule, Send
    from railyard.collective.shape import Shape
    from railyard.graph import CollectiveKind

MOST_PIECES = 32
"""Into which a message is cut, so that what has come can go on while the rest still comes."""


@dataclass(frozen=True)
class Part:
    """One member's part of a collective.

    Attributes:
        script: What it does; connections are numbered as in `to` and `of`.
        to: Positions and lanes to which its connections lead.
        of: Positions and lanes from which they come.
    """

    script: Script
    to: tuple[tuple[int, int], ...]
    of: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Asked:
    """A collective as a library sees it.

    Attributes:
        algorithm: What it runs as.
        kind: What it does.
        shape: Of the communicator.
        wire_bytes: Its size with what the protocol adds.
        rounds: Invocations back to back.
        lanes: Connections to a neighbour, which all carry the same.
        piece_bytes: Into which messages are cut, about.
    """

    algorithm: str
    kind: CollectiveKind
    shape: Shape
    wire_bytes: float
    rounds: int
    lanes: int
    piece_bytes: float


@lru_cache(maxsize=256)
def parts(asked: Asked) -> tuple[Part, ...]:
    """The part of each member, by position.

    Raises:
        InputError: The algorithm wants switches that reduce.
    """
    schedule = ALGORITHMS.get(asked.algorithm).schedule(asked.kind, asked.shape)
    if any(send.source < 0 or send.target < 0 for step in schedule.steps for send in step):
        raise InputError(
            f"`{asked.algorithm}` wants switches that reduce, and those of the lab do not",
            key="collectives.algorithm",
            found=asked.algorithm,
            allowed="an algorithm of ranks alone, such as `ring`",
        )
    members = [_Member() for _ in range(asked.shape.ranks)]
    for lane in range(asked.lanes):
        _lay_out(members, schedule, asked, lane)
    return tuple(member.part(asked.rounds) for member in members)


class _Member:
    """The sends and receives of one member while they are laid out."""

    def __init__(self) -> None:
        self.sends: list[tuple[int, int, tuple[int, ...]]] = []
        self.receives: list[tuple[int, int]] = []
        self.to: dict[tuple[int, int], int] = {}
        self.of: dict[tuple[int, int], int] = {}

    def part(self, rounds: int) -> Part:
        return Part(Script(tuple(self.sends), tuple(self.receives), rounds), tuple(self.to), tuple(self.of))


def _lay_out(members: list[_Member], schedule: Schedule, asked: Asked, lane: int) -> None:
    chunk = schedule.chunk_share * asked.wire_bytes / asked.lanes
    largest = max((len(send.chunks) for step in schedule.steps for send in step), default=1) * chunk
    pieces = max(1, min(MOST_PIECES, math.ceil(largest / asked.piece_bytes)))
    # of each member and chunk: what brought it last, a receive for each piece
    came: list[dict[int, tuple[tuple[int, ...], tuple[int, ...]]]] = [{} for _ in members]
    for step in schedule.steps:
        brought = []
        for send in step:
            waits = _waits(came[send.source], send, pieces)
            receives = _message(members, send, lane, waits, chunk * len(send.chunks))
            brought.append((send, receives))
        for send, receives in brought:
            came[send.target].update(dict.fromkeys(send.chunks, (send.chunks, receives)))


def _waits(came: dict[int, tuple[tuple[int, ...], tuple[int, ...]]], send: Send, pieces: int) -> list[tuple[int, ...]]:
    """The receives that each piece of a message waits for: its like, where the same chunks came together."""
    before = [came[chunk] for chunk in send.chunks if chunk in came]
    together = len(before) == len(send.chunks) and all(chunks == send.chunks for chunks, _ in before)
    if together:
        return [(before[0][1][piece],) for piece in range(pieces)]
    every = tuple(sorted({receive for _, receives in before for receive in receives}))
    return [every] * pieces


def _message(
    members: list[_Member], send: Send, lane: int, waits: list[tuple[int, ...]], size: float
) -> tuple[int, ...]:
    """Adds a message piece by piece to both of its ends; returns the target's receives."""
    source, target = members[send.source], members[send.target]
    out = source.to.setdefault((send.target, lane), len(source.to))
    into = target.of.setdefault((send.source, lane), len(target.of))
    receives, sent = [], 0
    for piece, after in enumerate(waits):
        until = max(piece + 1, round(size * (piece + 1) / len(waits)))
        source.sends.append((out, until - sent, after))
        receives.append(len(target.receives))
        target.receives.append((into, until - sent))
        sent = until
    return tuple(receives)
