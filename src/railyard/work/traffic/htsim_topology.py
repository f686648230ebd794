"""Fat trees as htsim describes them: its `.topo` files and the tree that it builds when none is given.

    Nodes 1024
    Tiers 3
    Podsize 64

    Tier 0
    Downlink_speed_Gbps 100
    Radix_Down 8
    Radix_Up 8
    Downlink_Latency_ns 1000

A tier is named after its switches: 0 the ToRs, 1 the aggregation switches, 2 the cores; `Downlink_...` describes
the links below them, whose other direction is alike. The rules are those of `fat_tree_topology.cpp` of
ultraethernet/uet-htsim. Queue sizes are read and not used: uet-htsim overrides them too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError, did_you_mean
from railyard.work.trace.builder import MOST_HOSTS, integer, lines

if TYPE_CHECKING:
    from pathlib import Path


_HEADER = {"nodes": "Nodes", "tiers": "Tiers", "podsize": "Podsize"}
_TIER = {
    "downlink_speed_gbps": "rate_gbps",
    "radix_down": "down",
    "radix_up": "up",
    "queue_down": "queue_down_bytes",
    "queue_up": "queue_up_bytes",
    "oversubscribed": "oversubscribed",
    "bundle": "bundle",
    "switch_latency_ns": "switch_latency_ns",
    "downlink_latency_ns": "latency_ns",
}
_NEEDED = {"rate_gbps": "Downlink_speed_Gbps", "down": "Radix_Down", "latency_ns": "Downlink_Latency_ns"}


@dataclass(frozen=True)
class TreeTier:
    """The switches of one tier and the links below them.

    Attributes:
        rate_bps: Rate of a link below, each way.
        latency_ps: Of such a link, one way.
        switch_latency_ps: From a packet's arrival at a switch to its egress queue.
        down: Links of a switch to the tier below.
        up: Links of a switch to the tier above; 0 at the top.
        bundle: Parallel links between a switch and one below.
        oversubscribed: Rate below over rate above, as the file says.
    """

    rate_bps: int
    latency_ps: int
    switch_latency_ps: int
    down: int
    up: int
    bundle: int = 1
    oversubscribed: int = 1


@dataclass(frozen=True)
class HtsimTree:
    """A fat tree of two or three tiers, or one switch.

    Attributes:
        pods: Number of pods; 1 below three tiers.
        aggs: Aggregation switches of a pod; 0 with one switch.
        cores: Core switches of the tree; 0 below three tiers.
    """

    hosts: int
    pods: int
    aggs: int
    cores: int
    tiers: tuple[TreeTier, ...]

    @property
    def pod_hosts(self) -> int:
        """Hosts of a pod."""
        return self.hosts // self.pods

    @property
    def tors(self) -> int:
        """ToRs of a pod."""
        return self.pod_hosts // self.tiers[0].down

    @property
    def diameter(self) -> int:
        """Links of the longest path."""
        return 2 * len(self.tiers)

    @property
    def diameter_latency_ps(self) -> int:
        """Latency of links and switches on the longest path, one way."""
        links = 2 * sum(tier.latency_ps for tier in self.tiers)
        switches = 2 * sum(tier.switch_latency_ps for tier in self.tiers) - self.tiers[-1].switch_latency_ps
        return links + switches

    @property
    def oversubscription(self) -> int:
        """Product of what the tiers say, as htsim takes it."""
        product = 1
        for tier in self.tiers[:-1]:
            product *= tier.oversubscribed
        return product


@dataclass
class _TierText:
    """What a file says of a tier, and where it says so."""

    line: int
    values: dict[str, int] = field(default_factory=dict)
    at: dict[str, int] = field(default_factory=dict)

    def get(self, key: str, default: int = 0) -> int:
        return self.values.get(key, default)


@dataclass
class _Sheet:
    header: dict[str, int] = field(default_factory=dict)
    at: dict[str, int] = field(default_factory=dict)
    tiers: dict[int, _TierText] = field(default_factory=dict)
    current: int = -1

    def take(self, words: list[str], line: int) -> None:
        """Reads a line of two words."""
        key = words[0].lower()
        known = (*_HEADER.values(), "Tier", *_TIER)
        if len(words) != 2 or key not in {*_HEADER, "tier", *_TIER}:
            hint = did_you_mean(words[0], known)
            raise InputError("a line is a known word and a number", found=" ".join(words), allowed=known, hint=hint)
        if key in _HEADER:
            if self.tiers:
                raise InputError(f"`{_HEADER[key]}` must stand before the first tier")
            self._once(self.header, self.at, key, words, line, high=MOST_HOSTS)
        elif key == "tier":
            self.current = integer(words[1], "the tier", high=2)
            if self.current in self.tiers:
                raise InputError(f"tier {self.current} is given twice")
            self.tiers[self.current] = _TierText(line)
        else:
            self._attribute(key, words, line)

    def _attribute(self, key: str, words: list[str], line: int) -> None:
        if self.current < 0:
            raise InputError(f"`{words[0]}` must follow a `Tier`")
        if self.current == 2 and key in {"radix_up", "queue_up"}:
            raise InputError("the top tier has no links upwards", found=words[0])
        tier = self.tiers[self.current]
        zero = key in {"switch_latency_ns", "queue_down", "queue_up", "downlink_latency_ns"}
        self._once(tier.values, tier.at, _TIER[key], words, line, low=0 if zero else 1, high=10**9)

    def _once(
        self,
        values: dict[str, int],
        at: dict[str, int],
        key: str,
        words: list[str],
        line: int,
        *,
        high: int,
        low: int = 1,
    ) -> None:
        if key in values:
            raise InputError(f"`{words[0]}` is given twice", hint=f"first in line {at[key]}")
        values[key] = integer(words[1], words[0], low=low, high=high)
        at[key] = line


def read(path: Path) -> HtsimTree:
    """The tree that a `.topo` file describes.

    Raises:
        InputError: The file cannot be read, or describes no tree; with the line.
    """
    sheet = _Sheet()
    for line, text in lines(path):
        words = text.split()
        if words and not words[0].startswith("#"):
            try:
                sheet.take(words, line)
            except InputError as error:
                raise error.located(file=path, line=line) from None
    return _tree(sheet, path)


def _tree(sheet: _Sheet, path: Path) -> HtsimTree:
    for key, name in _HEADER.items():
        if key not in sheet.header:
            raise InputError(f"the header lacks `{name}`", file=path)
    depth = sheet.header["tiers"]
    if depth not in {2, 3}:
        raise InputError("a tree has 2 or 3 tiers", file=path, line=sheet.at["tiers"], found=depth)
    for number in range(depth):
        if number not in sheet.tiers:
            raise InputError(f"there is no section of tier {number}", file=path)
    tiers = tuple(_tier(sheet.tiers[number], path, top=number == depth - 1) for number in range(depth))
    try:
        return shape(sheet.header["nodes"], sheet.header["podsize"], tiers)
    except InputError as error:
        place = sheet.tiers.get({"tier 0": 0, "tier 1": 1, "tier 2": 2}.get(error.problems[0].key or "", -1))
        raise error.located(file=path, line=place.line if place else sheet.at["nodes"]) from None


def _tier(text: _TierText, path: Path, *, top: bool) -> TreeTier:
    needed = dict(_NEEDED) if top else {**_NEEDED, "up": "Radix_Up"}
    for key, name in needed.items():
        if not text.get(key):
            raise InputError(f"the tier lacks `{name}`", file=path, line=text.line)
    return TreeTier(
        rate_bps=text.get("rate_gbps") * 10**9,
        latency_ps=text.get("latency_ns") * 1000,
        switch_latency_ps=text.get("switch_latency_ns") * 1000,
        down=text.get("down"),
        up=0 if top else text.get("up"),
        bundle=text.get("bundle", 1),
        oversubscribed=text.get("oversubscribed", 1),
    )


def shape(hosts: int, pod_hosts: int, tiers: tuple[TreeTier, ...]) -> HtsimTree:
    """The tree of so many hosts, once its numbers are seen to fit.

    Raises:
        InputError: They do not; with the tier as key.
    """
    tor, agg = tiers[0], tiers[1]
    if hosts % pod_hosts:
        raise InputError("the nodes must fill every pod", found=f"{hosts} nodes in pods of {pod_hosts}")
    pods = hosts // pod_hosts
    if len(tiers) == 2 and pods != 1:
        raise InputError("with 2 tiers all nodes are one pod", found=f"{hosts} nodes in pods of {pod_hosts}")
    _fit(pod_hosts % tor.down == 0, 0, f"ToRs of {tor.down} hosts do not fill pods of {pod_hosts}")
    _fit(tor.bundle == 1, 0, "hosts have one link each: `Bundle` of tier 0 must be 1")
    _fit(
        tor.down // tor.up == tor.oversubscribed,
        0,
        f"{tor.down} links down over {tor.up} up is not {tor.oversubscribed}:1",
    )
    _fit(tor.up % agg.bundle == 0, 1, f"{tor.up} uplinks of a ToR do not make bundles of {agg.bundle}")
    aggs = tor.up // agg.bundle
    wanted = pod_hosts // tor.down * agg.bundle
    _fit(agg.down == wanted, 1, f"`Radix_Down` is {agg.down}, but a pod needs {wanted}: its ToRs times `Bundle`")
    if len(tiers) == 2:
        return HtsimTree(hosts, 1, aggs, 0, tiers)
    core = tiers[2]
    _fit(agg.up % core.bundle == 0, 2, f"{agg.up} uplinks of a switch do not make bundles of {core.bundle}")
    per_agg = agg.up // core.bundle
    _fit(core.down == pods * core.bundle, 2, f"`Radix_Down` is {core.down}, but {pods} pods need {pods * core.bundle}")
    return HtsimTree(hosts, pods, aggs, per_agg * aggs, tiers)


def _fit(fits: bool, tier: int, message: str) -> None:
    if not fits:
        raise InputError(message, key=f"tier {tier}")


def k_ary(
    hosts: int, *, rate_bps: int, latency_ps: int = 10**6, switch_latency_ps: int = 0, tiers: int = 3
) -> HtsimTree:
    """The tree that htsim builds without a file: K-ary of three tiers (K^3/4 hosts) or two (K^2/2); or one switch.

    Raises:
        InputError: There is no such tree of so many hosts.
    """
    if tiers not in {1, 2, 3}:
        raise InputError("a tree has 1 to 3 tiers", key="tiers", found=tiers)
    if tiers == 1:
        return HtsimTree(hosts, 1, 0, 0, (TreeTier(rate_bps, latency_ps, switch_latency_ps, down=hosts, up=0),))
    sizes = {_k_ary_hosts(k, tiers): k for k in range(2, 256, 2)}
    if hosts not in sizes:
        near = sorted(sorted(sizes, key=lambda size: abs(size - hosts))[:4])
        raise InputError(
            f"there is no K-ary fat tree of {tiers} tiers with {hosts} hosts",
            allowed="even K: " + ", ".join(map(str, near)) + ", ...",
            hint="give a topology file",
        )
    half = sizes[hosts] // 2
    switch = TreeTier(rate_bps, latency_ps, switch_latency_ps, down=half, up=half)
    top = TreeTier(rate_bps, latency_ps, switch_latency_ps, down=2 * half, up=0)
    if tiers == 2:
        return shape(hosts, hosts, (switch, top))
    return shape(hosts, half * half, (switch, switch, top))


def enough(hosts: int, tiers: int) -> int:
    """Hosts of the smallest K-ary tree with at least so many; the number itself where no tree is that large."""
    if tiers == 1:
        return hosts
    return next((size for k in range(2, 256, 2) if (size := _k_ary_hosts(k, tiers)) >= hosts), hosts)


def _k_ary_hosts(k: int, tiers: int) -> int:
    return k**3 // 4 if tiers == 3 else k**2 // 2
