"""What the packet engine takes: a network of directed links, flows, and the constants of the transport."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np

from railyard.engine.packet.control_settings import CHOICES as CONTROL_CHOICES
from railyard.engine.packet.control_settings import ControlSettings
from railyard.engine.packet.link_credit_settings import LinkCreditSettings
from railyard.engine.packet.pfc import PfcSettings
from railyard.engine.packet.pulled_settings import PulledSettings
from railyard.engine.packet.rdma_settings import CHOICES as RDMA_CHOICES
from railyard.engine.packet.rdma_settings import RdmaSettings
from railyard.engine.packet.scheduled import ScheduledSettings
from railyard.engine.packet.user.balancer import UserBalancer
from railyard.engine.packet.user.control import UserControl
from railyard.errors import InputError, suggest

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from railyard.cluster.routing import RoutingTable
    from railyard.engine.packet.faults import Fault
    from railyard.engine.packet.user.compiling import Functions

CongestionControl = Literal["nscc", "rccc", "nscc+rccc", "constant"]
LoadBalancing = Literal["mixed", "reps", "bitmap", "oblivious", "single-path", "adaptive", "flowlet", "skip"]
Transport = Literal["uec", "rdma", "eqds", "ndp"]
Switching = Literal["lossy", "pfc", "credit", "scheduled"]

Scalar = TypeVar("Scalar", bound=np.generic)

AT_SENDER, AT_RECEIVER = 0, 1
"""When a dependency on a flow is done: its sender has the last acknowledgement; its receiver has every byte."""

CONGESTION_CONTROLS: tuple[CongestionControl, ...] = ("nscc", "rccc", "nscc+rccc", "constant")
LOAD_BALANCINGS: tuple[LoadBalancing, ...] = (
    "mixed",
    "reps",
    "bitmap",
    "oblivious",
    "single-path",
    "adaptive",
    "flowlet",
    "skip",
)
TRANSPORTS: tuple[Transport, ...] = ("uec", "rdma", "eqds", "ndp")
SWITCHINGS: tuple[Switching, ...] = ("lossy", "pfc", "credit", "scheduled")


@dataclass(frozen=True, eq=False)
class Routes:
    """Interval routing as plain arrays; see `railyard.cluster.routing` for what a record says.

    Attributes:
        record_ptr: int64[nodes + 1], records of a node.
        lo: int32[records], first host.
        hi: int32[records], one past the last host.
        first: int64[records], index into `choices`.
        width: int32[records], equal-cost links of a group.
        stride: int32[records], hosts of a group.
        choices: int32[], links.
    """

    record_ptr: NDArray[np.int64]
    lo: NDArray[np.int32]
    hi: NDArray[np.int32]
    first: NDArray[np.int64]
    width: NDArray[np.int32]
    stride: NDArray[np.int32]
    choices: NDArray[np.int32]

    @classmethod
    def of(cls, table: RoutingTable) -> Routes:
        """The arrays of a cluster network's table."""
        return cls(table.node_ptr, table.lo, table.hi, table.first, table.width, table.stride, table.choices)


@dataclass(frozen=True, eq=False)
class PacketNetwork:
    """Directed links between nodes. Nodes `0..hosts-1` are hosts (NIC ports), the rest switches.

    Attributes:
        hosts: Number of hosts.
        nodes: Hosts and switches.
        link_source: int32[links], the node that a link leaves.
        link_target: int32[links], the node to which it leads.
        rate_bps: int64[links], bit/s.
        latency_ps: int64[links], from the last bit's departure to its arrival at the next queue, ps.
        routing: A cluster network's routing table or plain arrays.
    """

    hosts: int
    nodes: int
    link_source: NDArray[np.int32]
    link_target: NDArray[np.int32]
    rate_bps: NDArray[np.int64]
    latency_ps: NDArray[np.int64]
    routing: RoutingTable | Routes

    @property
    def links(self) -> int:
        """Number of directed links."""
        return len(self.link_source)

    @property
    def routes(self) -> Routes:
        """The routes as plain arrays."""
        return self.routing if isinstance(self.routing, Routes) else Routes.of(self.routing)


def _column(values: ArrayLike, kind: type[Scalar], length: int, name: str) -> NDArray[Scalar]:
    column = np.ascontiguousarray(np.broadcast_to(np.asarray(values), (length,)) if np.ndim(values) == 0 else values)
    if column.ndim != 1 or len(column) != length:
        raise InputError(
            f"column {name} must have one row a flow", key=name, found=column.shape, allowed=f"({length},)"
        )
    return column.astype(kind, copy=False)


