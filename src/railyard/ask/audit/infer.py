"""The regular design that explains a network best, and how sure that is."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.audit.blocks import ClosBlock, PortMap, blocks, levels
from railyard.cluster.network_table import natural

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster.network_table import NetworkTable


GROUP = 3
"""Hosts that must have the same leafs before they say anything of another."""

AGREED = 0.6
"""Share of a group's hosts that have a port on the same leaf."""

_NAMELESS = re.compile(r"MT\d+|localhost.*|ubuntu|host|debian|centos|\(none\)|")


@dataclass(frozen=True)
class HostPort:
    """A cable of a host."""

    cable: int
    host: int
    leaf: int


@dataclass(frozen=True)
class HostGroup:
    """Hosts that were meant to have the same leafs.

    Attributes:
        leaf_of: The leaf of each part, as most of them have it.
    """

    hosts: dict[str, dict[str, HostPort]]
    leaf_of: dict[str, int]


def groups(found: NetworkTable) -> tuple[list[HostGroup], set[int]]:
    """Groups of hosts with several ports, and the leafs that have ports of hosts without a name of their own."""
    hosts, nameless = _named(found)
    leafs = {name: [port.leaf for port in ports.values()] for name, ports in hosts.items() if len(ports) > 1}
    usual = [key for key, count in Counter(map(frozenset, leafs.values())).most_common() if count >= GROUP]
    members: dict[frozenset[int], list[str]] = defaultdict(list)
    for name, mine in leafs.items():
        inside = {key: sum(leaf in key for leaf in mine) - len(key - {*mine}) for key in usual}
        best = max(usual, key=lambda key: (inside[key], -usual.index(key)), default=None)
        if best is not None and 2 * sum(leaf in best for leaf in mine) > len(mine):
            members[best].append(name)
    return [_group({name: hosts[name] for name in sorted(names, key=natural)}) for names in members.values()], nameless


def _named(found: NetworkTable) -> tuple[dict[str, dict[str, HostPort]], set[int]]:
    hosts: dict[str, dict[str, HostPort]] = defaultdict(dict)
    nameless: set[int] = set()
    twice: set[str] = set()
    for cable, (leaf, host) in zip(found.access.tolist(), found.access_ends.tolist(), strict=True):
        name, part = found.name[host], found.part[host] or found.port(cable, host)
        if _NAMELESS.fullmatch(name):
            nameless.add(leaf)
        elif part in hosts[name]:
            twice.add(name)
        hosts[name][part] = HostPort(cable, host, leaf)
    for name in list(hosts):
        if name in twice or _NAMELESS.fullmatch(name):
            nameless |= {port.leaf for port in hosts.pop(name).values()}
    return hosts, nameless


def _group(hosts: dict[str, dict[str, HostPort]]) -> HostGroup:
    votes: dict[str, Counter[int]] = defaultdict(Counter)
    for ports in hosts.values():
        for part, port in ports.items():
            votes[part][port.leaf] += 1
    agreed = {}
    for part, count in votes.items():
        leaf, times = count.most_common(1)[0]
        if times >= GROUP and times >= AGREED * count.total():
            agreed[part] = leaf
    return HostGroup(hosts, agreed)


SURE = 0.7
"""Blocks in which fewer cables agree with the design yield no findings, which would be guesses."""

STRANGE = 0.05
"""Share of cables between switches outside all blocks from which on it is no fat tree."""

_TIERS = {1: "leaf", 2: "spine", 3: "core"}


