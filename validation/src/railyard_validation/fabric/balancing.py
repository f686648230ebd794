"""F1 and F2: who takes which path, and what that costs the slowest flow."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.engine.packet import PacketNetwork, Settings, fat_tree, leaf_spine, run
from railyard.kit.quantities import percentile
from railyard_validation.fabric.figure import Case, Row, figure
from railyard_validation.fabric.packets import (
    RATE_BPS,
    leaf_to_leaf,
    microseconds,
    permutation,
    slowest_share,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_SEEDS = {1: 40, 4: 16, 16: 10, 64: 6}
"""Runs over which a number of queue pairs is averaged: the fewer, the more luck."""

_SLOWEST = {1: 28.0, 4: 47.0, 16: 64.0, 64: 79.0}
_POINTS = 3.0
_WINDOW_PS = (300_000_000, 600_000_000)
"""Between these times every flow is under way: an elephant alone takes 0.8 ms."""


@figure(
    "F1",
    claim="Hashing leaves 63 % of the uplinks in use and the slowest flow 28 %; queue pairs and sprays fix it",
    scenario="32 hosts of a leaf send 40 MB each to another leaf over 32 uplinks of 400 Gb/s; NSCC; means of seeds",
    source="balls into bins: 1 - 1/e; the 60 % and 95 % that vendors quote; Hedera (NSDI 2010)",
)
def collisions() -> Iterator[Row]:
    """The law of collisions in packets."""
    hashed = Settings(load_balancing="ecmp")
    uses = [_in_use(replace(hashed, seed=seed)) for seed in range(_SEEDS[1] // 2)]
    yield Case("F1", "aggregate, 1 queue pair", "%").absolute(63.2, 100 * float(np.mean(uses)), by=_POINTS)
    for qps, expected in _SLOWEST.items():
        shares = [_slowest(qps, replace(hashed, seed=seed)) for seed in range(_SEEDS[qps])]
        case = f"slowest flow, {qps} queue pair{'s' * (qps > 1)}"
        yield Case("F1", case, "%").absolute(expected, 100 * float(np.mean(shares)), by=_POINTS)
    adaptive = 100 * _slowest(1, Settings(load_balancing="adaptive"))
    chosen = Case("F1", "slowest flow, switches choose for each packet", "%")
    yield chosen.between("at least 93", adaptive, low=90, tolerance="-3 points")
    sprayed = 100 * _slowest(1, Settings(load_balancing="mixed"))
    note = "with every uplink full, blind sprays queue; the 93 % is of switches that choose"
    yield Case("F1", "slowest flow, hosts spray", "%", note=note).shown(sprayed)


def _slowest(qps: int, settings: Settings) -> float:
    return slowest_share(leaf_to_leaf(qps, settings)[2], settings)


def _in_use(settings: Settings) -> float:
    """Share of the receivers' links in use while all flows are under way."""
    carried = []
    for end in _WINDOW_PS:
        network, _, found = leaf_to_leaf(1, replace(settings, end_ps=end))
        carried.append(found.table("links")["bytes"][_into(network, 32, 64)].sum())
    return float(8e12 * (carried[1] - carried[0]) / (32 * RATE_BPS * (_WINDOW_PS[1] - _WINDOW_PS[0])))


def _into(network: PacketNetwork, low: int, high: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.asarray((network.link_target >= low) & (network.link_target < high))


@figure(
    "F2",
    claim="Spraying and adaptive routing bring the tail of a permutation near the ideal; one path does not",
    scenario="1,024 hosts at 400 Gb/s, three tiers, 1 us a link, 2 MB each (ideal 45 us); 8,192, leaf-spine, 1 MB",
    source="uet-htsim (commit 40ccb05), its own runs",
)
def tails() -> Iterator[Row]:
    """Permutations under every way to choose paths."""
    tree = fat_tree(1024, rate_bps=RATE_BPS)
    for who, balancing, expected in (("hosts spray", "mixed", 64.0), ("switches choose", "adaptive", 59.0)):
        found = _p99(tree, 2_000_000, Settings(load_balancing=balancing), (0,))
        yield Case("F2", f"1,024 hosts, {who}, p99", "us").relative(expected, found, by=0.10)
    found = _p99(tree, 2_000_000, Settings(load_balancing="ecmp"), range(6))
    hashed = Case("F2", "1,024 hosts, one path, p99", "us", note="mean of 6 seeds of the hash")
    yield hashed.relative(214.0, found, by=0.10)
    wide = leaf_spine(8192, leaf_hosts=64, spines=64, rate_bps=RATE_BPS)
    for control, expected in (("nscc", 38.7), ("rccc", 38.4)):
        settings = Settings(congestion_control=control)
        last = float(microseconds(run(wide, permutation(8192, 1_000_000, 0), settings))[-1])
        yield Case("F2", f"8,192 hosts, {control.upper()}, last", "us").relative(expected, last, by=0.10)


def _p99(network: PacketNetwork, size_bytes: int, settings: Settings, seeds: range | tuple[int, ...]) -> float:
    found = [
        percentile(
            microseconds(run(network, permutation(network.hosts, size_bytes, seed), replace(settings, seed=seed))), 0.99
        )
        for seed in seeds
    ]
    return float(np.mean(found))
