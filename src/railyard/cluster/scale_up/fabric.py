"""The record of a scale-up fabric: frames, latency in parts, link replay, tiers, and what a library reaches of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from railyard.catalog.types import SCALE_UP_KINDS, Range
from railyard.kit.errors import InputError
from railyard.kit.registry import Registry
from railyard.kit.schema import field as f
from railyard.kit.schema.quantity import LENGTH, RATE, SHARE, SIZE, SOME_SHARE, TIME, Provenance, limits

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from railyard.catalog import Accelerator, Catalog, Server
    from railyard.cluster.fabric.fabric import Packets

_FRAMED = ("frame_bytes", "overhead_bytes", "request_bytes", "response_bytes", "control_share", "access_bytes")
_UPPER = ("upper_loss", "upper_cable_m")

FRAMES = ("flit", "packet", "unpublished")
FLOW_CONTROLS = ("credits", "pfc", "unpublished")

_LATENCY = TIME.within("0 s", "1 ms", usual=("0 s", "2 us"), source="SUE: a round trip of less than 2 us")
_CABLE = LENGTH.within("0 m", "2 km", usual=("0 m", "100 m"), source="copper in a rack; optics across a hall")
_FRAME = SIZE.within("0 B", "64 KiB")
_ACCESS = SIZE.within("1 B", "64 KiB")
_ERRORS = limits(0.0, 1e-3)


@dataclass(frozen=True, kw_only=True)
class ScaleUpFabric:
    """A scale-up fabric as all engines see it; every number has a source in `sources`.

    Rates are ONE WAY. A frame is a flit of fixed size, or a packet that is filled with accesses up to a size. Where
    frames are not published, `framed_share` stands for them.

    Attributes:
        price_usd_per_tbps, power_w_per_tbps: Of switches and cables, for each Tb/s of switch ports, one way.
        packets: The same fabric as packets; None where the frames are not public.
        left_out: What the record does not model.
        sources: Origin of each figure, by attribute.
    """

    name: str
    summary: str
    kind: str = field(metadata=f.choice("kind", "How accelerators of one domain are joined", SCALE_UP_KINDS[:3]))
    link_bps: float = field(
        metadata=f.rate("link_rate", "One link, ONE WAY, error correction out", bounds=RATE.within("1 Gb/s", "1 Pb/s"))
    )
    links: int = field(metadata=f.count("links", "Links of one accelerator", bounds=limits(1, 4096)))
    largest_domain: int = field(
        metadata=f.count("largest_domain", "Accelerators that it joins at most", bounds=limits(2, 1_000_000))
    )
    framing: str = field(
        default="unpublished", metadata=f.choice("framing", "A flit of fixed size, or a packet that is filled", FRAMES)
    )
    frame_bytes: int = field(
        default=0,
        metadata=f.size("frame", "Largest payload of a frame, headers of accesses in", "628 B", bounds=_FRAME),
    )
    overhead_bytes: int = field(
        default=0,
        metadata=f.size("overhead", "Of a frame on the wire beyond its payload, gaps in", "12 B", bounds=_FRAME),
    )
    request_bytes: int = field(
        default=0, metadata=f.size("request", "Header of one access on its way to memory", "8 B", bounds=_FRAME)
    )
    response_bytes: int = field(
        default=0, metadata=f.size("response", "Header of the answer to one access", "4 B", bounds=_FRAME)
    )
    control_share: float = field(
        default=0.0,
        metadata=f.fraction("control_share", "Of the space for headers, what credits take", bounds=SHARE),
    )
    access_bytes: int = field(
        default=256, metadata=f.size("access", "Data of one access of bulk traffic", "256 B", bounds=_ACCESS)
    )
    framed_share: float = field(
        default=0.0,
        metadata=f.fraction(
            "framed_share", "Share of the rate that copies reach, where frames are not published", bounds=SHARE
        ),
    )
    library_share: float = field(
        metadata=f.fraction(
            "library_share", "Of what frames leave, what a collective library reaches", bounds=SOME_SHARE
        )
    )
    bridge_ps: int = field(
        metadata=f.time("bridge", "In both accelerators, from a store to the link and to memory", bounds=_LATENCY)
    )
    link_ps: int = field(metadata=f.time("link", "Link layers and PHYs, error correction in", bounds=_LATENCY))
    switch_ps: int = field(default=0, metadata=f.time("switch", "One switch, port to port", bounds=_LATENCY))
    cable_s_per_m: float = field(default=4.6e-9, metadata=f.delay_per_length("cable_delay", "Of its cables"))
    cable_m: float = field(metadata=f.length("cable", "From an accelerator to its switch or peer", bounds=_CABLE))
    stages: int = field(default=1, metadata=f.count("stages", "Tiers of switches", bounds=limits(1, 2)))
    first_tier: int = field(
        default=0,
        metadata=f.count("first_tier", "Accelerators below one switch of two tiers", bounds=limits(0, 1_000_000)),
    )
    upper_loss: float = field(
        default=0.0, metadata=f.fraction("upper_loss", "Share of the rate lost across the upper tier", bounds=SHARE)
    )
    upper_cable_m: float = field(default=0.0, metadata=f.length("upper_cable", "Between two tiers", bounds=_CABLE))
    reduces: bool = field(default=False, metadata=f.flag("reduces", "Whether its switches add and multicast"))
    flow_control: str = field(
        default="unpublished", metadata=f.choice("flow_control", "What keeps buffers from overflowing", FLOW_CONTROLS)
    )
    replay_frames: int = field(
        default=0,
        metadata=f.count(
            "replay_frames",
            "Frames that a link may have unacknowledged (go-back-N); 0: no replay",
            bounds=limits(0, 65535),
        ),
    )
    bit_errors: float = field(
        default=0.0,
        metadata=f.fraction("bit_errors", "Chance of a wrong bit on a link AFTER error correction", bounds=_ERRORS),
    )
    price_usd_per_tbps: Range = field(default=Range(250.0, 600.0, 1200.0))
    power_w_per_tbps: Range = field(default=Range(10.0, 16.0, 25.0))
    packets: Packets | None = field(default=None, repr=False)
    left_out: tuple[str, ...] = ()
    sources: Mapping[str, Provenance] = field(default_factory=dict, compare=False, repr=False)

    @property
    def rate_bps(self) -> float:
        """All links of one accelerator, bit/s, one way."""
        return self.link_bps * self.links

    def efficiency(self, access_bytes: int | None = None, *, responses: bool = True, credits: bool = True) -> float:
        """Data over line rate when both ways carry writes of one size, and the answers to those of the other way.

        A flit carries accesses as a stream. A packet carries as many whole ones as fit, and at least one.

        Args:
            access_bytes: Data of one access; None takes `access_bytes`.
            responses: Whether the answers to the other way's accesses are counted.
            credits: Whether space for credits is counted.
        """
        if self.framing == "unpublished":
            return self.framed_share
        data = access_bytes or self.access_bytes
        header = self.request_bytes + (self.response_bytes if responses else 0)
        header_bytes = header / (1 - self.control_share) if credits else header
        payload = float(self.frame_bytes)
        if self.framing == "packet":
            payload = max(1, math.floor(self.frame_bytes / (data + header_bytes))) * (data + header_bytes)
        return data / (data + header_bytes) * payload / (payload + self.overhead_bytes)

    def crosses(self, domain: int) -> bool:
        """Whether a domain of that size needs the upper tier."""
        return self.stages > 1 and domain > self.first_tier

    def without_effect(self, given: Collection[str], domain: int) -> tuple[str, ...]:
        """Of the attributes that are given, those that change nothing in a domain, by key and each with why.

        Args:
            given: Names of attributes.
            domain: Accelerators of a domain.
        """
        idle: dict[str, str] = {}
        if self.framing == "unpublished":
            idle |= dict.fromkeys((*_FRAMED, "replay_frames", "bit_errors"), "`framed_share` stands for its frames")
        else:
            idle["framed_share"] = "its frames give that share"
        if self.kind != "switched":
            idle |= dict.fromkeys(("switch_ps", "reduces", "stages", "first_tier", *_UPPER), "it has no switches")
        elif self.stages == 1:
            idle |= dict.fromkeys(("first_tier", *_UPPER), "its switches have one tier (`stages`)")
        elif not self.crosses(domain):
            idle |= dict.fromkeys(_UPPER, f"{domain} accelerators are below one switch (`first_tier`)")
        keys = f.records(type(self))
        return tuple(f"`{keys[name].key}` changes nothing: {why}" for name, why in idle.items() if name in given)

    def one_way_ps(self, domain: int = 2) -> int:
        """From a store on one accelerator to its arrival on another one, no queue, ps.

        Through switches it is the farthest one of the domain, in a torus or mesh a neighbour.
        """
        total = float(self.bridge_ps + self.link_ps)
        if self.kind != "switched":
            return round(total + 1e12 * self.cable_s_per_m * self.cable_m)
        total += self.switch_ps + 2 * 1e12 * self.cable_s_per_m * self.cable_m
        if self.crosses(domain):
            total += 2 * (self.switch_ps + 1e12 * self.cable_s_per_m * self.upper_cable_m)
        return round(total)

    def read_ps(self, data_bytes: int, memory_ps: int, domain: int = 2) -> int:
        """A read of remote memory: there and back, the memory's own time, and the data on one link, ps."""
        sent = (data_bytes + self.response_bytes) * 8e12 / self.link_bps
        return round(2 * self.one_way_ps(domain) + memory_ps + sent)

    def library_bps(self, domain: int = 2) -> float:
        """What a collective library plans with in a domain, bit/s of data, one way."""
        return self.reached_bps(domain) * self.efficiency() * self.library_share

    def reached_bps(self, domain: int = 2) -> float:
        """Rate of one accelerator to the others of a domain, bit/s: less what the upper tier and replay take."""
        kept = self.replay_goodput(self.bit_errors, self.link_round_trip_ps) if self.framing != "unpublished" else 1.0
        return self.rate_bps * (1 - (self.upper_loss if self.crosses(domain) else 0.0)) * kept

    @property
    def link_round_trip_ps(self) -> int:
        """From a frame's end to its acknowledgement on one link: PHYs and cable, there and back."""
        return 2 * round(self.link_ps + 1e12 * self.cable_s_per_m * self.cable_m)

    def switch_tbps(self, domain: int) -> float:
        """Ports of all switches of a domain, Tb/s, one way: two tiers have three times the accelerators' own."""
        if self.kind != "switched":
            return 0.0
        return domain * self.rate_bps / 1e12 * (3 if self.crosses(domain) else 1)

    @property
    def frame_wire_bytes(self) -> int:
        """A full frame on the wire."""
        return self.frame_bytes + self.overhead_bytes

    def replay_buffer(self, round_trip_ps: int, link_bps: float | None = None) -> int:
        """Frames that a link sends in a round trip and must keep to send again."""
        sent_bytes = round_trip_ps * 1e-12 * (link_bps or self.link_bps) / 8
        return math.ceil(sent_bytes / self.frame_wire_bytes - 1e-9)

    def replay_goodput(self, bit_error_rate: float, round_trip_ps: int, link_bps: float | None = None) -> float:
        """Share of a link's rate left by go-back-N: each wrong frame costs all that were sent in a round trip.

        With chance p of a wrong frame and W frames a round trip the share is (1 - p) / (1 + (W - 1) p). (Bertsekas and
        Gallager, Data Networks, section 2.4.) A smaller window N sends N frames a round trip and loses at most those:
        N / W (1 - p) / (1 + (N - 1) p), which is ours and takes frames as spread over the round trip.
        """
        wrong = -math.expm1(8 * self.frame_wire_bytes * math.log1p(-bit_error_rate))
        frames = max(1.0, round_trip_ps * 1e-12 * (link_bps or self.link_bps) / 8 / self.frame_wire_bytes)
        sent = min(frames, self.replay_frames or frames)
        return sent / frames * (1 - wrong) / (1 + (sent - 1) * wrong)