@dataclass(frozen=True, eq=False)
class InferredDesign:
    """The intended design.

    Attributes:
        level: int8[devices], tier of each switch, 0 for others.
        blocks: Pairs of tiers that are joined completely, those that are sure.
        groups: Hosts with several ports that have the same leafs.
        nameless: Leafs with ports of hosts without a name of their own.
        stray: Cables between switches that belong to no block.
    """

    level: NDArray[np.int8]
    blocks: tuple[ClosBlock, ...]
    ports: tuple[PortMap, ...]
    groups: tuple[HostGroup, ...]
    nameless: frozenset[int]
    stray: tuple[int, ...]
    doubts: tuple[str, ...]

    @property
    def meant_leaf(self) -> dict[int, int]:
        """The leaf of the design of each cable of a host that is on another, by number of the cable."""
        ports = [
            (group, part, port) for group in self.groups for one in group.hosts.values() for part, port in one.items()
        ]
        return {
            port.cable: group.leaf_of[part]
            for group, part, port in ports
            if group.leaf_of.get(part, port.leaf) != port.leaf
        }

    @property
    def regular(self) -> bool:
        """Whether it is a fat tree of which nothing is in doubt that changes what is missing."""
        return bool(self.blocks) and not self.doubts

    def count(self, tier: int) -> int:
        """Switches of a tier."""
        return int(np.count_nonzero(self.level == tier))


def infer(found: NetworkTable) -> InferredDesign:
    """The design of a network as found."""
    level = levels(found)
    every = blocks(found, level)
    free = [block for block in every if block.wrong and _into_boards(found, block)]
    sure = [block for block in every if block.sure >= SURE and block not in free]
    hosts, nameless = groups(found)
    stray, paired = _paired(found, level, _stray(found, sure))
    kept = [block for block in every if block not in free]
    doubts = [
        *_doubts(found, level, kept),
        *_boards(found, free),
        *_strange(found, level),
        *paired,
        *_partly(found, sure),
    ]
    ports = tuple(PortMap.of(found, block) for block in sure)
    return InferredDesign(level, tuple(sure), ports, tuple(hosts), frozenset(nameless), stray, tuple(doubts))


def tier_name(tier: int) -> str:
    """`leaf`, `spine`, `core`, or its number."""
    return _TIERS.get(tier, f"tier {tier}")


def _stray(found: NetworkTable, sure: list[ClosBlock]) -> tuple[int, ...]:
    """Cables between switches of tiers that have blocks, but not of one."""
    inside: set[tuple[int, int]] = set()
    for block in sure:
        lows, highs = block.low.tolist(), block.high.tolist()
        inside.update((low, high) for low in lows for high in highs)
    ends = found.ends[found.between].tolist()
    known = {one for pair in inside for one in pair}
    return tuple(
        int(number)
        for number, (one, other) in zip(found.between.tolist(), ends, strict=True)
        if one in known
        and other in known
        and (one, other) not in inside
        and (other, one) not in inside
        and not any(_into_board(found, *pair) for pair in ((one, other), (other, one)))
    )


def _into_board(found: NetworkTable, low: int, high: int) -> bool:
    """Whether the upper switch is a board of a director that the lower one stands outside of."""
    chassis = found.chassis[high]
    return bool(chassis) and chassis != found.chassis[low]


def _into_boards(found: NetworkTable, block: ClosBlock) -> bool:
    return any(
        _into_board(found, int(block.low[row]), int(block.high[column])) for row, column in np.argwhere(block.found)
    )


def _boards(found: NetworkTable, free: list[ClosBlock]) -> list[str]:
    if not free:
        return []
    lows = {low for block in free for low in block.low.tolist()}
    directors = {found.chassis[high] for block in free for high in block.high.tolist()} - {""}
    return [
        f"{len(lows)} switches are cabled to boards of {len(directors)} directors in no regular order, and any board"
        " leads to all others: no cable there is reported as missing or misplaced"
    ]


def _doubts(found: NetworkTable, level: NDArray[np.int8], every: list[ClosBlock]) -> list[str]:
    out = []
    for block in every:
        lower, upper = tier_name(block.tier), tier_name(block.tier + 1)
        if block.sure < SURE:
            first = found.name[int(block.low[0])]
            out.append(
                f"{len(block.low)} {lower} and {len(block.high)} {upper} switches from {first} on connect"
                f" irregularly ({block.sure:.0%} of the cables agree with {block.trunk} a pair): no cable there is"
                " reported as missing"
            )
            continue
        out += [_odd(found, block, one) for one in block.odd]
    out += _headless(found, level)
    unreached = int(np.count_nonzero(found.switch & (level == 0)))
    if unreached and level.any():
        out.append(f"{unreached} switches are connected to no leaf; they were left out")
    return out


