"""Runs traffic over a network packet by packet in the C++ core."""

from __future__ import annotations

import hashlib
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

import railyard._core as _core
from railyard.cluster.routes import path_keys
from railyard.engine.background import until
from railyard.engine.packet.faults import columns as fault_columns
from railyard.engine.packet.records import Traffic
from railyard.engine.packet.settings import core_options, split
from railyard.graph import Label, Record
from railyard.kit.errors import InputError, Stalled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.cluster.routes import Routes
    from railyard.engine.background import Burst, Bursts
    from railyard.engine.packet.assembly import LoweredTraffic
    from railyard.engine.packet.fabrics import Retuning
    from railyard.engine.packet.records import PacketNetwork
    from railyard.engine.packet.settings import Settings
    from railyard.graph.record import Table


def pauses_of_links(outcome: _core.PacketOutcome) -> dict[str, NDArray[Any]]:
    """How links were paused, columns of the table of links; none where switches do not pause."""
    if not len(outcome.link_paused_ps):
        return {}
    return {
        "paused_ps": outcome.link_paused_ps,
        "longest_pause_ps": outcome.link_longest_pause_ps,
        "pauses": outcome.link_pauses,
        "pause_origin": outcome.link_pause_origin,
    }


def pauses_of_flows(outcome: _core.PacketOutcome) -> dict[str, NDArray[Any]]:
    """How flows were paused, columns of their record; none where switches do not pause."""
    if not len(outcome.flow_paused_ps):
        return {}
    return {
        "paused_ps": outcome.flow_paused_ps,
        "victim_ps": outcome.flow_victim_ps,
        "victim_of": outcome.flow_victim_origin,
    }


SCHEDULED_COUNTS = {
    "cells": "Cells sent over links between switches, control cells among them.",
    "cells_lost": "Sent over links that were down.",
    "requests": "Requests for credit.",
    "grants": "Credits granted.",
    "pauses": "Times that a leaf paused a host's class.",
    "voq_bytes": "Most bytes in a virtual output queue.",
    "memory_bytes": "Most bytes in the virtual output queues of a leaf.",
    "egress_bytes": "Most bytes that waited for a link to a host.",
    "element_bytes": "Most bytes that waited for a link of a fabric element.",
    "uplink_bytes": "Most bytes that waited for a link from a leaf into the fabric.",
    "cell_wait_ps": "A cell's mean wait for a link, ps.",
    "contexts": "Most queues of which a leaf awaited cells at a time: what reassembly must remember.",
    "bursts_held": "Most whole bursts that waited for an earlier one of their queue.",
}
"""What a scheduled fabric counts. It also has `reorder`: one in sixteen bursts, counted by reorder depth (0 to 63): the
most cells sent later that arrived before a cell of it."""

MOST_THREADS = 255
_KEYS, _BYTES, _SHARES = (np.empty(0, kind) for kind in (np.uint32, np.uint8, np.float64))
_EMPTY = {"salt": _KEYS, "path_key": _KEYS, "connection": _KEYS, "deaf": _BYTES, "nic_share": _SHARES}
"""What the core takes for an optional column that is None."""

FATES = {
    "new": "Data packets sent for the first time.",
    "retransmitted": "Data packets sent again.",
    "trimmed": "Cut to their header in a switch.",
    "dropped": "Lost in a switch.",
    "marked": "Marked as having met congestion; a packet counts once for every switch that marked it.",
    "requests": "Sender's requests for an answer after timeouts.",
    "acks": "Acknowledgements that reached a sender.",
    "nacks": "Negative acknowledgements that reached a sender.",
    "pulls": "Grants of credit.",
    "timeouts": "Retransmission timers that ran out.",
    "duplicates": "Data packets received more than once.",
    "cnps": "Congestion notification packets.",
    "hops": "Links crossed by packets of all kinds.",
    "lost": "Lost on links that were down or made errors, or for lack of a route.",
    "link_retries": "Sent again by a link.",
    "pauses": "Pause frames sent, those that resume included.",
    "credits": "Credit packets of links.",
}
"""Packet counts of a run, in the order that the digest reads them; the core calls `new` `sent`."""

REPEATS = {
    "episodes": "Sets of flows that met nobody else.",
    "repeated": "Of them, those that repeated another exactly and were not simulated.",
    "checked": "Known, and simulated all the same.",
    "replayed": "Begun without packets, and simulated when something new came to them.",
    "hops": "Links that the packets which were not simulated would have crossed; among those of `packets`.",
    "worst_ps": "Most by which a time of the checked or replayed differed from what was expected.",
}
"""What a run counts of its repeats."""

CONSTANTS = ("base_rtt_ps", "queue_bytes", "ecn_low_bytes", "ecn_high_bytes", "window_bytes", "min_rto_ps")
"""What the core derives where the settings leave it open."""


def _columns(of: PacketNetwork | Routes | Traffic, *skip: str) -> dict[str, Any]:
    """The fields of a record by name, as the core takes them."""
    columns = {one.name: getattr(of, one.name) for one in fields(of) if one.name not in skip}
    return {name: _EMPTY[name] if values is None else values for name, values in columns.items()}


def _series(outcome: _core.PacketOutcome, settings: Settings, rate_bps: NDArray[np.int64]) -> dict[str, Table]:
    """Side tables of what was sampled; none where nothing was."""
    times, links, flows = len(outcome.sample_time_ps), settings.sample_links, settings.sample_flows
    if not times:
        return {}
    link = np.asarray(links, np.int32)
    return {
        "sampled_links": {"link": link, "rate_bps": rate_bps[link].astype(np.float64)},
        "queue_series": {
            "time_ps": outcome.sample_time_ps,
            "depth_bytes": outcome.sample_depth_bytes.reshape(times, len(links)),
            "carried_bytes": outcome.sample_carried_bytes.reshape(times, len(links)),
            "marks": outcome.sample_marks.reshape(times, len(links)),
            "paused_ps": outcome.sample_paused_ps.reshape(times, len(links)),
        },
        "sampled_flows": {"flow": np.asarray(flows, np.int32)},
        "flow_series": {
            "time_ps": outcome.sample_time_ps,
            "window_bytes": outcome.sample_window_bytes.reshape(times, len(flows)),
            "rate_bps": outcome.sample_rate_bps.reshape(times, len(flows)),
        },
    }