scale_ups: Registry[ScaleUpFabric] = Registry("scale-up fabric", package="railyard.cluster.scale_up")


@dataclass(frozen=True)
class ScaleUpSpec:
    """What joins the accelerators of a domain, in place of the server's own fabric.

    Attributes:
        fabric: Name in the registry `scale_ups`; empty takes the rack's, and without a rack the accelerator's own.
        rack: Catalogue name of a rack: its fabric, its links of an accelerator, its domain; empty for none.
        domain: Accelerators of a domain; None takes the rack's, and without a rack the server's.
        overrides: Values by attribute name of `ScaleUpFabric`, in base units.
    """

    fabric: str = ""
    rack: str = ""
    domain: int | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)

    def joined(self, accelerator: Accelerator, server: Server, catalog: Catalog) -> JoinedScaleUp:
        """The accelerator and server of the catalogue as the fabric joins them.

        Raises:
            InputError: A name is unknown, nothing names a fabric, or the domain does not fit.
        """
        rack = catalog.rack(self.rack) if self.rack else None
        name = self.fabric or (rack.fabric if rack else accelerator.scale_up_fabric)
        if name == "none":
            raise InputError(
                f"no fabric is known for the links of {accelerator.name}",
                key="scale_up.fabric",
                allowed=scale_ups.names(),
                hint="name one",
            )
        given = dict(self.overrides)
        if rack is not None and rack.fabric == name:
            given = {"links": rack.links, **given}
        elif accelerator.scale_up_fabric == name and accelerator.scale_up_links:
            given = {"links": accelerator.scale_up_links, **given}
        fabric = replace(scale_ups.get(name), **given)
        _check_frames(fabric)
        domain = self.domain or (rack.accelerators if rack else server.scale_up_domain)
        _check_domain(fabric, domain, server)
        own = accelerator.scale_up_fabric
        nearer = fabric if own == "none" else scale_ups.get(own)
        nearer_ps = nearer.one_way_ps(domain if own == "none" else server.scale_up_domain)
        replaces = name != own or domain > server.scale_up_domain
        return JoinedScaleUp(
            fabric=fabric,
            accelerator=replace(
                accelerator,
                scale_up_kind=fabric.kind,
                scale_up_domain=domain,
                scale_up_bps=fabric.reached_bps(domain),
                scale_up_collective_bps=fabric.library_bps(domain),
                scale_up_links=domain - 1 if fabric.kind == "mesh" else fabric.links,
                scale_up_latency_ps=fabric.one_way_ps(domain),
                nvls=fabric.reduces,
                scale_up_fabric=name,
            ),
            server=replace(server, scale_up_domain=domain),
            longer_ps=fabric.one_way_ps(domain) - nearer_ps,
            replaces=replaces,
            bought_tbps=fabric.switch_tbps(domain) if replaces else 0.0,
            without_effect=fabric.without_effect(self.overrides, domain),
        )


