"""A cluster's fabric as settings of the packet engine."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.engine.packet.mechanisms import CONSTANTS
from railyard.engine.packet.placing import base_rtt_ps
from railyard.engine.packet.settings import Settings
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import railyard._core as _core
    from railyard.cluster import Cluster
    from railyard.cluster.fabric import Fabric
    from railyard.engine.packet.assembly import LoweredTraffic


WEIGHT = 16
"""Weight of each class in round robin, all equal. With strict priority the highest would starve the others."""

LANES = 8


def classed(lowered: LoweredTraffic, cluster: Cluster) -> LoweredTraffic:
    """The traffic with the classes of the tenants that send it; storage and what has a class already keeps it."""
    plan = cluster.plans["back_end"]
    if plan.tenancy is None or not plan.tenancy.classes:
        return lowered
    traffic = lowered.traffic
    given = np.full(traffic.hosts, -1, np.int16)
    given[: plan.wiring.ports] = plan.tenancy.classes_of(plan.wiring.port_of, plan.wiring.nodes)[: plan.wiring.ports]
    found = given[traffic.source]
    klass = np.where((traffic.klass == 0) & (found >= 0), found, traffic.klass).astype(np.uint8)
    return replace(lowered, traffic=replace(traffic, klass=klass))


def queues(cluster: Cluster, switching: str) -> dict[str, Any]:
    """Settings that give every class of a tenant a queue, or a virtual lane, with an equal share of each link."""
    tenancy = cluster.plans["back_end"].tenancy
    if tenancy is None or not tenancy.classes:
        return {}
    if switching == "pfc":
        used = {0, *tenancy.classes}
        return {"pfc_weights": [WEIGHT if number in used else 0 for number in range(LANES)]}
    return {"link_credit_lanes": LANES} if switching == "credit" else {}


def unclassed(cluster: Cluster, switching: str) -> Iterator[str]:
    """A sentence where tenants have classes and the fabric has no queues by class."""
    tenancy = cluster.plans["back_end"].tenancy
    if tenancy is not None and tenancy.classes and not queues(cluster, switching):
        yield f"classes of tenants: `{switching}` switching has one queue for all"


TUNABLE = tuple(
    name
    for name, one in CONSTANTS.items()
    if one.mechanism in ("marking", "dcqcn") and one.kind in ("integer", "number")
)
"""Settings that may change: thresholds of switches' marks, constants of DCQCN. Headroom and buffers stay, so that what
is lossless stays so."""


@dataclass(frozen=True)
class Period:
    """What was measured in one period.

    Attributes:
        end_ps: When it ended, simulated time.
        length_ps: How long it was.
        delivered_bytes: Acknowledged in it, of all flows.
        paused_ps: Time that links were paused, of all links together.
        links: Links of the network, each direction one.
        sent, retransmitted, dropped, marked, pauses, cnps: Packets, as in `running.FATES`.
    """

    end_ps: int
    length_ps: int
    delivered_bytes: int
    paused_ps: int
    links: int
    sent: int
    retransmitted: int
    dropped: int
    marked: int
    pauses: int
    cnps: int


@dataclass(frozen=True)
class Retuning:
    """What changes settings, and how often it is asked.

    Attributes:
        period_ps: Between two readings.
        decide: Of what was measured the settings to change (names of `TUNABLE`) and their values; empty: none.
    """

    period_ps: int
    decide: Callable[[Period], Mapping[str, Any]]

    def hook(self, settings: Settings, links: int) -> Callable[[_core.PacketReading, _core.PacketOptions], bool]:
        """What the core calls."""
        names = [one.name for one in fields(Period) if one.name not in ("end_ps", "length_ps", "links")]
        before = dict.fromkeys(names, 0)
        at = [0]

        def called(reading: _core.PacketReading, options: _core.PacketOptions) -> bool:
            now = {name: int(getattr(reading, name)) for name in names}
            measured = {name: now[name] - before[name] for name in names}
            period = Period(reading.now_ps, reading.now_ps - at[0], links=links, **measured)
            before.update(now)
            at[0] = reading.now_ps
            changes = self.decide(period)
            _check(settings, changes)
            for name, value in changes.items():
                constant = CONSTANTS[name]
                options.set(
                    constant.mechanism, constant.field, int(value) if constant.kind == "integer" else float(value)
                )
            return bool(changes)

        return called


def _check(settings: Settings, changes: Mapping[str, Any]) -> None:
    """Refuses what may not change, or is out of range.

    Raises:
        InputError: Says what.
    """
    for name in changes:
        if name not in TUNABLE:
            raise InputError("this setting cannot change during a run", key=name, found=name, allowed=TUNABLE)
    replace(settings, **changes)


ROCE: tuple[Mapping[str, Any], ...] = (
    {"dcqcn_additive_bps": 3.2e8, "dcqcn_increase_interval_ps": 50_000_000},
    {"dcqcn_additive_bps": 4e9, "dcqcn_increase_interval_ps": 10_000_000},
    {"dcqcn_additive_bps": 2e10, "dcqcn_increase_interval_ps": 5_000_000},
)
"""How soon senders of RoCE take their rates back, slowest first; the first is what the fabric `roce` has, so that no
step leads below it."""

PERIOD_PS = 10_000_000
"""Time between two readings: some round trips."""


@dataclass
class Follow:
    """Decides for `railyard.engine.packet.Retuning`.

    Attributes:
        settings: First those for a crowded network, last those for a calm one; each names the same keys.
        crowded: Share of all links beyond which a network is crowded while they stand; calm is below half of it.
        hold: Calm periods after a crowded one before the last settings are taken again.
        short: Periods that these have to last: else the next wait is twice as long.
        longest: Periods of such a wait, at most.
        steps: What was done: end of the period, place on the list, and why.
    """

    settings: Sequence[Mapping[str, Any]] = ROCE
    crowded: float = 0.05
    hold: int = 64
    short: int = 16
    longest: int = 512
    at: int = 0
    steps: list[tuple[int, int, str]] = field(default_factory=list)
    _wait: int = 0
    _left: int = 0
    _lasted: int = 0
    _lost: bool = False

    def __call__(self, period: Period) -> Mapping[str, Any]:
        """Settings to change after a period; empty where none do."""
        if self._lost:
            return {}
        if period.dropped > 0 or period.retransmitted > 0:
            self._lost = True
            return self._go(period, 0, "lost packets")
        self._lasted += 1
        stand = period.paused_ps / period.length_ps / period.links
        if stand > self.crowded:
            if self.at > 0:
                lasted = self._lasted >= self.short
                self._wait = self.hold if lasted else min(self.longest, max(2 * self._wait, self.hold))
            self._left = max(self._wait, self.hold)
            return self._go(period, 0, "links stand")
        if self._left > 0:
            self._left = self._left - 1 if stand < self.crowded / 2 else max(self._left, self.hold)
            return {}
        return self._go(period, len(self.settings) - 1, "room") if period.cnps > 0 else {}

    def _go(self, period: Period, to: int, why: str) -> Mapping[str, Any]:
        if to == self.at:
            return {}
        self.at, self._lasted = to, 0
        self.steps.append((period.end_ps, to, why))
        return self.settings[to]


def following(settings: Settings) -> Retuning:
    """What lets a run's settings follow it: its own first, then those of the list that take rates back sooner.

    Raises:
        InputError: The run has no such settings: it is no RoCE.
    """
    parts = (settings.transport, settings.switching, settings.rdma_control)
    if parts != ("rdma", "pfc", "dcqcn"):
        raise InputError(
            "settings follow a run where DCQCN runs over switches with PFC",
            key="packet.online",
            found=", ".join(map(str, parts)),
            allowed="rdma, pfc, dcqcn: the fabric `roce`",
        )
    own = {name: getattr(settings, name) for name in ROCE[0]}
    sooner = [one for one in ROCE if one["dcqcn_additive_bps"] > own["dcqcn_additive_bps"]]
    return Retuning(PERIOD_PS, Follow((own, *sooner)))


_ANY_ORDER = frozenset({"adaptive", "spray"})
"""Load balancing by which packets of a connection overtake one another."""


def settings_of(cluster: Cluster, fabric: Fabric) -> Settings:
    """The engine's settings for a fabric, usually the cluster's own, on the paths of a cluster."""
    given = {**constants_of(fabric), **_over_distance(cluster, fabric)}
    given |= queues(cluster, given.get("switching", CONSTANTS["switching"].default))
    if given.get("congestion_control") == "constant":
        given["window_packets"] = max(given.get("window_packets", 1), _window_packets(cluster, given))
    return Settings(**given)


def scale_up_settings(cluster: Cluster) -> tuple[Settings, list[str]] | None:
    """Settings of the scale-up fabric's own frames, and what they leave out; None unless one domain is the cluster.

    One link of the model stands for all of an accelerator's: it has their buffers.
    """
    joined = cluster.hardware.joined
    if joined is None or joined.fabric.packets is None or cluster.scale_up.domains > 1:
        return None
    packets = joined.fabric.packets
    given = dict(packets.constants)
    for name in ("link_credit_buffer_bytes", "link_credit_update_bytes"):
        if name in given:
            given[name] *= joined.fabric.links
    return Settings(**given), list(packets.left_out)


PATIENCE = 100
"""Unloaded round trips after which what is out is sent again: NCCL's 4.3 s (timeout 20) are 400 of them at 1,000 km."""


