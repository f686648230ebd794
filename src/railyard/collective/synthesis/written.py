"""A schedule that was made for one network as an algorithm of the room: engines play it as they play a ring or a tree.

`msccl:FILE.xml` is the schedule of a file.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.algorithm import ALGORITHMS, Algorithm, Steps
from railyard.collective.policy import PROTOCOLS
from railyard.collective.synthesis.msccl_run import schedule_of, spoken
from railyard.collective.synthesis.network import LinkNetwork
from railyard.collective.synthesis.schedule import SendList, timed
from railyard.collective.timing import kernel_gbs
from railyard.kit.errors import InputError
from railyard.kit.files import read_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from railyard.collective.algorithm import Pattern, Schedule
    from railyard.collective.machine import Case, CollectiveMachine, Shape
    from railyard.graph import CollectiveKind

    Schedules = Callable[[CollectiveKind, Shape], Schedule]

FILE = "msccl:"
_OUT_WEIGHT = 10.0
"""A message through NICs counts as so many inside a domain when the longest chain is looked for: NCCL's constants."""
_UNIT_BYTES = 1e6


def of_file(path: Path) -> Algorithm:
    """The algorithm of a file; its name is known while it is kept.

    Raises:
        InputError: The file is no algorithm, or does not do what it says.
    """
    try:
        return of_text(read_text(path), path.stem)
    except InputError as error:
        raise error.located(file=str(path)) from None


def of_text(text: str, stem: str, pieces: NDArray[np.int64] | None = None) -> Algorithm:
    """The same of the text of an MSCCL file.

    Args:
        text: What such a file holds.
        stem: How it is called in tables, with some digits of its content.
        pieces: int64[ranks, ranks], of an uneven all-to-all the chunks of each pair; None: all have as many.

    Raises:
        InputError: It is no algorithm, or does not do what it says.
    """
    content = text.encode() + (b"" if pieces is None else pieces.tobytes())
    name = f"{FILE}{stem[:16]}-{sha256(content).hexdigest()[:8]}"
    return ALGORITHMS.made(name) or of_schedule(name, schedule_of(text, pieces), spoken(text))


def of_schedule(name: str, schedule: Schedule, protocols: tuple[str, ...] = PROTOCOLS) -> Algorithm:
    """One schedule as an algorithm for as many ranks as it has."""
    only = schedule.ranks

    def refuses(kind: CollectiveKind, shape: Shape, machine: CollectiveMachine) -> str | None:
        del kind, machine
        return None if shape.ranks == only else f"its file is for {only} ranks, and these are {shape.ranks}"

    return make(
        name, f"The schedule {name} for {only} ranks", (schedule.kind,), lambda *_: schedule, refuses, protocols
    )


def make(  # noqa: PLR0917
    name: str,
    summary: str,
    kinds: tuple[CollectiveKind, ...],
    schedule: Schedules,
    refuses: Callable[[CollectiveKind, Shape, CollectiveMachine], str | None],
    protocols: tuple[str, ...] = PROTOCOLS,
) -> Algorithm:
    """Schedules as an algorithm, which engines find by its name while it is kept."""
    kept = lru_cache(maxsize=64)(schedule)
    return ALGORITHMS.make(
        name,
        Algorithm(
            name=name,
            summary=summary,
            kinds=kinds,
            protocols=protocols,
            family="ring",
            refuses=refuses,
            pattern=lru_cache(maxsize=64)(lambda kind, shape: _pattern(kept, kind, shape)),
            steps=lru_cache(maxsize=64)(lambda kind, shape: longest(kept(kind, shape), shape)),
            schedule=kept,
            sources=("microsoft/msccl-tools, 2023; docs/explanation/synthesis.md",),
            written=True,
            fill=lru_cache(maxsize=256)(lambda case: fill(kept(case.kind, case.shape), case)),
        ),
    )


def _pattern(kept: Schedules, kind: CollectiveKind, shape: Shape) -> Pattern:
    return kept(kind, shape).pattern()


@dataclass
class _Chain:
    """The longest way of messages to a chunk at a rank: inside domains, and through NICs."""

    scale_up: int = 0
    scale_out: int = 0

    @property
    def weight(self) -> float:
        return self.scale_up + _OUT_WEIGHT * self.scale_out