@dataclass(frozen=True)
class JoinedScaleUp:
    """A fabric in a server's place.

    Attributes:
        longer_ps: One way, by how much it takes longer than the accelerator's own links; what libraries measured there
            changes by that.
        replaces: Whether it is not what the server's price contains.
        bought_tbps: Switch ports of a domain that are not part of the server's price, Tb/s, one way.
        without_effect: What the scenario says of it and changes nothing.
    """

    fabric: ScaleUpFabric
    accelerator: Accelerator
    server: Server
    longer_ps: int
    replaces: bool
    bought_tbps: float
    without_effect: tuple[str, ...]


def _check_frames(fabric: ScaleUpFabric) -> None:
    """A rate for data needs frames with room for data, or the share that stands for them."""
    if fabric.framing == "unpublished":
        key, room = "framed_share", fabric.framed_share > 0
    else:
        key, room = ("frame", False) if not fabric.frame_bytes else ("control_share", fabric.control_share < 1)
    if not room:
        raise InputError(f"`{fabric.name}` has no room for data", key=f"scale_up.{key}")


def _check_domain(fabric: ScaleUpFabric, domain: int, server: Server) -> None:
    if not 2 <= domain <= fabric.largest_domain:
        raise InputError(
            f"`{fabric.name}` joins 2 to {fabric.largest_domain:,} accelerators", key="scale_up.domain", found=domain
        )
    small, large = sorted((domain, server.accelerators))
    if large % small:
        raise InputError(
            f"a domain divides the {server.accelerators} accelerators of {server.name}, or is a multiple of them",
            key="scale_up.domain",
            found=domain,
            hint=f"nearest possible: {max(domain // server.accelerators, 1) * server.accelerators}",
        )
