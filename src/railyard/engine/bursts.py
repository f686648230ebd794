"""Bursts of other traffic on the back-end: who sends to whom, how much, and when; alike for every engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster

    Ints = NDArray[np.int64]

Pattern = Literal["incast", "permutation", "all-to-all"]
PATTERNS: tuple[Pattern, ...] = ("incast", "permutation", "all-to-all")

MOST_FLOWS = 500_000


@dataclass(frozen=True)
class Bursts:
    """Bursts of one pattern; a slice of a step sees fewer of them, each whole.

    Attributes:
        pattern: `incast`: many ports send to one; `permutation`: each to another; `all-to-all`: each to every other.
        ports: Ports that take part, spread over the cluster; of an incast the senders.
        targets: Ports to which an incast goes, one after another.
        size_bytes: Of every flow.
        every_ps: From one burst to the next.
        klass: Traffic class, 0 to 7; collectives are 0, storage is 1.
        name: What results call it, behind its pattern.
    """

    pattern: Pattern
    ports: int
    size_bytes: int
    every_ps: int
    targets: int = 1
    klass: int = 0
    name: str = "beside"

    def __post_init__(self) -> None:
        if self.pattern not in PATTERNS:
            raise InputError("unknown pattern", key="pattern", found=self.pattern, allowed=PATTERNS)
        if not 0 <= self.klass <= 7:
            raise InputError("no such traffic class", found=self.klass, allowed="0 to 7")
        for name, least in (("ports", 2), ("targets", 1), ("size_bytes", 1), ("every_ps", 1)):
            if getattr(self, name) < least:
                raise InputError("out of range", key=name, found=getattr(self, name), allowed=f"at least {least}")

    def burst(self, ports: Ints, number: int) -> tuple[Ints, Ints]:
        """Sources and targets of one burst among the given ports."""
        if self.pattern == "incast":
            spots = np.linspace(0, len(ports), self.targets, endpoint=False).astype(np.int64)
            target = ports[spots[number % self.targets]]
            source = np.roll(ports, -number)[: self.ports + 1]
            source = source[source != target][: self.ports]
            return source, np.full(len(source), target)
        chosen = ports[np.linspace(0, len(ports), self.ports, endpoint=False).astype(np.int64)]
        if self.pattern == "permutation":
            return chosen, np.roll(chosen, 1 + number % (len(chosen) - 1))
        source, target = np.repeat(chosen, len(chosen)), np.tile(chosen, len(chosen))
        return source[source != target], target[source != target]


class Burst(NamedTuple):
    """One burst: flows of one size that start together.

    Attributes:
        source: int64[flows], sending ports.
        target: int64[flows], receiving ports.
        start_ps: When.
        size_bytes: Of every flow.
        klass: Traffic class.
        word: What results call it.
    """

    source: Ints
    target: Ints
    start_ps: int
    size_bytes: int
    klass: int
    word: str


def fits(cluster: Cluster, background: Sequence[Bursts]) -> None:
    """Checks that the back-end has the ports that bursts need; keys are those of a scenario.

    Raises:
        InputError: It has fewer.
    """
    found = len(_ports(cluster))
    for index, one in enumerate(background):
        for name, most in (("ports", found - (one.pattern == "incast")), ("targets", found)):
            if getattr(one, name) > most:
                key, asked = f"packet.beside.{index}.{name}", getattr(one, name)
                raise InputError("the back-end has fewer ports", key=key, found=asked, allowed=f"at most {most}")


def _ports(cluster: Cluster) -> Ints:
    return np.unique(cluster.back_end.port_of_rank).astype(np.int64)


def until(cluster: Cluster, background: Sequence[Bursts], until_ps: int) -> Iterator[Burst]:
    """The bursts that begin before `until_ps`; the first one of each kind in any case.

    Raises:
        InputError: The cluster has fewer ports, or the bursts have too many flows.
    """
    fits(cluster, background)
    ports = _ports(cluster)
    shuffled = np.random.default_rng(len(ports)).permutation(ports)  # the same ports for every fabric and seed
    for index, one in enumerate(background):
        times = range(one.every_ps, max(until_ps, one.every_ps + 1), one.every_ps)
        each = len(one.burst(shuffled, 0)[0])
        if each * len(times) > MOST_FLOWS:
            found = f"{each} flows, {len(times)} times"
            raise InputError("the bursts have too many flows", key=f"packet.beside.{index}.every", found=found)
        for number, at in enumerate(times):
            yield Burst(*one.burst(shuffled, number), at, one.size_bytes, one.klass, f"{one.pattern} {one.name}")