def _over_distance(cluster: Cluster, fabric: Fabric) -> dict[str, Any]:
    """What the ends of long links hold, and how long senders wait: nothing without long links.

    Raises:
        InputError: Credits end at the border of each site.
    """
    plan = cluster.plans["back_end"]
    if plan.border is None:
        return {}
    if fabric.packets.constants.get("switching") == "scheduled" and fabric.credits != "egress":
        raise InputError(
            "the packet engine has one scheduled fabric, whose credits come from the egress leaf of any site",
            key="fabric.credits",
            found=fabric.credits,
            allowed=["egress"],
            hint="use `engine: flow`",
        )
    packets = constants_of(fabric)
    round_ps = base_rtt_ps(cluster, packets["mtu_bytes"], packets["header_bytes"])
    given: dict[str, Any] = {"rdma_rto_ps": max(CONSTANTS["rdma_rto_ps"].default, PATIENCE * round_ps)}
    if fabric.credit_buffer_bytes:
        given["link_credit_reach_ps"] = round(plan.reach_ps)
    if fabric.pauses:
        given["pfc_headroom_most_bytes"] = plan.headroom_left_bytes
    return given


def constants_of(fabric: Fabric) -> dict[str, Any]:
    """The constants of a fabric's packets.

    Where the fabric's record is not the registered one (a scenario gives other queue pairs or another load balancing),
    its packets follow, so that a word means the same on every engine.
    """
    from railyard.cluster.fabric import fabrics

    given = dict(fabric.packets.constants)
    given.setdefault("header_bytes", fabric.header_bytes)
    given.setdefault("mtu_bytes", fabric.mtu_bytes + fabric.header_bytes)
    if given.get("transport") == "rdma":
        given.setdefault("rdma_qps", fabric.qps)
    if fabric.credit_buffer_bytes:
        given.setdefault("link_credit_buffer_bytes", fabric.credit_buffer_bytes)
        given.setdefault("link_credit_update_bytes", fabric.credit_update_bytes)
    if fabric.headroom_bytes:
        given.setdefault("pfc_headroom_bytes", fabric.headroom_bytes)
    known = fabrics.get(fabric.name)
    if fabric.load_balancing != known.load_balancing and fabric.load_balancing in CONSTANTS["load_balancing"].words:
        given["load_balancing"] = fabric.load_balancing
        if given.get("transport") == "rdma":
            given["rdma_out_of_order"] = fabric.load_balancing in _ANY_ORDER
    if fabric.retransmit_ps not in (0, known.retransmit_ps) and given.get("transport") == "rdma":
        given["rdma_rto_ps"] = fabric.retransmit_ps
    return given


def _window_packets(cluster: Cluster, given: Mapping[str, int]) -> int:
    """A constant window that never holds a flow back: two bandwidth-delay products of the longest path."""
    out, _ = cluster.back_end.port_links(int(cluster.back_end.port_of_rank[0, 0]))
    line_bps = float(cluster.links.rate_bps[out].sum())
    bits = base_rtt_ps(cluster, given["mtu_bytes"], given["header_bytes"]) * 1e-12 * line_bps
    return ceil(2 * bits / 8 / given["mtu_bytes"])
