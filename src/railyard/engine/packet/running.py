"""Runs traffic over a network packet by packet in the C++ core."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard import _core
from railyard.engine.packet.faults import columns as fault_columns
from railyard.engine.packet.settings import core_options, split
from railyard.graph import Label, Record
from railyard.kit.errors import InputError, Stalled

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from railyard.engine.packet.fabrics import Retuning
    from railyard.engine.packet.records import PacketNetwork, Traffic
    from railyard.engine.packet.settings import Settings
    from railyard.graph.record import Table


def pauses_of_links(outcome: _core.PacketOutcome) -> dict[str, NDArray[Any]]:
    """How links were held back, columns of the table of links; none where switches do not pause."""
    if not len(outcome.link_paused_ps):
        return {}
    return {
        "paused_ps": outcome.link_paused_ps,
        "longest_pause_ps": outcome.link_longest_pause_ps,
        "pauses": outcome.link_pauses,
        "pause_origin": outcome.link_pause_origin,
    }


def pauses_of_flows(outcome: _core.PacketOutcome) -> dict[str, NDArray[Any]]:
    """How flows were held back, columns of their record; none where switches do not pause."""
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
"""What a scheduled fabric counts."""


def counts(found: _core.PacketScheduledCounters) -> dict[str, object]:
    """The core's counts by name.

    Args:
        found: Of a run.

    Returns:
        Those of `SCHEDULED_COUNTS`, and `reorder`: 64 counts of bursts (one in sixteen) by reorder depth, the most
        cells sent later that came before a cell.
    """
    reorder = [int(count) for count in found.reorder]
    return {**{name: int(getattr(found, name)) for name in SCHEDULED_COUNTS}, "reorder": reorder}


MOST_THREADS = 255
_NO_KEYS = np.empty(0, np.uint32)


@dataclass(frozen=True)
class PacketFates:
    """How many packets of which fate.

    Attributes:
        new: Data packets sent for the first time.
        retransmitted: Data packets sent again.
        trimmed: Cut to their header in a switch.
        dropped: Lost in a switch.
        marked: Marked as having met congestion; a packet counts once for every switch that marked it.
        requests: Sender's requests for an answer after timeouts.
        acks: Acknowledgements that reached a sender.
        nacks: Negative ones.
        pulls: Grants of credit.
        timeouts: Retransmission timers that ran out.
        duplicates: Data packets received more than once.
        cnps: Congestion notification packets.
        hops: Links crossed by packets of all kinds.
        lost: On links that were down or made errors, or for want of a route.
        link_retries: Sent again by a link.
        pauses: Pause frames sent, those that let go included.
        credits: Credit packets of links.
    """

    new: int
    retransmitted: int
    trimmed: int
    dropped: int
    marked: int
    requests: int
    acks: int
    nacks: int
    pulls: int
    timeouts: int
    duplicates: int
    cnps: int
    hops: int
    lost: int
    link_retries: int
    pauses: int
    credits: int


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
    # The text is part of the digest: it stays as it is whatever the record's class is called.
    counts = ", ".join(f"{name}={count!r}" for name, count in asdict(PacketFates(**record.meta["packets"])).items())
    hashed.update(f"Packets({counts})".encode())
    return hashed.hexdigest()


def run(
    network: PacketNetwork,
    traffic: Traffic,
    settings: Settings,
    *,
    threads: int = 1,
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
        progress: Called about twenty times a second with (events so far, simulated time in ps).
        retuning: What changes settings while the run goes on, on one thread; of RDMA over switches with PFC.

    Returns:
        One row a flow. `meta` has `packets` (fields of `PacketFates`), `events`, `now_ps` (simulated time at the end),
        `packets_peak` (most packets that existed at once), `threads`, `constants` (what was derived where settings left
        it open: base_rtt_ps, queue_bytes, ecn_low_bytes, ecn_high_bytes, window_bytes, min_rto_ps), and `scheduled`
        (what a scheduled fabric counted) where the fabric is one.

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
            run(network, parts.traffic, single, threads=threads, progress=progress, retuning=retuning),
            traffic,
            settings,
        )
        record.meta["digest"] = digest(record)
        return record
    routes = network.routes
    columns = _core.PacketNetwork(
        hosts=network.hosts,
        nodes=network.nodes,
        link_source=network.link_source,
        link_target=network.link_target,
        rate_bps=network.rate_bps,
        latency_ps=network.latency_ps,
        record_ptr=routes.record_ptr,
        lo=routes.lo,
        hi=routes.hi,
        first=routes.first,
        width=routes.width,
        stride=routes.stride,
        choices=routes.choices,
        salt=_NO_KEYS if network.salt is None else network.salt,
    )
    flows = _core.PacketTraffic(
        source=traffic.source,
        target=traffic.target,
        size_bytes=traffic.size_bytes,
        start_ps=traffic.start_ps,
        dep_ptr=traffic.dep_ptr,
        dep_idx=traffic.dep_idx,
        delay_ps=traffic.delay_ps,
        need=traffic.need,
        dep_at=traffic.dep_at,
        klass=traffic.klass,
        path_key=_NO_KEYS if traffic.path_key is None else traffic.path_key,
        deaf=np.zeros(0, np.uint8) if traffic.deaf is None else traffic.deaf,
        connection=_NO_KEYS if traffic.connection is None else traffic.connection,
        nic_share=np.zeros(0) if traffic.nic_share is None else traffic.nic_share,
    )
    at_ps, link, kind, value = fault_columns(settings.faults)
    try:
        outcome = _core.run_packets(
            columns,
            flows,
            core_options(settings, threads),
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
    packets = PacketFates(
        new=outcome.sent,
        retransmitted=outcome.retransmitted,
        trimmed=outcome.trimmed,
        dropped=outcome.dropped,
        marked=outcome.marked,
        requests=outcome.requests,
        acks=outcome.acks,
        nacks=outcome.nacks,
        pulls=outcome.pulls,
        timeouts=outcome.timeouts,
        duplicates=outcome.duplicates,
        cnps=outcome.cnps,
        pauses=outcome.pauses,
        hops=outcome.hops,
        lost=outcome.lost,
        link_retries=outcome.link_retries,
        credits=outcome.credits,
    )
    constants = ("base_rtt_ps", "queue_bytes", "ecn_low_bytes", "ecn_high_bytes", "window_bytes", "min_rto_ps")
    meta: dict[str, Any] = {
        "engine": "packet",
        "seed": settings.seed,
        "packets": {name: int(count) for name, count in asdict(packets).items()},
        "events": outcome.events,
        "now_ps": outcome.now_ps,
        "packets_peak": outcome.packets_peak,
        "threads": outcome.threads,
        "constants": {name: int(getattr(outcome, name)) for name in constants},
    }
    if settings.switching == "scheduled":
        meta["scheduled"] = counts(outcome.scheduled)
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
