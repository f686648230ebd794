"""The flow-level model of a fabric: load balancing, overhead per packet and hop, cost of sharing."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from railyard.kit.errors import InputError
from railyard.kit.registry import Registry
from railyard.kit.schema import field as f
from railyard.kit.schema.quantity import SIZE, SOME_SHARE, TIME, Provenance, limits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railyard.catalog import Nic


DEEPSEEK_LATENCY = (
    "DeepSeek-V3 hardware paper (ISCA 2025), table 5: 64-byte latency {same} us on one leaf and {cross} us across two "
    "hops more; less 20 m of cable a hop"
)


def vendor(text: str, source: str, year: int) -> Provenance:
    """The vendor's own figure."""
    return Provenance(text, source, year, "vendor")


def measured(text: str, source: str, year: int) -> Provenance:
    """A published measurement."""
    return Provenance(text, source, year, "measured")


def estimated(text: str, source: str, year: int) -> Provenance:
    """Derived, recalled or assumed: a parameter to be calibrated."""
    return Provenance(text, source, year, "estimated")


WIDE = 0.1
"""Spread of slowdowns, flow over packet, from the 10th to the 90th percentile, above which packets should be
simulated.
"""


@dataclass(frozen=True, kw_only=True)
class Behavior:
    """Behavior of a composition of mechanisms.

    Attributes:
        moved_up: If one of several equal uplinks is slower, the share of its excess load that moves to the others: from
            0 (all wait for the slowest) to 1 (each carries what it can).
        moved_down: The same for downlinks, which the switches below do not see.
        remaining_efficiency: Share of the remaining rate that is reached when some equal links are down.
        background_weight: Number of job flows that one flow of other traffic counts as.
        withheld: Share of a link's rate that flows queued for a congested receiver take from others, 0 to 1.
        spread: By situation (`slower link`, `dead spine`, `slow NIC`, `background`, `incast`): 10th and 90th percentile
            of the flow engine's slowdowns over those of packets, minus 1; for `healthy`, `oversubscription` and
            `distance`: of times.
    """

    moved_up: float = 1.0
    moved_down: float = 1.0
    remaining_efficiency: float = 1.0
    background_weight: float = 1.0
    withheld: float = 0.0
    spread: Mapping[str, tuple[float, float]] = field(default_factory=dict, hash=False)

    def uncertain(self, situation: str) -> bool:
        """Whether slowdowns of the flow engine are more than `WIDE` off those of packets, or were not compared."""
        low, high = self.spread.get(situation, (-1.0, 1.0))
        return max(-low, high) > WIDE


OBLIVIOUS = Behavior(moved_up=0.0, moved_down=0.0)
"""Oblivious spraying: every link carries the same load, so all wait for the slowest."""


@cache
def behaviors() -> Mapping[str, Behavior]:
    """Behavior by composition, from packet runs."""
    table = json.loads(files("railyard.cluster.fabric").joinpath("behavior.json").read_text(encoding="utf-8"))
    return {name: _behavior(row) for name, row in table["compositions"].items()}


def _behavior(row: dict[str, Any]) -> Behavior:
    spread = {situation: (float(low), float(high)) for situation, (low, high) in row["spread"].items()}
    return Behavior(**{name: float(value) for name, value in row["values"].items()}, spread=spread)


_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Packets:
    """A fabric as a composition of the packet engine's mechanisms.

    Attributes:
        constants: Constants of mechanisms that differ from their defaults, by name (see `railyard.engine.packet`).
        tree: The same for `railyard packet`, whose default network has no cluster to provide them: rates and latencies
            of links, how a file counts time, a faster interior.
        sources: Sources of the constants.
        left_out: Features of the fabric that its packet model lacks.
    """

    constants: Mapping[str, Any]
    tree: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    sources: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    def with_constants(
        self, *, sources: tuple[str, ...] | None = None, left_out: tuple[str, ...] | None = None, **constants: Any
    ) -> Packets:
        """A copy with other constants, and other sources and gaps if given."""
        return replace(
            self,
            constants={**self.constants, **constants},
            sources=self.sources if sources is None else sources,
            left_out=self.left_out if left_out is None else left_out,
        )