@dataclass(frozen=True, eq=False)
class Traffic:
    """Flows, one row each.

    Attributes:
        hosts: Hosts of the network they are meant for.
        source: int32[flows], sending host.
        target: int32[flows], receiving host.
        size_bytes: int64[flows], payload bytes.
        start_ps: int64[flows], when the flow starts, ps; -1: after its dependencies.
        dep_ptr: int64[flows + 1], the dependencies of flow `f` are `dep_idx[dep_ptr[f]:dep_ptr[f + 1]]`.
        dep_idx: int32[], the flows that they are.
        delay_ps: int64[flows], time from the last of them to the start, ps. A row whose source is its target is work of
            that host and takes this time and no bandwidth.
        need: int32[flows], how many of its dependencies must be done; as a rule all.
        dep_at: uint8[len(dep_idx)], when a dependency is done: 0 when its sender has the last acknowledgement, 1 when
            its receiver has every byte.
        klass: uint8[flows], traffic class, 0..7.
    """

    hosts: int
    source: NDArray[np.int32]
    target: NDArray[np.int32]
    size_bytes: NDArray[np.int64]
    start_ps: NDArray[np.int64]
    dep_ptr: NDArray[np.int64]
    dep_idx: NDArray[np.int32]
    delay_ps: NDArray[np.int64]
    need: NDArray[np.int32]
    dep_at: NDArray[np.uint8]
    klass: NDArray[np.uint8]

    @property
    def travels(self) -> NDArray[np.bool_]:
        """bool[flows], rows that use the network."""
        return np.asarray(self.source != self.target)

    @classmethod
    def of(
        cls,
        hosts: int,
        source: ArrayLike,
        target: ArrayLike,
        size_bytes: ArrayLike,
        *,
        start_ps: ArrayLike = 0,
        klass: ArrayLike = 0,
    ) -> Traffic:
        """Flows without dependencies; single numbers are repeated for all flows.

        Raises:
            InputError: Columns of different lengths.
        """
        count = max(np.size(source), np.size(target), np.size(size_bytes), np.size(start_ps))
        return cls(
            hosts=hosts,
            source=_column(source, np.int32, count, "source"),
            target=_column(target, np.int32, count, "target"),
            size_bytes=_column(size_bytes, np.int64, count, "size_bytes"),
            start_ps=_column(start_ps, np.int64, count, "start_ps"),
            dep_ptr=np.zeros(count + 1, np.int64),
            dep_idx=np.zeros(0, np.int32),
            delay_ps=np.zeros(count, np.int64),
            need=np.zeros(count, np.int32),
            dep_at=np.zeros(0, np.uint8),
            klass=_column(klass, np.uint8, count, "klass"),
        )

    def after(
        self,
        flow: ArrayLike,
        before: ArrayLike,
        *,
        at: ArrayLike = AT_SENDER,
        need: ArrayLike | None = None,
        delay_ps: ArrayLike | None = None,
    ) -> Traffic:
        """The same flows, of which some wait for others; replaces what they waited for.

        Args:
            flow: Flows that wait, one row a dependency.
            before: For which flows.
            at: `AT_SENDER` or `AT_RECEIVER`, one a dependency or one for all.
            need: One a flow: how many of its dependencies must be done; all by default.
            delay_ps: One a flow, ps; as it was by default.

        Raises:
            InputError: Columns of different lengths.
        """
        waiting = np.asarray(flow, np.int64)
        order = np.argsort(waiting, kind="stable")
        counts = np.bincount(waiting, minlength=len(self))
        delay = self.delay_ps if delay_ps is None else delay_ps
        return replace(
            self,
            start_ps=np.where(counts > 0, -1, self.start_ps),
            dep_ptr=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
            dep_idx=_column(before, np.int32, len(waiting), "before")[order],
            dep_at=_column(at, np.uint8, len(waiting), "at")[order],
            need=_column(counts if need is None else need, np.int32, len(self), "need"),
            delay_ps=_column(delay, np.int64, len(self), "delay_ps"),
        )

    def __len__(self) -> int:
        return len(self.source)


_OPEN: dict[str, type[Functions]] = {"rdma_control": UserControl, "load_balancing": UserBalancer}
"""Settings that may be functions of the user's own in place of a word."""