def digest(record: Record) -> str:
    """A hash of times, bytes of links and every count: the same for the same input and seed on every machine."""
    hashed = hashlib.blake2b(digest_size=16)
    times = (record.start_ps, record.end_ps, record.column("receiver_finish_ps"))
    for column in (*times, record.table("links")["bytes"]):
        hashed.update(np.ascontiguousarray(column, "<i8").data)
    packets = record.meta["packets"]
    hashed.update(f"Packets({', '.join(f'{name}={packets[name]}' for name in FATES)})".encode())
    return hashed.hexdigest()


def run(
    network: PacketNetwork,
    traffic: Traffic,
    settings: Settings,
    *,
    threads: int = 1,
    repeats: bool = True,
    progress: Callable[[int, int], None] | None = None,
    retuning: Retuning | None = None,
) -> Record:
    """Runs the traffic until every flow has finished or `settings.end_ps` has come.

    Args:
        network: Links and routes.
        traffic: Flows.
        settings: Constants.
        threads: At most so many; the result is the same on any number. One where a flow waits for what ends in another
            part of the network than it begins in.
        repeats: Whether what repeats itself exactly is not simulated again (on one thread); the result is the same.
        progress: Called about twenty times a second with (events so far, simulated time in ps).
        retuning: What changes settings while the run goes on, on one thread; of RDMA over switches with PFC.

    Returns:
        One row a flow. `meta` has `packets` (see `FATES`), `events`, `now_ps` (simulated time at the end),
        `packets_peak` (most packets that existed at once), `threads`, `constants` (see `CONSTANTS`), `repeats`
        (see `REPEATS`), and `scheduled` (see `SCHEDULED_COUNTS`) where the fabric is one.

    Raises:
        InputError: Columns that do not fit together, a flow without a path, flows with a dependency cycle.
        Stalled: A deadlock by pauses or credits, or nothing moves any more.
    """
    if not 1 <= threads <= MOST_THREADS:
        raise InputError("number of threads", key="threads", found=threads, allowed=f"1 to {MOST_THREADS}")
    if traffic.hosts != network.hosts:
        raise InputError(
            "traffic is meant for another network", key="hosts", found=traffic.hosts, allowed=network.hosts
        )
    if settings.rdma_qps > 1:
        parts = split(traffic, settings.rdma_qps, settings.mtu_bytes - settings.header_bytes)
        single = replace(settings, rdma_qps=1, sample_flows=parts.sampled(settings.sample_flows))
        record = parts.joined(
            run(network, parts.traffic, single, threads=threads, repeats=repeats, progress=progress, retuning=retuning),
            traffic,
            settings,
        )
        record.meta["digest"] = digest(record)
        return record
    at_ps, link, kind, value = fault_columns(settings.faults)
    try:
        outcome = _core.run_packets(
            _core.PacketNetwork(**_columns(network, "routes"), **_columns(network.routes)),
            _core.PacketTraffic(**_columns(traffic, "hosts")),
            core_options(settings, threads, repeats=repeats),
            failed_links=np.asarray(settings.failed_links, np.int32),
            faults=_core.PacketFaults(at_ps=at_ps, link=link, kind=kind, value=value),
            sample_links=np.asarray(settings.sample_links, np.int32),
            sample_flows=np.asarray(settings.sample_flows, np.int32),
            progress=progress,
            retune_ps=0 if retuning is None else retuning.period_ps,
            retune=None if retuning is None else retuning.hook(settings, len(network.rate_bps)),
        )
    except ValueError as error:
        raise InputError(f"the packet engine refuses its input: {error}") from error
    except _core.PacketStuck as error:
        raise Stalled(str(error)) from error
    meta: dict[str, Any] = {
        "engine": "packet",
        "seed": settings.seed,
        "packets": {name: int(getattr(outcome, "sent" if name == "new" else name)) for name in FATES},
        "events": outcome.events,
        "now_ps": outcome.now_ps,
        "packets_peak": outcome.packets_peak,
        "threads": outcome.threads,
        "constants": {name: int(getattr(outcome, name)) for name in CONSTANTS},
        "repeats": {name: int(getattr(outcome.repeats, name)) for name in REPEATS},
    }
    if settings.switching == "scheduled":
        scheduled = {name: int(getattr(outcome.scheduled, name)) for name in SCHEDULED_COUNTS}
        meta["scheduled"] = {**scheduled, "reorder": [int(count) for count in outcome.scheduled.reorder]}
    record = Record(
        rows="flows",
        who=np.asarray(traffic.source, np.int32),
        what=np.zeros(len(traffic), np.int32),
        start_ps=outcome.start_ps,
        end_ps=outcome.finish_ps,
        size_bytes=np.asarray(traffic.size_bytes, np.int64),
        labels=(Label("", "flow"),),
        optional={
            "target": np.asarray(traffic.target, np.int32),
            "receiver_finish_ps": outcome.receiver_finish_ps,
            **pauses_of_flows(outcome),
        },
        tables={
            "links": {"bytes": outcome.link_bytes.astype(np.float64), **pauses_of_links(outcome)},
            **_series(outcome, settings, network.rate_bps),
        },
        meta=meta,
    )
    meta["digest"] = digest(record)
    return record


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
