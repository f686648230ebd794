"""Tiers of switches: 1 where hosts are, and each next one a cable further away from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.ask.audit.network import Found

FEW = 0.25
"""Part of the usual number of hosts below which a switch is no leaf for their sake: a manager's host on a spine."""

ALIKE = 0.75
"""A switch without hosts that shares this part of its neighbours with the leafs is a leaf that waits for its hosts."""


def levels(found: Found) -> NDArray[np.int8]:
    """int8[devices], tier of each switch; 0 for hosts and for switches that no leaf reaches."""
    near = _near(found)
    level = np.zeros(len(found.switch), np.int8)
    hosts = found.hosts_of
    if not hosts.any():
        return level
    usual = np.median(hosts[hosts > 0])
    level[hosts >= max(1.0, FEW * usual)] = 1
    _spread(level, near)
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


def _near(found: Found) -> list[set[int]]:
    near: list[set[int]] = [set() for _ in found.switch]
    for one, other in found.ends[found.between].tolist():
        near[one].add(other)
        near[other].add(one)
    return near


def _spread(level: NDArray[np.int8], near: list[set[int]]) -> None:
    edge = set(np.flatnonzero(level == 1).tolist())
    tier = 1
    while edge:
        tier += 1
        edge = {other for one in edge for other in near[one] if level[other] == 0}
        level[list(edge)] = tier


def _waits(mine: set[int], near: list[set[int]], above: dict[int, set[int]]) -> bool:
    """Whether one of the lower switches has nearly the same switches above it, which are these neighbours, or more.

    A core has neighbours in several pods, and so more than any leaf; where it has one only, nothing can be said.
    """
    lower = {one for neighbour in mine for one in near[neighbour] if one in above}
    return any(
        len(mine & above[one]) >= ALIKE * len(mine | above[one]) or (len(mine) > 1 and mine < above[one])
        for one in lower
    )