def _odd(found: NetworkTable, block: ClosBlock, one: int) -> str:
    below = one in block.low
    rows = block.meant[block.low == one] if below else block.meant[:, block.high == one].T
    far = tier_name(block.tier + 1) if below else tier_name(block.tier)
    mine = int(np.bincount(rows[0]).argmax())
    return f"{found.name[one]} has {mine} cables to each {far} where others have {block.trunk}: taken as intended"


def _partly(found: NetworkTable, sure: list[ClosBlock]) -> list[str]:
    """A few switches that have only some of the uplinks of similar switches: meant so, or half gone."""
    out = []
    for block in sure:
        mine = set(block.high.tolist())
        larger = [one for one in sure if one.tier == block.tier and len(one.low) > len(block.low)]
        whole = next((one for one in larger if mine < set(one.high.tolist())), None)
        if whole is not None:
            names = ", ".join(found.name[low] for low in block.low.tolist())
            upper = tier_name(block.tier + 1)
            out.append(
                f"{names}: joined to {len(mine)} of the {len(whole.high)} {upper} switches that {len(whole.low)} like"
                " switches are joined to; whether the others are missing is unknown"
            )
    return out


def _paired(found: NetworkTable, level: NDArray[np.int8], stray: tuple[int, ...]) -> tuple[tuple[int, ...], list[str]]:
    """Cables inside a tier, where most of its switches have some: peers that are meant to be joined."""
    inside = [number for number in stray if len(set(level[found.ends[number]].tolist())) == 1]
    joined: dict[int, set[int]] = {}
    for number in inside:
        joined.setdefault(int(level[found.ends[number, 0]]), set()).update(found.ends[number].tolist())
    meant = {tier for tier, devices in joined.items() if 2 * len(devices) > np.count_nonzero(level == tier)}
    kept = tuple(n for n in stray if n not in inside or int(level[found.ends[n, 0]]) not in meant)
    words = [
        f"most {tier_name(tier)} switches are joined to others of their tier: taken as intended"
        for tier in sorted(meant)
    ]
    return kept, words


def _headless(found: NetworkTable, level: NDArray[np.int8]) -> list[str]:
    """Switches that nothing of the next tier is joined to, where their like have something."""
    ends = found.ends[found.between]
    tiers = level[ends]
    up = np.zeros(len(level), np.bool_)
    for near, far in ((0, 1), (1, 0)):
        up[ends[tiers[:, near] < tiers[:, far], near]] = True
    alone = np.flatnonzero((level > 0) & (level < level.max(initial=0)) & ~up).tolist()
    return [
        f"{found.name[one]} is connected to no {tier_name(int(level[one]) + 1)} switch, but similar switches are"
        for one in alone
        if up[level == level[one]].any()
    ]


def _strange(found: NetworkTable, level: NDArray[np.int8]) -> list[str]:
    if not len(found.between):
        return [] if level.any() else ["no host is cabled to a switch: no design can be inferred"]
    ends = level[found.ends[found.between]]
    flat = np.abs(ends[:, 0].astype(int) - ends[:, 1]) != 1
    if flat.mean() <= STRANGE:
        return []
    return [
        f"{np.count_nonzero(flat)} of {len(flat)} cables between switches do not join neighbouring tiers: this is"
        " not a fat tree, and which of those cables are intended is unknown"
    ]


def by_name(found: NetworkTable, devices: list[int]) -> list[int]:
    """Devices in the order of their names, those without one by their addresses."""
    return sorted(devices, key=lambda one: (natural(found.label[one]), found.key[one]))
