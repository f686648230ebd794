"""Other traffic beside a step: bursts of flows between back-end ports that come again and again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from railyard.cluster.routes import path_keys
from railyard.engine.background import until
from railyard.engine.packet.records import Traffic
from railyard.engine.packet.running import run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.engine.background import Burst, Bursts
    from railyard.engine.packet.assembly import LoweredTraffic
    from railyard.engine.packet.records import PacketNetwork
    from railyard.engine.packet.settings import Settings

T = TypeVar("T", bound=np.generic)


def with_background(
    lowered: LoweredTraffic, cluster: Cluster, background: Sequence[Bursts], until_ps: int
) -> LoweredTraffic:
    """The traffic with the bursts that begin before `until_ps`.

    Raises:
        InputError: The cluster has fewer ports, or the bursts have too many flows.
    """
    if not background:
        return lowered
    parts = list(until(cluster, background, until_ps))
    labels = tuple(dict.fromkeys([*lowered.labels, *(part.word for part in parts)]))
    return _appended(lowered, parts, labels)


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


def _appended(lowered: LoweredTraffic, parts: list[Burst], labels: tuple[str, ...]) -> LoweredTraffic:
    counts = [len(part.source) for part in parts]
    more = sum(counts)
    traffic = lowered.traffic
    # Every flow of a burst has its own path and connection.
    keys, known, number = traffic.path_key, traffic.connection, np.arange(more, dtype=np.uint64)

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
        path_key=None if keys is None else np.concatenate([keys, path_keys(len(traffic) + number)]),
        connection=None
        if known is None
        else np.concatenate([known, known.max(initial=0) + 1 + number.astype(np.uint32)]),
        nic_share=None if traffic.nic_share is None else np.concatenate([traffic.nic_share, np.ones(more)]),
    )
    label_of = np.concatenate([lowered.label_of, repeated([labels.index(part.word) for part in parts], np.int32)])
    return replace(lowered, traffic=grown, label_of=label_of, labels=labels)