SOURCE_PORTS = ("queue-pair", "pair-of-ports")
CREDITS = ("egress", "site")
LOAD_BALANCING = ("ecmp", "flowlet", "spray", "adaptive", "cells", "ideal")


@dataclass(frozen=True, kw_only=True)
class Fabric:
    """A fabric technology as the flow and analytic engines see it.

    Every number is a parameter with a stated default and a source; see `sources`. `hop_latency_ps` and
    `nic_latency_ps` are one way and without queueing. Efficiencies describe sharing without collisions; collisions come
    only from hashed paths.

    Attributes:
        switches: Catalog names of leaf and spine switches, the usual ones for the rate first.
        families: Switch families that it runs on.
        packets: The packet model of the fabric.
        model_of: The simulator whose fabric model this is; empty: a real fabric. Flows see such a model as the fabric
            that it models.
        behavior: Behavior if links differ or are shared with other traffic; None: from packet runs of its composition.
    """

    name: str
    summary: str
    load_balancing: str = field(
        metadata=f.choice("load_balancing", "How flows find their way over equal-cost links", LOAD_BALANCING)
    )
    header_bytes: int = field(
        metadata=f.size(
            "header",
            "Added to every packet on the wire, preamble and gap included",
            "4 KiB",
            bounds=SIZE.within(
                "0 B", "4 KiB", usual=("20 B", "256 B"), source="Ethernet, IP, UDP and BTH headers with gap: 82 to 94 B"
            ),
        )
    )
    hop_latency_ps: int = field(
        metadata=f.time(
            "hop_latency",
            "One switch with its error correction, without the cable",
            "1 us",
            bounds=TIME.within(
                "0 s",
                "1 s",
                usual=("50 ns", "20 us"),
                source="switch data sheets: 90 ns cut-through to 10 us deep-buffer",
            ),
        )
    )
    nic_latency_ps: int = field(
        metadata=f.time(
            "nic_latency",
            "Sending and receiving NIC with PCIe together, one way",
            "1 us",
            bounds=TIME.within(
                "0 s", "1 s", usual=("100 ns", "100 us"), source="RDMA NICs 1 to 3 us, kernel TCP to 50 us"
            ),
        )
    )
    setup_latency_ps: int = field(
        default=0,
        metadata=f.time(
            "setup_latency",
            "Before the first packet of a message may leave: a credit's round trip",
            "1 us",
            bounds=TIME.within("0 s", "1 s"),
        ),
    )
    credits: str = field(
        default="egress",
        metadata=f.choice(
            "credits",
            "Who grants a message to another site its credit: the egress leaf there, or the border of each site",
            CREDITS,
        ),
    )
    switches: tuple[tuple[str, str], ...]
    families: tuple[str, ...]
    packets: Packets = field(repr=False)
    model_of: str = ""
    qps: int = field(
        default=1,
        metadata=f.count(
            "qps",
            "Queue pairs of a connection, which all carry the same bytes",
            bounds=limits(1, 65_536, usual=(1, 128), source="NCCL_IB_QPS_PER_CONNECTION, 1 to 128"),
        ),
    )
    source_port: str = field(
        default="queue-pair",
        metadata=f.choice(
            "source_port",
            "Whether each queue pair has a UDP source port of its own, or all between two ports one",
            SOURCE_PORTS,
        ),
    )
    e_ecmp: bool = field(
        default=False,
        metadata=f.flag("e_ecmp", "Whether switches hash the number of the queue pair too, whatever its source port"),
    )
    shared_hash: bool = field(
        default=False,
        metadata=f.flag("shared_hash", "Whether all switches hash with one seed, so that tiers choose alike"),
    )
    flowlets: int = field(
        default=8, metadata=f.count("flowlets", "Paths among which a flow's flowlets settle", bounds=limits(1, 65_536))
    )
    mtu_bytes: int = field(
        default=4096,
        metadata=f.size(
            "mtu",
            "Payload of a full packet",
            "4 KiB",
            bounds=SIZE.within(
                "64 B",
                "64 KiB",
                usual=("256 B", "9216 B"),
                source="InfiniBand MTU 256 B to 4 KiB, Ethernet jumbo frames to 9,216 B",
            ),
        ),
    )
    transport_efficiency: float = field(
        default=1.0,
        metadata=f.fraction(
            "transport_efficiency", "What one unhindered flow gets of the rate left by headers", bounds=SOME_SHARE
        ),
    )
    cell_efficiency: float = field(
        default=1.0,
        metadata=f.fraction("cell_efficiency", "Payload share of a cell on links between switches", bounds=SOME_SHARE),
    )
    congestion_efficiency: float = field(
        default=1.0,
        metadata=f.fraction(
            "congestion_efficiency", "Utilization that links between switches reach when saturated", bounds=SOME_SHARE
        ),
    )
    incast_efficiency: float = field(
        default=1.0,
        metadata=f.fraction(
            "incast_efficiency", "Utilization of a receiver's link under many senders", bounds=SOME_SHARE
        ),
    )
    reroute_ps: int = field(
        default=100_000_000_000,
        metadata=f.time(
            "reroute",
            "From a link's death, or return, to routes that know of it everywhere",
            "100 ms",
            bounds=TIME.within("0 s", "1 h"),
        ),
    )
    retransmit_ps: int = field(
        default=0,
        metadata=f.time(
            "retransmit",
            "Until a sender repeats what was lost without a trace; each further try too",
            "4.2 ms",
            bounds=TIME.within("0 s", "1 h"),
        ),
    )
    credit_buffer_bytes: int = field(
        default=0,
        metadata=f.size(
            "credit_buffer",
            "Input buffer of a link for each virtual lane; 0: no link credits",
            "128 KiB",
            bounds=SIZE.within("0 B", "1 GB"),
        ),
    )
    credit_update_bytes: int = field(
        default=0,
        metadata=f.size(
            "credit_update",
            "Space freed before the sender gets new credits",
            "16 KiB",
            bounds=SIZE.within("0 B", "1 GB"),
        ),
    )
    pauses: bool = field(default=False, metadata=f.flag("pauses", "Whether switches pause their neighbours (PFC)"))
    headroom_bytes: int = field(
        default=0,
        metadata=f.size(
            "headroom",
            "Buffer of a link for what comes after a pause; 0: as the switch has",
            "1 MiB",
            bounds=SIZE.within("0 B", "1 GB"),
        ),
    )
    sharp: bool = field(default=False, metadata=f.flag("sharp", "Whether switches reduce in the network"))
    behavior: Behavior | None = field(default=None, repr=False)
    left_out: tuple[str, ...] = ()
    sources: Mapping[str, Provenance] = field(default_factory=dict, compare=False, repr=False)

    def placed_by(self, nic: Nic) -> bool:
        """Whether a NIC orders packets that take several paths here; models of simulators have NICs of their own."""
        needed = self.load_balancing in ("spray", "adaptive") and not self.model_of
        return not needed or nic.out_of_order == "any" or nic.out_of_order in self.families

    @property
    def payload_efficiency(self) -> float:
        """Goodput of one undisturbed flow over line rate, after header and transport overhead."""
        return self.mtu_bytes / (self.mtu_bytes + self.header_bytes) * self.transport_efficiency

    @property
    def end_latency_ps(self) -> int:
        """End latency of a message: both NICs and the setup, one way."""
        return self.nic_latency_ps + self.setup_latency_ps

    @property
    def fabric_efficiency(self) -> float:
        """Usable share of the line rate of links between switches."""
        return self.cell_efficiency * self.congestion_efficiency

    def recovery_ps(self, reroute_ps: int | None = None) -> int:
        """Time from a link's death until its traffic flows again on other paths.

        Packets in flight are lost, and so are further ones until routes are updated. Senders retry whenever their timer
        expires, and succeed with the first retry after that.

        Args:
            reroute_ps: Time until routes are updated; None: the fabric's.
        """
        known = self.reroute_ps if reroute_ps is None else reroute_ps
        return known if self.retransmit_ps <= 0 else -(-known // self.retransmit_ps) * self.retransmit_ps

    @property
    def bundled(self) -> bool:
        """Whether transfers spread so evenly that parallel links act as one."""
        return self.load_balancing in {"spray", "adaptive", "cells"}

    @property
    def hashed(self) -> bool:
        """Whether flows are hashed onto equal links, on which they can collide."""
        return self.load_balancing in {"ecmp", "flowlet"}

    @property
    def composition(self) -> str:
        """Load balancing, flow control and congestion control of its packets, as named in `behavior.json`."""
        given = self.packets.constants
        control = given.get("rdma_control") if given.get("transport") == "rdma" else given.get("congestion_control")
        balancing = "cells" if given.get("switching") == "scheduled" else given.get("load_balancing")
        if self.load_balancing != fabrics.get(self.name).load_balancing:
            balancing = self.load_balancing
        return f"{balancing}, {given.get('switching')}, {control}"

    @property
    def behaves(self) -> Behavior:
        """Behavior if links differ or are shared with other traffic; what was not measured is assumed to cost nothing.

        An oblivious spray is the exception: by its definition no load moves.
        """
        if self.behavior is not None:
            return self.behavior
        plain = OBLIVIOUS if self.composition.startswith("spray, lossy, ") else Behavior()
        return behaviors().get(self.composition, plain)

    @property
    def paths(self) -> int:
        """Number of hashed paths over which one transfer is split."""
        if self.load_balancing == "flowlet":
            return self.qps * self.flowlets
        return self.qps if self.tells_queue_pairs_apart else 1

    @property
    def tells_queue_pairs_apart(self) -> bool:
        """Whether queue pairs between the same two ports may take different paths."""
        return self.e_ecmp or self.source_port == "queue-pair"

    def as_modelled(self, simulator: str, name: str, summary: str, packets: Packets) -> Fabric:
        """This fabric under another name, with a simulator's packet model."""
        timer_ps = packets.constants.get("rdma_rto_ps", self.retransmit_ps)
        return replace(self, name=name, summary=summary, packets=packets, model_of=simulator, retransmit_ps=timer_ps)

    def scaled(self, latency: float) -> Fabric:
        """A copy with all latencies multiplied."""
        return replace(
            self,
            hop_latency_ps=round(self.hop_latency_ps * latency),
            nic_latency_ps=round(self.nic_latency_ps * latency),
            setup_latency_ps=round(self.setup_latency_ps * latency),
        )


@dataclass(frozen=True)
class FabricSpec:
    """A fabric by name, with parameters that override its record.

    Attributes:
        name: Name in the registry `fabrics`.
        overrides: Values by attribute name of `Fabric`, in base units.
    """

    name: str
    overrides: Mapping[str, Any] = field(default_factory=dict)

    @property
    def bound(self) -> bool:
        """Whether it cannot be bought: see `Cluster.is_bound`."""
        return bool(self.overrides.get("load_balancing", fabrics.get(self.name).load_balancing) == "ideal")

    def resolve(self) -> Fabric:
        """The fabric with its overrides.

        Raises:
            InputError: The fabric is unknown, or a value is out of range.
        """
        fabric = replace(fabrics.get(self.name), **self.overrides)
        _at_least_one(fabric.qps, "qps")
        _at_least_one(fabric.flowlets, "flowlets")
        _at_least_one(fabric.mtu_bytes, "mtu")
        for name in ("transport_efficiency", "cell_efficiency", "congestion_efficiency", "incast_efficiency"):
            if not 0 < getattr(fabric, name) <= 1:
                raise InputError("an efficiency is more than 0 and at most 1", key=name, found=getattr(fabric, name))
        return fabric


def _at_least_one(value: int, key: str) -> None:
    if value < 1:
        raise InputError("expected at least 1", key=key, found=value)


fabrics: Registry[Fabric] = Registry("fabric", package="railyard.cluster.fabric")


def bought() -> list[str]:
    """Names of the real fabrics, without simulators' models of them."""
    return [name for name, fabric in fabrics.items() if not fabric.model_of]