def longest(schedule: Schedule, shape: Shape) -> Steps:
    """The messages that follow one another on the longest chain of a schedule."""
    domain = shape.domain_of.tolist()
    found: dict[tuple[int, int], _Chain] = {}
    worst = _Chain()
    for step in schedule.steps:
        arrived = []
        for send in step:
            before = max(
                (found.get((send.source, chunk), _Chain()) for chunk in send.chunks), key=lambda one: one.weight
            )
            out = domain[send.source] != domain[send.target]
            arrived.append((send, _Chain(before.scale_up + (not out), before.scale_out + out)))
        for send, chain in arrived:
            worst = max(worst, chain, key=lambda one: one.weight)
            for chunk in send.chunks:
                here = found.get((send.target, chunk))
                if here is None or not send.reduce or chain.weight > here.weight:
                    found[send.target, chunk] = chain
    return Steps(scale_up=worst.scale_up, scale_out=worst.scale_out)


def fill(schedule: Schedule, case: Case) -> float:
    """Seconds a byte for which a schedule takes longer than its busiest port, without latencies and other traffic.

    Every rank has a port into its domain and one through its NICs, between which nothing binds; a port carries one
    message at a time, and what arrived in full is passed on.
    """
    network, links = _ports(case)
    domain = case.shape.domain_of.tolist()
    sends = SendList(schedule.chunk_share * _UNIT_BYTES, schedule.chunks)
    brought: dict[tuple[int, int], list[int]] = {}
    for step in schedule.steps:
        arrived = []
        for send in step:
            inside = domain[send.source] == domain[send.target]
            way = links[send.source, send.target, inside]
            for chunk in send.chunks:
                at = brought.get((send.source, chunk), [])
                for link in way:
                    at = [sends.add(link, chunk, at, reduce=send.reduce and link == way[-1])]
                arrived.append((send, chunk, at[0]))
        for send, chunk, last in arrived:
            here = (send.target, chunk)
            brought[here] = [*brought.get(here, []), last] if send.reduce else [last]
    done = sends.done()
    load = np.bincount(done.link, minlength=len(network.source)) * done.piece_bytes / network.bytes_per_us
    waits = timed(network, done).finish_us - float(load.max())
    return max(waits, 0.0) / (_UNIT_BYTES * 1e6)


class _Ways:
    """Links from rank to rank, inside a domain or through NICs."""

    def __init__(self, ranks: int, pairs: dict[tuple[int, int], int] | None) -> None:
        self._ranks = ranks
        self._pairs = pairs

    def __getitem__(self, ends: tuple[int, int, bool]) -> list[int]:
        source, target, inside = ends
        if inside and self._pairs is not None:
            return [self._pairs[source, target]]
        first = 0 if inside else 2 * self._ranks
        return [first + source, first + self._ranks + target]


def _ports(case: Case) -> tuple[LinkNetwork, _Ways]:
    """A network of ports: out of and into every rank, into its domain and through its NICs; pairs in a mesh."""
    shape, machine = case.shape, case.machine
    ranks = shape.ranks
    inside = max(min(machine.scale_up_bps, kernel_gbs(case) * 8e9), 1.0) / 8e6
    outside = machine.nic_bps * machine.payload_efficiency / 8e6 * shape.ports / shape.per_domain
    rank = np.arange(ranks)
    source, target = [rank, np.full(ranks, ranks)] * 2, [np.full(ranks, ranks), rank] * 2
    rate = [np.full(2 * ranks, inside), np.full(2 * ranks, outside)]
    pairs = None
    if shape.scale_up == "mesh":
        domain = shape.domain_of
        one, other = np.nonzero((domain[:, None] == domain) & (rank[:, None] != rank))
        pairs = {ends: 4 * ranks + at for at, ends in enumerate(zip(one.tolist(), other.tolist(), strict=True))}
        source, target = [*source, one], [*target, other]
        rate.append(np.full(len(one), inside * machine.measured.mesh_share / machine.peers))
    ends = [np.concatenate(column).astype(np.int32) for column in (source, target)]
    speed = np.concatenate(rate)
    network = LinkNetwork(ends[0], ends[1], speed, np.zeros(len(speed)), np.arange(ranks + 1) == ranks, packets=True)
    return network, _Ways(ranks, pairs)
