"""Bursts of other traffic on the back-end: who sends to whom, how much, and when; alike for every engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from railyard.errors import InputError

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
        for name, low, high in (("ports", 2, 1 << 20), ("targets", 1, 1 << 20), ("klass", 0, 7)):
            if not low <= getattr(self, name) <= high:
                raise InputError("out of range", key=name, found=getattr(self, name), allowed=f"{low} to {high}")
        for name in ("size_bytes", "every_ps"):
            if getattr(self, name) < 1:
                raise InputError("expected more than 0", key=name, found=getattr(self, name))

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


def until(cluster: Cluster, background: Sequence[Bursts], until_ps: int) -> Iterator[Burst]:
    """The bursts that begin before `until_ps`; the first one of each kind in any case.

    Raises:
        InputError: The cluster has fewer ports, or the bursts have too many flows.
    """
    ports = np.unique(cluster.back_end.port_of_rank).astype(np.int64)
    shuffled = np.random.default_rng(len(ports)).permutation(ports)  # the same ports for every fabric and seed
    for index, one in enumerate(background):
        if one.ports + (one.pattern == "incast") > len(ports):
            most = len(ports) - (one.pattern == "incast")
            key = f"beside[{index}].ports"
            raise InputError("the back-end has fewer ports", key=key, found=one.ports, allowed=f"at most {most}")
        times = range(one.every_ps, max(until_ps, one.every_ps + 1), one.every_ps)
        each = len(one.burst(shuffled, 0)[0])
        if each * len(times) > MOST_FLOWS:
            found = f"{each} flows, {len(times)} times"
            raise InputError("the bursts have too many flows", key=f"beside[{index}].every", found=found)
        for number, at in enumerate(times):
            yield Burst(*one.burst(shuffled, number), at, one.size_bytes, one.klass, f"{one.pattern} {one.name}")
