"""Other traffic beside a step: bursts of flows between back-end ports that come again and again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

import numpy as np

from railyard.engine.packet.records import Traffic
from railyard.engine.packet.running import run
from railyard.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.engine.packet.assembly import LoweredTraffic
    from railyard.engine.packet.records import PacketNetwork
    from railyard.engine.packet.settings import Settings

    Ints = NDArray[np.int64]

T = TypeVar("T", bound=np.generic)
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
    """

    pattern: Pattern
    ports: int
    size_bytes: int
    every_ps: int
    targets: int = 1
    klass: int = 0

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


def with_background(
    lowered: LoweredTraffic, cluster: Cluster, background: Sequence[Bursts], until_ps: int
) -> LoweredTraffic:
    """The traffic with the bursts that begin before `until_ps`.

    Raises:
        InputError: The cluster has fewer ports, or the bursts have too many flows.
    """
    if not background:
        return lowered
    ports = np.unique(cluster.back_end.port_of_rank).astype(np.int64)
    shuffled = np.random.default_rng(len(ports)).permutation(ports)  # the same ports for every fabric and seed
    parts: list[_Burst] = []
    labels = list(lowered.labels)
    for index, one in enumerate(background):
        if one.ports + (one.pattern == "incast") > len(ports):
            most = len(ports) - (one.pattern == "incast")
            key = f"beside[{index}].ports"
            raise InputError("the back-end has fewer ports", key=key, found=one.ports, allowed=f"at most {most}")
        word = f"{one.pattern} beside"
        if word not in labels:
            labels.append(word)
        times = range(one.every_ps, max(until_ps, one.every_ps + 1), one.every_ps)
        each = len(one.burst(shuffled, 0)[0])
        if each * len(times) > MOST_FLOWS:
            found = f"{each} flows, {len(times)} times"
            raise InputError("the bursts have too many flows", key=f"beside[{index}].every", found=found)
        parts += [
            _Burst(*one.burst(shuffled, number), at, one.size_bytes, one.klass, labels.index(word))
            for number, at in enumerate(times)
        ]
    return _appended(lowered, parts, tuple(labels))


def alone(
    network: PacketNetwork, lowered: LoweredTraffic, first: int, settings: Settings
) -> dict[str, NDArray[np.int64]]:
    """How long the flows of bursts take on a network without the step.

    Args:
        network: The same.
        lowered: The step's traffic with the bursts behind it.
        first: First row of the bursts.
        settings: Those of the run.

    Returns:
        `row`: the flows' rows in the record of flows; `alone_ps`. Nothing where there are no bursts.
    """
    traffic = lowered.traffic
    bursts = len(traffic.source) - first
    if not bursts:
        return {}
    columns = (traffic.source, traffic.target, traffic.size_bytes, traffic.start_ps, traffic.klass)
    source, target, size_bytes, start_ps, klass = (column[first:] for column in columns)
    only = Traffic.of(traffic.hosts, source, target, size_bytes, start_ps=start_ps, klass=klass)
    found = run(network, only, replace(settings, sample_ps=None, sample_links=()))
    flows = int((lowered.label_of >= 0).sum())
    return {"row": np.arange(flows - bursts, flows), "alone_ps": found.end_ps - found.start_ps}


class _Burst(NamedTuple):
    source: Ints
    target: Ints
    start_ps: int
    size_bytes: int
    klass: int
    label: int


def _appended(lowered: LoweredTraffic, parts: list[_Burst], labels: tuple[str, ...]) -> LoweredTraffic:
    counts = [len(part.source) for part in parts]
    more = sum(counts)
    traffic = lowered.traffic

    def repeated(values: list[int], kind: type[T]) -> NDArray[T]:
        return np.repeat(np.array(values, kind), counts)

    grown = replace(
        traffic,
        source=np.concatenate([traffic.source, *(part.source.astype(np.int32) for part in parts)]),
        target=np.concatenate([traffic.target, *(part.target.astype(np.int32) for part in parts)]),
        size_bytes=np.concatenate([traffic.size_bytes, repeated([part.size_bytes for part in parts], np.int64)]),
        start_ps=np.concatenate([traffic.start_ps, repeated([part.start_ps for part in parts], np.int64)]),
        dep_ptr=np.concatenate([traffic.dep_ptr, np.full(more, traffic.dep_ptr[-1])]),
        need=np.concatenate([traffic.need, np.zeros(more, np.int32)]),
        delay_ps=np.concatenate([traffic.delay_ps, np.zeros(more, np.int64)]),
        klass=np.concatenate([traffic.klass, repeated([part.klass for part in parts], np.uint8)]),
    )
    label_of = np.concatenate([lowered.label_of, repeated([part.label for part in parts], np.int32)])
    return replace(lowered, traffic=grown, label_of=label_of, labels=labels)
