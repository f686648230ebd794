"""What a wrong setting does to a load that no scenario has to describe: packets over four racks, with it and without.

Every port of four leafs sends to the port a `shift` further, shift after shift, as in the job of reference
(`audit.reference`). *Crowded*, one port in eight of each leaf is besides the target of many senders at once: a popular
expert, a checkpoint's writer, a parameter's owner. Even shifts fill no queue where as many ports lead up as down, so
that pauses and headroom change nothing there; under oversubscription they sometimes do, and crowded ports always. What
is compared is the time until the last flow of a rack has ended, in the mean of racks and shifts, on the same drawn
paths.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.cluster.fabric import fabrics
from railyard.engine.packet.fabrics import constants_of
from railyard.engine.packet.faults import LinkFault
from railyard.engine.packet.networks import leaf_spine
from railyard.engine.packet.records import Traffic
from railyard.engine.packet.running import run
from railyard.engine.packet.settings import Settings
from railyard.kit.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from railyard.ask.audit.design.infer import Design
    from railyard.ask.audit.network import Found
    from railyard.ask.audit.symptom import Setting
    from railyard.cluster.fabric import Fabric
    from railyard.engine.packet.records import PacketNetwork


LEAFS = 4
MOST_PORTS = 32
"""Ports of a leaf to servers that are played; as many to spines as the ratio of the real ones leaves."""

SPINES = 4

FLOW_BYTES = 4 << 20
"""Of a shift: a message of a ring or an exchange."""

HOT, SENDERS, BURST_BYTES = 8, 32, 1 << 20
"""One port in so many is crowded, by so many senders of so much each: 32 MB, a layer's gradients or experts."""

SEEDS = (1, 2, 3, 4)
"""Draws of hashed paths, and with each another shift."""


