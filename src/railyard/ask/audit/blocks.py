"""Blocks of a folded Clos: lower switches that are each joined to the same upper ones, by as many cables."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.network_table import UNKNOWN, hop_counts, natural

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from railyard.cluster.network_table import NetworkTable


FEW = 0.25
"""Part of the usual number of hosts below which a switch is no leaf for their sake: a manager's host on a spine."""

ALIKE = 0.75
"""A switch without hosts that shares this part of its neighbours with the leafs is a leaf that waits for its hosts."""


def levels(found: NetworkTable) -> NDArray[np.int8]:
    """int8[devices], tier of each switch; 0 for hosts and for switches that no leaf reaches."""
    near, hosts = _near(found), found.hosts_of
    if not hosts.any():
        return np.zeros(len(hosts), np.int8)
    leafs = np.flatnonzero(hosts >= max(1.0, FEW * np.median(hosts[hosts > 0])))
    level = (hop_counts(len(hosts), found.ends[found.between], leafs) + 1).astype(np.int8)
    for tier in (3, 4):
        _lowered(level, near, tier)
    return level


def _lowered(level: NDArray[np.int8], near: list[set[int]], tier: int) -> None:
    """Switches of a tier that only wait for what belongs below them stand two tiers lower."""
    like = np.flatnonzero(level == tier - 2).tolist()
    above = {one: {other for other in near[one] if level[other] == tier - 1} for one in like}
    for number in np.flatnonzero(level == tier).tolist():
        if _waits(near[number], near, above):
            level[number] = tier - 2


def _near(found: NetworkTable) -> list[set[int]]:
    switch = found.switch.tolist()
    return [
        {far for _, _, far, _ in mine if switch[one] and switch[far] and far != one}
        for one, mine in enumerate(found.far_ends)
    ]


def _waits(mine: set[int], near: list[set[int]], above: dict[int, set[int]]) -> bool:
    """Whether one of the lower switches has nearly the same switches above it, which are these neighbours, or more.

    A core has neighbours in several pods, and so more than any leaf; where it has one only, nothing can be said.
    """
    lower = {one for neighbour in mine for one in near[neighbour] if one in above}
    return any(
        len(mine & above[one]) >= ALIKE * len(mine | above[one]) or (len(mine) > 1 and mine < above[one])
        for one in lower
    )


AGREED = 0.6
"""Share of the switches that must use a port alike: at least two of them, or the only other one."""


@dataclass(frozen=True)
class PortMap:
    """Ports of a block by what they lead to.

    Attributes:
        cables: Of each pair (low, high) of device numbers, the cables that are there.
        kind: Of each lower switch, how many cables it has to an upper one: those with as many are cabled alike.
        up: Ports of lower switches of a kind that lead to each upper one, by both.
        down: Ports of upper switches that lead to each lower one.
    """

    cables: dict[tuple[int, int], list[int]]
    kind: dict[int, int]
    up: dict[tuple[int, int], list[str]]
    down: dict[int, list[str]]

    @classmethod
    def of(cls, found: NetworkTable, block: ClosBlock) -> PortMap:
        """Common properties of the switches of a block."""
        inside = set(block.low.tolist()) | set(block.high.tolist())
        lows = set(block.low.tolist())
        cables: dict[tuple[int, int], list[int]] = defaultdict(list)
        kind = dict(zip(block.low.tolist(), (int(np.bincount(row).argmax()) for row in block.meant), strict=True))
        up: dict[int, dict[str, Counter[int]]] = defaultdict(lambda: defaultdict(Counter))
        down: dict[str, Counter[int]] = defaultdict(Counter)
        for number in found.between[np.isin(found.ends[found.between], list(inside)).all(axis=1)].tolist():
            one, other = found.ends[number].tolist()
            if (one in lows) == (other in lows):
                continue
            low, high = (one, other) if one in lows else (other, one)
            cables[low, high].append(number)
            up[kind[low]][found.port(number, low)][high] += 1
            down[found.port(number, high)][low] += 1
        alike = Counter(kind.values())
        agreed = {(one, high): ports for one, votes in up.items() for high, ports in _agreed(votes, alike[one]).items()}
        return cls(dict(cables), kind, agreed, _agreed(down, len(block.high)))

    def with_switch(self, device: int, ports: tuple[str, ...], *, low: bool, trunk: int) -> PortMap:
        """The map with one more switch, for which the switches at the far ends have ports free."""
        if low:
            return replace(self, kind={**self.kind, device: trunk}, down={**self.down, device: list(ports)})
        return replace(self, up={**self.up, **{(one, device): list(ports) for one in set(self.kind.values())}})

    def free(self, found: NetworkTable, low: int, high: int, count: int) -> list[tuple[str, str]]:
        """Ports, lower and upper, of cables that are missing between two switches; `?` where nothing is agreed on."""
        below = [port for port in self.up.get((self.kind[low], high), []) if port not in found.cables_of[low]]
        above = [port for port in self.down.get(low, []) if port not in found.cables_of[high]]
        pad = [UNKNOWN] * count
        return list(zip((below + pad)[:count], (above + pad)[:count], strict=True))

    def least_fitting(self, found: NetworkTable, low: int, high: int, count: int) -> list[int]:
        """The cables of a pair that fit least to what ports are for: those that are too many."""

        def fits(cable: int) -> int:
            below = found.port(cable, low) in self.up.get((self.kind[low], high), [])
            return below + (found.port(cable, high) in self.down.get(low, []))

        return sorted(self.cables[low, high], key=lambda cable: (fits(cable), cable))[:count]


