"""Tiers of switches: 1 where hosts are, and each next one a cable further away from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.deploy.network import Found

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
    above = {leaf: {one for one in near[leaf] if level[one] == 2} for leaf in np.flatnonzero(level == 1).tolist()}
    for number in np.flatnonzero(level == 3).tolist():
        if _like_a_leaf(near[number], near, above):
            level[number] = 1
    return level


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


def _like_a_leaf(mine: set[int], near: list[set[int]], above: dict[int, set[int]]) -> bool:
    """Whether one of the leafs has nearly the same switches above it, which are these neighbours."""
    leafs = {leaf for spine in mine for leaf in near[spine] if leaf in above}
    return any(len(mine & above[leaf]) >= ALIKE * len(mine | above[leaf]) for leaf in leafs)
