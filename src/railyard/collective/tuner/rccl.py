"""RCCL's estimate of the time of a collective: NCCL's form with AMD's constants (develop branch, 2026-08).

Restated from ROCm RCCL (BSD-3): base latency, latencies of xGMI and network, bandwidth ratios, factors by size, and the
ranges of sizes in which a protocol is fixed on several nodes. Triples are LL, LL128, Simple.
"""

from __future__ import annotations

from math import inf, log2
from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.tuner.constants import PROTOCOLS
from railyard.graph import CollectiveKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.collective.machine import Case

BASE_US = (12.0, 12.0, 17.0)
LINK_US = {"tree": (0.9, 0.9, 2.3), "ring": (0.8, 0.8, 2.1)}
NETWORK_US = {"tree": (10.5, 10.5, 25.0), "ring": (9.5, 9.5, 320.0)}
ONE_NODE = (0.5, 120 / 128, 1.0)
TWO_NODES = {"tree": (0.06, 0.06, 0.11), "ring": (0.08, 0.08, 1.0)}
MORE_NODES = {"tree": (0.06, 0.06, 0.59), "ring": (0.08, 0.08, 1.0)}


def _row(text: str) -> tuple[float, ...]:
    """A row of factors; `.1x6` stands for six times 0.1."""
    out: list[float] = []
    for part in text.split():
        value, _, times = part.partition("x")
        out += [float(value)] * int(times or 1)
    return tuple(out)


_TREE_LL = _row(".1x6 1x5 .6 1 .9 1 1 .1x11")
_RING_LL = _row(".1x11 1 .2 1 .4 .4 .1 .2 .2 .1x8")
CORRECTION = {
    "cdna3": {
        "tree": (_TREE_LL, _TREE_LL, _row(".1x15 .7 1 1 1 1 1 .7 .7 .5 .6 .6 .6")),
        "ring": (_RING_LL, _RING_LL, _row(".1x22 .7 .2 1 1 1")),
    },
    "cdna4": {
        "tree": (
            _TREE_LL,
            _row(".1x6 1x5 .6 1 .9 1 1 1 1 1 2 2 1 .1 .9 .9 .1 .1"),
            _row(".1x15 .7 1 .1x5 .7 .15 .6 .1 .6"),
        ),
        "ring": (
            _RING_LL,
            _row(".1x11 1 .2 1 .4 .4 .1 .2 .1 .1 .1 .1 5.5 .1 .1 1 1"),
            _row(".1x20 .9 .1 1 .1 .6 1 1"),
        ),
    },
}
"""Factors on the bandwidth by floor(log2(bytes / 64)), 64 B to 4 GB."""

_K, _M = 1 << 10, 1 << 20
RANGES: dict[str, dict[CollectiveKind, tuple[float, float]]] = {
    "cdna3": {
        CollectiveKind.REDUCE_SCATTER: (640 * _K, 3.06 * _M),
        CollectiveKind.ALL_GATHER: (96 * _K, 4.8 * _M),
        CollectiveKind.ALL_REDUCE: (512 * _K, 4.2 * _M),
        CollectiveKind.REDUCE: (4 * _K, 16 * _M),
        CollectiveKind.BROADCAST: (8 * _K, 32 * _M),
    },
    "cdna4": {
        CollectiveKind.REDUCE_SCATTER: (64 * _K, 8 * _M),
        CollectiveKind.ALL_GATHER: (64 * _K, 8 * _M),
        CollectiveKind.ALL_REDUCE: (256 * _K, 67 * _M),
        CollectiveKind.REDUCE: (16 * _K, 67 * _M),
        CollectiveKind.BROADCAST: (2 * _K, 67 * _M),
    },
}
"""On several nodes: LL up to the first, LL128 up to the second, Simple beyond; bytes a rank, for an all-reduce all
bytes."""


def generation_name(architecture: str) -> str:
    """CDNA 3 (MI300) or CDNA 4 (MI350); unknown ones take CDNA 3's."""
    return "cdna4" if architecture.lower() in ("cdna4", "gfx950") else "cdna3"


def estimates(case: Case, size_bytes: NDArray[np.float64]) -> dict[tuple[str, str], NDArray[np.float64]]:
    """Time in us of every candidate at every size; see `nccl.estimates`."""
    if case.kind == CollectiveKind.ALL_TO_ALL:
        return {}
    algorithms = ("tree", "ring") if case.kind == CollectiveKind.ALL_REDUCE else ("ring",)
    fixed = _fixed_protocol(case, size_bytes) if case.shape.domains > 1 else None
    out = {}
    for algorithm in algorithms:
        for index, protocol in enumerate(PROTOCOLS):
            time_us = _time_us(case, algorithm, index, size_bytes)
            out[algorithm, protocol] = time_us if fixed is None else np.where(fixed == index, time_us, np.inf)
    return out


def _fixed_protocol(case: Case, size: NDArray[np.float64]) -> NDArray[np.int64]:
    generation = generation_name(case.machine.architecture)
    ll, ll128 = RANGES[generation][case.kind]
    if case.kind == CollectiveKind.ALL_REDUCE:
        wide = 3.8 if case.shape.domains > 2 and generation == "cdna4" else 1.0
        return np.searchsorted([ll * wide, ll128 * wide], size)
    return np.searchsorted([ll, ll128], size / case.shape.ranks)


def _time_us(case: Case, algorithm: str, protocol: int, size: NDArray[np.float64]) -> NDArray[np.float64]:
    n, domains = case.shape.ranks, case.shape.domains
    table = np.asarray(CORRECTION[generation_name(case.machine.architecture)][algorithm][protocol])
    factor = table[np.minimum(np.log2(np.maximum(size, 64) / 64).astype(np.int64), len(table) - 1)]
    ratio = ONE_NODE[protocol] if domains == 1 else (TWO_NODES if domains == 2 else MORE_NODES)[algorithm][protocol]
    rounds = 2 if case.kind == CollectiveKind.ALL_REDUCE else 1
    steps = rounds * (n - 1)
    rate = _links_gbs(case) * ratio * (n / steps if algorithm == "ring" else 0.5) * factor
    link, network = LINK_US[algorithm][protocol], NETWORK_US[algorithm][protocol]
    out = rounds * (domains - 1)
    latency = BASE_US[protocol] + (
        (steps - out) * link + out * network
        if algorithm == "ring"
        else 2 * ((n / domains - 1) * link + log2(domains) * network)
    )
    time_us: NDArray[np.float64] = latency + size / (1000 * np.maximum(rate, 1e-6))
    return time_us


def _links_gbs(case: Case) -> float:
    shape, machine = case.shape, case.machine
    inside = machine.plan_bps / 8e9 if shape.per_domain > 1 else inf
    outside = machine.nic_bps / 8e9 * shape.ports if shape.domains > 1 else inf
    return min(inside, outside)
