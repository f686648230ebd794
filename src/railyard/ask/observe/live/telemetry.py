"""What exporters would have counted in simulated runs, as OpenMetrics: alerts are tried before the cluster exists.

`promtool tsdb create-blocks-from openmetrics FILE` loads it. A record is one step; it is taken to repeat, first as it
should be and, from a moment on, with the fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.observe.diagnosis.peers import routed
from railyard.ask.observe.diagnosis.simulated import measured_graph
from railyard.ask.observe.kernel_names import BUSBW
from railyard.ask.observe.live import prometheus
from railyard.cluster.names import node_name
from railyard.graph import Kind
from railyard.graph.task_graph import CollectiveKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.cluster import Cluster
    from railyard.graph import Record

Key = tuple[tuple[str, str], ...]


def busbw_gbs(record: Record, per_host: int) -> dict[Key, float]:
    """GB/s of every communicator's collectives, the median, by labels as NCCL inspector writes them.

    Args:
        record: A step with its graph.
        per_host: Accelerators of a server.
    """
    graph = record.graph
    found: dict[Key, list[float]] = {}
    for task in np.flatnonzero((graph.kind == Kind.COLLECTIVE) & record.ended).tolist():
        group, size = int(graph.rank[task]), int(graph.size_bytes[task])
        members = graph.communicators.members(group)
        ranks = len(members)
        kind = CollectiveKind(graph.collective[task])
        seconds = float(record.end_ps[task] - record.start_ps[task]) * 1e-12 / max(int(graph.count[task]), 1)
        if seconds <= 0 or ranks < 2 or kind.name.lower() not in BUSBW:
            continue
        labels = {
            "collective": "".join(word.capitalize() for word in kind.name.split("_")),
            "comm_name": f"{graph.communicators.group[group]} {group}",
            "message_size": prometheus.range_of(size),
            "n_nodes": str(len(np.unique(members // per_host))),
            "nranks": str(ranks),
        }
        rate = size * BUSBW[kind.name.lower()](ranks) / seconds / 1e9
        found.setdefault(tuple(sorted(labels.items())), []).append(rate)
    return {key: float(np.median(rates)) for key, rates in found.items()}


def expected_gbs(record: Record, per_host: int) -> dict[Key, float]:
    """What a run as it should be expects, by `metrics.KEYS`: the median over communicators."""
    alike: dict[Key, list[float]] = {}
    for key, rate in busbw_gbs(record, per_host).items():
        alike.setdefault(tuple(label for label in key if label[0] != "comm_name"), []).append(rate)
    return {key: float(np.median(rates)) for key, rates in alike.items()}


def undisturbed(faulty: Record, cluster: Cluster, seed: int) -> Record:
    """The same step with the computations that were measured, on the cluster as it should be.

    Args:
        faulty: A step, with its graph.
        cluster: On which it ran.
        seed: By how much the seed of the switches' hashes may have been moved on.
    """
    said = faulty.meta.get("seed")
    seeds = [seed, *([said] if isinstance(said, int) else [])]
    return routed(measured_graph(faulty), cluster, faulty, seeds).replay()


def openmetrics(
    healthy: Record, faulty: Record, cluster: Cluster, *, start_s: float, fault_s: float, end_s: float, every_s: float
) -> Iterator[str]:
    """Lines of an hour or so, metric by metric.

    Args:
        healthy: A step as it should be.
        faulty: The step with the fault.
        cluster: On which both ran.
        start_s: Unix time of the first sample.
        fault_s: When the fault begins.
        end_s: Of the last sample.
        every_s: From one sample to the next.
    """
    times = np.arange(start_s, end_s, every_s)
    per_host = cluster.ranks_per_server
    rates = busbw_gbs(healthy, per_host), busbw_gbs(faulty, per_host)
    yield f"# TYPE {prometheus.BUSBW} gauge"
    for key in rates[0]:
        for at in times.tolist():
            yield prometheus.line(prometheus.BUSBW, dict(key), rates[at >= fault_s].get(key, 0.0), at)
    yield f"# TYPE {prometheus.EXPECTED} gauge"
    for key, rate in expected_gbs(healthy, per_host).items():
        for at in times.tolist():
            yield prometheus.line(prometheus.EXPECTED, dict(key), rate, at)
    yield f"# TYPE {prometheus.TRANSMITTED.removesuffix('_total')} counter"
    for link, labels in _ports(cluster):
        steps = [record.tables["links"]["bytes"][link] / (record.makespan_ps * 1e-12) for record in (healthy, faulty)]
        for at in times.tolist():
            sent = steps[0] * (min(at, fault_s) - start_s) + steps[1] * max(at - fault_s, 0.0)
            yield prometheus.line(prometheus.TRANSMITTED, labels, max(sent, 0.0), at)
    yield "# EOF"


def _ports(cluster: Cluster) -> Iterator[tuple[int, dict[str, str]]]:
    """Links that leave a NIC, and the labels of node_exporter."""
    network = cluster.back_end
    sources = cluster.links.source[: cluster.links.physical]
    inside = (sources >= network.node_offset) & (sources < network.node_offset + network.ports)
    for link in np.flatnonzero(inside).tolist():
        name = node_name(cluster, int(sources[link])).removeprefix(f"{network.name} ").split()
        yield link, {"instance": f"server-{name[1]}", "device": f"mlx5_{name[3] if len(name) > 3 else 0}", "port": "1"}