@dataclass(frozen=True)
class Rack:
    """The switches that are played.

    Attributes:
        constants: Of the fabric's packets, by name.
        below, above: Ports of a leaf to servers and to spines.
        rate_bps: Of all of them.
        hop_ps: From one queue to the next.
    """

    constants: tuple[tuple[str, Any], ...]
    below: int
    above: int
    rate_bps: int
    hop_ps: int

    def network(self) -> PacketNetwork:
        """Four leafs with spines, or one switch where there are none above."""
        below = max(min(self.below, MOST_PORTS), 2)
        above = round(self.above * below / max(self.below, 1))
        leafs = LEAFS if above else 1
        spines = max(min(SPINES, above), 1)
        return leaf_spine(
            leafs * below,
            leaf_hosts=below,
            spines=spines,
            cables=max(above // spines, 1),
            rate_bps=self.rate_bps,
            latency_ps=self.hop_ps,
        )

    @property
    def leaf_ports(self) -> int:
        """Of a leaf that is played, to servers."""
        return max(min(self.below, MOST_PORTS), 2)


@dataclass(frozen=True)
class Slower:
    """Time of all racks with a wrong setting over that without: of the draw with least, in the mean, with most."""

    low: float
    mean: float
    high: float


@cache
def slower(rack: Rack, settings: tuple[Setting, ...], *, crowded: bool) -> Slower:
    """What settings of one switch do to the standard load.

    Args:
        rack: The switches.
        settings: What is wrong at one of them.
        crowded: Whether some ports are the targets of many.
    """
    times = [(_played(rack, settings, seed, crowded), _played(rack, (), seed, crowded)) for seed in SEEDS]
    ratio = [wrong / right for wrong, right in times]
    return Slower(min(ratio), sum(wrong for wrong, _ in times) / sum(right for _, right in times), max(ratio))


@cache
def _played(rack: Rack, settings: tuple[Setting, ...], seed: int, crowded: bool) -> float:
    """Time of the racks in the mean, ps."""
    network = rack.network()
    source, target, size = _flows(network.hosts, rack.leaf_ports, seed, crowded)
    traffic = Traffic.of(network.hosts, source, target, size)
    faults = tuple(_faults(network, rack.leaf_ports, settings))
    end = run(network, traffic, Settings(**dict(rack.constants), seed=seed, faults=faults)).end_ps
    racks = network.hosts // rack.leaf_ports
    last = np.zeros(racks)
    for side in (source, target):
        np.maximum.at(last, side // rack.leaf_ports, end)
    if (end < 0).any():
        raise SimulationError("flows of the standard load never end")
    return float(last.mean())


def _flows(hosts: int, ports: int, seed: int, crowded: bool) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """A shift by more than a rack, and what comes to crowded ports from all racks."""
    every = np.arange(hosts)
    shift = (ports // 2 + seed * (ports + 5)) % (hosts - 1) + 1
    rows = [(every, (every + shift) % hosts, np.full(hosts, FLOW_BYTES))]
    if crowded:
        hot = every[seed % HOT :: HOT]
        senders = min(SENDERS, hosts - 1)
        target = np.repeat(hot, senders)
        step = np.tile(1 + np.arange(senders) * max((hosts - 1) // senders, 1), len(hot))
        rows.append(((target + step) % hosts, target, np.full(len(target), BURST_BYTES)))
    source, target, size = (np.concatenate(column) for column in zip(*rows, strict=True))
    return source, target, size


def _faults(network: PacketNetwork, ports: int, settings: Sequence[Setting]) -> Iterator[LinkFault]:
    """Of the first leaf, or the first spine."""
    leafs = network.hosts // ports
    for setting in settings:
        node = network.hosts + (0 if setting.leaf else leafs)
        comes, goes = (np.flatnonzero(ends == node) for ends in (network.link_target, network.link_source))
        into = _some(comes, network.link_source[comes] < network.hosts, setting)
        out = _some(goes, network.link_target[goes] < network.hosts, setting)
        if setting.what == "mark":
            yield from (LinkFault(0, link, "mark", 0.0) for link in out)
        elif setting.what == "headroom":
            yield from (LinkFault(0, link, "headroom", setting.kept) for link in into)
        else:
            yield from (LinkFault(0, link, "pause", 0.0) for link in into)
            yield from (LinkFault(0, link, "obey", 0.0) for link in out)


def _some(links: NDArray[np.int64], hosts: NDArray[np.bool_], setting: Setting) -> list[int]:
    """The wrong ones: as large a part of those below and above as at the real switch."""
    below, above = (links[hosts], links[~hosts]) if setting.leaf else (links, links[:0])
    return [*_spread(below, setting.below), *_spread(above, setting.above)]


def _spread(links: NDArray[np.int64], share: float) -> list[int]:
    count = min(int(np.ceil(share * len(links) - 1e-9)), len(links))
    if not count:
        return []
    found: list[int] = links[np.linspace(0, len(links) - 1, count).round().astype(np.int64)].tolist()
    return found


CROWDED_SHARE = 0.2
"""Of the communication of a job that comes while ports are crowded: an assumption, given with every price."""

CROWDED = f"shifts with {SENDERS}-to-1 incasts on one port in {HOT}"


@dataclass(frozen=True)
class SettingPrice:
    """What settings of one switch cost.

    Attributes:
        loss: Share of the accelerators' time where `CROWDED_SHARE` of communication is crowded, in the mean of draws.
        band: Where none of it is, and where all of it is, in the worst draw.
        words: Engines and loads.
    """

    loss: float
    band: tuple[float, float]
    words: str


def rack_of(found: Found, design: Design, fabric: Fabric | None) -> Rack | None:
    """The rack that stands for a network: ports of its usual leaf; None where nothing of it can be set.

    Args:
        found: The network.
        design: The regular one behind it.
        fabric: What is played; None: `roce`, as switches whose configurations are read usually are.
    """
    played = fabrics.get("roce") if fabric is None else fabric
    constants = constants_of(played)
    if not len(found.access) or constants.get("switching") != "pfc":
        return None
    below = np.unique(found.access_ends[:, 0], return_counts=True)[1]
    first = [block for block in design.blocks if block.tier == 1]
    above = np.concatenate([block.meant.sum(axis=1) for block in first]) if first else np.zeros(1, np.int64)
    rate = int(found.rate_bps[found.access].max(initial=0)) or 400 * 10**9
    ports = int(np.median(below)), int(np.median(above))
    return Rack(tuple(sorted(constants.items())), *ports, rate, int(played.hop_latency_ps))


def priced(rack: Rack, settings: tuple[Setting, ...], loss: Callable[[float], float], load: str) -> SettingPrice:
    """By packets, and by what waits for them.

    Args:
        rack: What the standard load runs on.
        settings: Of one switch.
        loss: Of communication that takes so many times as long.
        load: What that is, in words.
    """
    even, crowded = slower(rack, settings, crowded=False), slower(rack, settings, crowded=True)
    mixed = (1.0 - CROWDED_SHARE) * even.mean + CROWDED_SHARE * crowded.mean
    quiet, busy, most = (loss(max(one, 1.0)) for one in (even.mean, mixed, crowded.high))
    words = (
        f"packets: {CROWDED} take {crowded.mean:.5g} times as long ({crowded.low:.3g} to {crowded.high:.3g} by the draw"
        f" of paths), even shifts {even.mean:.5g} times; {CROWDED_SHARE:.0%} of communication is taken as crowded, none"
        f" and all in the band; {load}"
    )
    return SettingPrice(busy, (min(quiet, busy), max(most, busy)), words)
