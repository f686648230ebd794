"""Runs traffic over a network packet by packet in the C++ core."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard import _core
from railyard.engine.packet import pfc
from railyard.engine.packet.control_settings import put_controls, put_user
from railyard.engine.packet.faults import columns as fault_columns
from railyard.engine.packet.link_credit_settings import put_link_credit
from railyard.engine.packet.pulled_settings import PULLED_KEYS
from railyard.engine.packet.queue_pairs import split
from railyard.engine.packet.rdma_settings import put_rdma
from railyard.engine.packet.records import SWITCHINGS, TRANSPORTS
from railyard.engine.packet.scheduled import ScheduledCounts, counts, put_scheduled
from railyard.engine.packet.user.balancer import UserBalancer
from railyard.errors import InputError, SimulationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from railyard.engine.packet.records import PacketNetwork, Settings, Traffic

MOST_THREADS = 255

_CONGESTION = {
    "nscc": _core.PacketCongestion.NSCC,
    "rccc": _core.PacketCongestion.RCCC,
    "nscc+rccc": _core.PacketCongestion.BOTH,
    "constant": _core.PacketCongestion.CONSTANT,
}
_BALANCE = {
    "mixed": _core.PacketBalance.MIXED,
    "reps": _core.PacketBalance.REPS,
    "bitmap": _core.PacketBalance.BITMAP,
    "oblivious": _core.PacketBalance.OBLIVIOUS,
    "single-path": _core.PacketBalance.SINGLE_PATH,
    "adaptive": _core.PacketBalance.ADAPTIVE,
    "flowlet": _core.PacketBalance.FLOWLET,
    "skip": _core.PacketBalance.SKIP,
}
_TRANSPORT = {name: getattr(_core.PacketTransport, name.upper()) for name in TRANSPORTS}
_SWITCHING = {name: getattr(_core.PacketSwitching, name.upper()) for name in SWITCHINGS}


@dataclass(frozen=True)
class Packets:
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


@dataclass(frozen=True, eq=False)
class Samples:
    """What was seen at each sampling time: a row a time, a column a sampled link or flow.

    Attributes:
        time_ps: int64[t].
        depth_bytes: int64[t, links], bytes waiting and in service.
        carried_bytes: int64[t, links], bytes on the wire since the start.
        marks: int64[t, links], packets marked since the start.
        paused_ps: int64[t, links], time stopped by the neighbour since the start.
        window_bytes: int64[t, flows], 0 without a window.
        rate_bps: float64[t, flows], 0 without a rate.
    """

    time_ps: NDArray[np.int64]
    depth_bytes: NDArray[np.int64]
    carried_bytes: NDArray[np.int64]
    marks: NDArray[np.int64]
    paused_ps: NDArray[np.int64]
    window_bytes: NDArray[np.int64]
    rate_bps: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PacketResult:
    """What came of a run. Columns have one row a flow; -1 where the run ended first.

    Attributes:
        start_ps: When the flow started, ps.
        finish_ps: When its sender had the last acknowledgement, ps.
        receiver_finish_ps: When its receiver had the last byte, ps.
        link_bytes: int64[links], bytes on the wire, headers, acknowledgements and retransmissions included.
        packets: Counts of packets.
        events: Events processed.
        now_ps: Simulated time at the end, ps.
        constants: What was derived where settings left it open: base_rtt_ps, queue_bytes, ecn_low_bytes,
            ecn_high_bytes, window_bytes, min_rto_ps.
        packets_peak: Most packets that existed at once.
        samples: Queues and flows in time.
        threads: On which it ran.
        pauses: How links were held back, one row a link.
        scheduled: What a scheduled fabric counted; None for other fabrics.
    """

    start_ps: NDArray[np.int64]
    finish_ps: NDArray[np.int64]
    receiver_finish_ps: NDArray[np.int64]
    link_bytes: NDArray[np.int64]
    packets: Packets
    events: int
    now_ps: int
    constants: dict[str, int]
    packets_peak: int
    samples: Samples
    threads: int
    pauses: pfc.Pauses
    scheduled: ScheduledCounts | None = None

    @property
    def finished(self) -> NDArray[np.bool_]:
        """Which flows have finished."""
        return self.finish_ps >= 0

    @property
    def fct_ps(self) -> NDArray[np.int64]:
        """Flow completion times, from start to the last acknowledgement at the sender, ps; -1 where unfinished."""
        return np.where(self.finished, self.finish_ps - self.start_ps, -1)

    def digest(self) -> str:
        """A hash of every column and count: the same for the same input and seed on every machine."""
        hashed = hashlib.blake2b(digest_size=16)
        for column in (self.start_ps, self.finish_ps, self.receiver_finish_ps, self.link_bytes):
            hashed.update(np.ascontiguousarray(column, "<i8").tobytes())
        hashed.update(repr(self.packets).encode())
        return hashed.hexdigest()


def _options(settings: Settings, threads: int) -> _core.PacketOptions:
    options = _core.PacketOptions()
    options.transport = _TRANSPORT[settings.transport]
    options.switching = _SWITCHING[settings.switching]
    options.congestion = _CONGESTION[settings.congestion_control]
    balance = settings.load_balancing
    options.balance = _core.PacketBalance.USER if isinstance(balance, UserBalancer) else _BALANCE[balance]
    options.queue_packets = settings.queue_packets or 0
    options.ecn_low_packets = -1 if settings.ecn_low is None else settings.ecn_low
    options.ecn_high_packets = -1 if settings.ecn_high is None else settings.ecn_high
    options.paths = settings.path_entropies
    for key in (
        "flowlet_gap_ps",
        "mtu_bytes",
        "header_bytes",
        "trim",
        "seed",
        "sack_bytes",
        "quick_adapt_gate",
        "pull_rate",
        "oversubscription",
        "failed_fraction",
        *PULLED_KEYS,
    ):
        setattr(options, key, getattr(settings, key))
    put_link_credit(options, settings)
    put_rdma(options, settings)
    put_controls(options, settings)
    put_user(options, settings.rdma_control, balance)
    for key in ("window_packets", "base_rtt_ps", "target_delay_ps", "end_ps", "sample_ps"):
        setattr(options, key, getattr(settings, key) or 0)
    options.threads = threads
    options.link_retry = settings.link_retry
    options.reroute_ps = -1 if settings.reroute_ps is None else settings.reroute_ps
    pfc.put(settings, settings.mtu_bytes, options)
    put_scheduled(options, settings)
    return options


def _samples(outcome: _core.PacketOutcome, settings: Settings) -> Samples:
    times = len(outcome.sample_time_ps)
    links, flows = (times, len(settings.sample_links)), (times, len(settings.sample_flows))
    return Samples(
        time_ps=outcome.sample_time_ps,
        depth_bytes=outcome.sample_depth_bytes.reshape(links),
        carried_bytes=outcome.sample_carried_bytes.reshape(links),
        marks=outcome.sample_marks.reshape(links),
        paused_ps=outcome.sample_paused_ps.reshape(links),
        window_bytes=outcome.sample_window_bytes.reshape(flows),
        rate_bps=outcome.sample_rate_bps.reshape(flows),
    )


def run(
    network: PacketNetwork,
    traffic: Traffic,
    settings: Settings,
    *,
    threads: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> PacketResult:
    """Runs the traffic until every flow has finished or `settings.end_ps` has come.

    Args:
        network: Links and routes.
        traffic: Flows.
        settings: Constants.
        threads: At most so many; the result is the same on any number. One where a flow waits for what ends in another
            part of the network than it begins in.
        progress: Called about twenty times a second with (events so far, simulated time in ps).

    Raises:
        InputError: Columns that do not fit together, a flow without a path, flows that wait for each other in a circle.
        SimulationError: A deadlock by pauses or credits, or nothing moves any more.
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
        return parts.joined(run(network, parts.traffic, single, threads=threads, progress=progress))
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
    )
    at_ps, link, kind, value = fault_columns(settings.faults)
    try:
        outcome = _core.run_packets(
            columns,
            flows,
            _options(settings, threads),
            failed_links=np.asarray(settings.failed_links, np.int32),
            faults=_core.PacketFaults(at_ps=at_ps, link=link, kind=kind, value=value),
            sample_links=np.asarray(settings.sample_links, np.int32),
            sample_flows=np.asarray(settings.sample_flows, np.int32),
            progress=progress,
        )
    except ValueError as error:
        raise InputError(f"the packet engine refuses its input: {error}") from error
    except _core.PacketStuck as error:
        raise SimulationError(str(error)) from error
    packets = Packets(
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
    return PacketResult(
        start_ps=outcome.start_ps,
        finish_ps=outcome.finish_ps,
        receiver_finish_ps=outcome.receiver_finish_ps,
        link_bytes=outcome.link_bytes,
        packets=packets,
        events=outcome.events,
        now_ps=outcome.now_ps,
        constants={name: getattr(outcome, name) for name in constants},
        packets_peak=outcome.packets_peak,
        samples=_samples(outcome, settings),
        threads=outcome.threads,
        pauses=pfc.Pauses.of(outcome),
        scheduled=counts(outcome.scheduled) if settings.switching == "scheduled" else None,
    )