@dataclass(frozen=True)
class Settings(LinkCreditSettings, PfcSettings, RdmaSettings, ControlSettings, ScheduledSettings, PulledSettings):
    """Constants of the transport and of the switches. Defaults are those of uet-htsim (commit 40ccb05).

    Those of switches with classes and pause frames stand with `PfcSettings`, of links with credits with
    `LinkCreditSettings`, of scheduled fabrics with `ScheduledSettings`.

    Attributes:
        transport: What hosts speak.
        switching: What happens where more comes to an egress than leaves it.
        congestion_control: `nscc` (window at the sender), `rccc` (credit by the receiver), both, or `constant` window.
        load_balancing: Who chooses among equal-cost paths and how: a name, or a `UserBalancer`.
        flowlet_gap_ps: A pause of a flow after which its next packet may take another path (flowlet), ps.
        mtu_bytes: A full packet, header included.
        header_bytes: Header, acknowledgement, trimmed packet.
        queue_packets: Full packets that an egress queue holds; None: one bandwidth-delay product with trimming, else 5.
        ecn_low: Packets left in the queue above which some departing packets are marked; None: 0.2 of that product.
        ecn_high: Packets above which all are; None: 0.8.
        trim: A full queue cuts packets to their headers; else it drops them.
        seed: Of all random choices.
        path_entropies: Entropy values a flow uses; a power of two.
        sack_bytes: Bytes a receiver accepts before it acknowledges unasked.
        window_packets: First window, packets; None: 1.5 bandwidth-delay products.
        base_rtt_ps: Unloaded round trip of the longest path, ps; None: from the network.
        target_delay_ps: Queueing delay that NSCC aims at, ps; None: 0.75 base round trips with trimming, else 1.
        quick_adapt_gate: NSCC's quick adapt acts below the greatest window / 2^gate.
        pull_rate: Share of the line rate that RCCC grants.
        oversubscription: Of the fabric; above 1 RCCC receivers slow down by marks and by trims before the last hop.
        failed_links: Links that keep only a part of their rate, queue and thresholds.
        failed_fraction: That part.
        end_ps: Simulated time at which the run ends whatever has finished, ps; None: never.
        faults: What happens to links in time; see `railyard.engine.packet.faults`.
        reroute_ps: From the end or return of a link to routes that know of it, ps; None: they never do.
        link_retry: Links send again what arrives wrong; else it is lost.
        sample_ps: Time between samples of queues and flows, ps; None: none are taken.
        sample_links: Links that are sampled.
        sample_flows: Flows that are sampled.
    """

    transport: Transport = "uec"
    switching: Switching = "lossy"
    congestion_control: CongestionControl = "nscc"
    load_balancing: LoadBalancing | UserBalancer = "mixed"
    flowlet_gap_ps: int = 10_000_000
    mtu_bytes: int = 4150
    header_bytes: int = 64
    queue_packets: int | None = None
    ecn_low: int | None = None
    ecn_high: int | None = None
    trim: bool = True
    seed: int = 0
    path_entropies: int = 64
    sack_bytes: int = 16384
    window_packets: int | None = None
    base_rtt_ps: int | None = None
    target_delay_ps: int | None = None
    quick_adapt_gate: int = 3
    pull_rate: float = 0.99
    oversubscription: float = 1.0
    failed_links: tuple[int, ...] = ()
    failed_fraction: float = 0.25
    end_ps: int | None = None
    faults: tuple[Fault, ...] = ()
    reroute_ps: int | None = 50_000_000
    link_retry: bool = False
    sample_ps: int | None = None
    sample_links: tuple[int, ...] = ()
    sample_flows: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for key, allowed in (
            ("transport", TRANSPORTS),
            ("switching", SWITCHINGS),
            ("congestion_control", CONGESTION_CONTROLS),
            ("load_balancing", LOAD_BALANCINGS),
            *RDMA_CHOICES.items(),
            *CONTROL_CHOICES.items(),
        ):
            found = getattr(self, key)
            if key in _OPEN and isinstance(found, _OPEN[key]):
                continue
            if found not in allowed:
                near = suggest(str(found), allowed)
                hint = f"did you mean {near!r}?" if near else None
                raise InputError(f"unknown {key.replace('_', ' ')}", key=key, found=found, allowed=allowed, hint=hint)