def _agreed(votes: dict[str, Counter[int]], voters: int) -> dict[int, list[str]]:
    out: dict[int, list[str]] = defaultdict(list)
    for port, count in votes.items():
        where, times = count.most_common(1)[0]
        if times >= min(2, voters - 1) and times >= AGREED * count.total():
            out[where].append(port)
    return {where: sorted(ports, key=natural) for where, ports in out.items()}


SAME = 0.5
"""Two lower switches are of one block when they share at least this part of the upper ones."""

MOSTLY = 2 / 3
"""A lower switch with this part of a block's upper switches, or all but one, and no others has lost the rest."""

PARAMETER = 2
"""A switch has a number of cables of its own when that explains more cables than this."""


@dataclass(frozen=True, eq=False)
class ClosBlock:
    """Two tiers in which every lower switch is joined to every upper one.

    Attributes:
        low, high: int64[], device numbers.
        found: int64[lows, highs], cables that are there.
        meant: int64[lows, highs], cables of the design.
        rate_bps: Of most of its cables; 0 where unknown.
        odd: Switches that have a number of parallel cables of their own, by number.
    """

    tier: int
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    found: NDArray[np.int64]
    meant: NDArray[np.int64]
    rate_bps: int
    odd: tuple[int, ...] = ()
    absent: tuple[int, ...] = ()

    @property
    def trunk(self) -> int:
        """Parallel cables of most pairs."""
        return int(np.bincount(self.meant.ravel()).argmax())

    @property
    def wrong(self) -> int:
        """Cables that the design has more or less."""
        return int(np.abs(self.found - self.meant).sum())

    @property
    def sure(self) -> float:
        """Share of the cables about which design and network agree."""
        return 1 - self.wrong / max(int(np.maximum(self.meant, self.found).sum()), 1)


def blocks(found: NetworkTable, level: NDArray[np.int8]) -> list[ClosBlock]:
    """Blocks between each tier and the next."""
    out: list[ClosBlock] = []
    ends = found.ends[found.between]
    tiers = level[ends]
    for tier in range(1, int(level.max(initial=0))):
        here = (tiers.min(axis=1) == tier) & (tiers.max(axis=1) == tier + 1)
        turned = tiers[here, 0] > tier
        pair = np.where(turned[:, None], ends[here][:, ::-1], ends[here])
        out += _of_tier(tier, pair, found.rate_bps[found.between[here]])
    return out


def _of_tier(tier: int, pair: NDArray[np.int32], rate: NDArray[np.int64]) -> list[ClosBlock]:
    near: dict[int, set[int]] = {}
    for low, high in np.unique(pair, axis=0).tolist():
        near.setdefault(low, set()).add(high)
    out = []
    for lows in _alike(near):
        count = Counter(high for low in lows for high in near[low])
        high = np.array(sorted(one for one, times in count.items() if times * 2 >= len(lows)), np.int64)
        low = np.array(sorted(lows), np.int64)
        mine = np.isin(pair[:, 0], low) & np.isin(pair[:, 1], high)
        there = np.zeros((len(low), len(high)), np.int64)
        at = (np.searchsorted(low, pair[mine, 0]), np.searchsorted(high, pair[mine, 1]))
        np.add.at(there, at, 1)
        meant, odd = _meant(there)
        strange = (*low[odd[0]].tolist(), *high[odd[1]].tolist())
        out.append(ClosBlock(tier, low, high, there, meant, usual_rate(rate[mine]), strange))
    return out


def _alike(near: dict[int, set[int]]) -> list[list[int]]:
    """Lower switches by the upper ones that they share; those with most first, so that blocks begin complete."""
    groups: list[tuple[set[int], list[int]]] = []
    by_high: dict[int, list[int]] = {}
    for low in sorted(near, key=lambda one: (-len(near[one]), one)):
        mine = near[low]
        nearby = {group for high in mine for group in by_high.get(high, ())}
        best = max(nearby, key=lambda group: (_shared(mine, groups[group][0]), -group), default=None)
        if best is not None and _belongs(mine, groups[best][0]):
            groups[best][1].append(low)
            continue
        for high in mine:
            by_high.setdefault(high, []).append(len(groups))
        groups.append((set(mine), [low]))
    return [lows for _, lows in groups]


def _shared(mine: set[int], theirs: set[int]) -> float:
    return len(mine & theirs) / len(mine | theirs)


def _belongs(mine: set[int], theirs: set[int]) -> bool:
    if mine <= theirs and (len(mine) >= MOSTLY * len(theirs) or len(mine) >= len(theirs) - 1 > 0):
        return True
    return _shared(mine, theirs) > SAME


def _meant(there: NDArray[np.int64]) -> tuple[NDArray[np.int64], tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """The expected cables of each pair: equal, unless rows or columns with a number of their own explain much more.

    Returns:
        int64[lows, highs]; which rows and which columns have a number of their own.
    """
    meant = np.full(there.shape, _mode(there.ravel().tolist()))
    odd = np.zeros(len(there), np.bool_), np.zeros(there.shape[1], np.bool_)
    for strange, counted, wanted in ((odd[0], there, meant), (odd[1], there.T, meant.T)):
        for at, counts in enumerate(counted):
            mine = _mode(counts.tolist())
            if np.abs(counts - wanted[at]).sum() > np.abs(counts - mine).sum() + PARAMETER and mine > 0:
                wanted[at], strange[at] = mine, True
    return meant, odd


def _mode(values: Iterable[int]) -> int:
    count = Counter(values)
    return max(count, key=lambda value: (count[value], value))


def usual_rate(rate: NDArray[np.int64]) -> int:
    """The most frequent rate that is known; 0 where none is."""
    known = rate[rate > 0]
    return _mode(known.tolist()) if len(known) else 0
