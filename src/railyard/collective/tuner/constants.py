"""Constants of NCCL's cost model (2.30, same in 2.31) and what they were before: latencies in us, bandwidths in GB/s.

Source: NVIDIA/nccl 2.30.7 (2026-06-11), `tuning.cc` and the graph search; Apache-2.0. Restated as facts, not as code.
Triples are LL, LL128, Simple.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

Version = tuple[int, int]
NEWEST: Version = (2, 30)
PROTOCOLS = ("ll", "ll128", "simple")
BASE_US = {"tree": (6.8, 14.0, 8.4), "ring": (6.6, 14.0, 8.4), "pat": (8.0, 8.0, 8.0)}
NVLINK_US = {
    "tree": (0.6, 1.25, 4.0),
    "ring": (0.6, 1.9, 3.4),
    "collnet-direct": (0.0, 0.0, 3.7),
    "collnet-chain": (0.0, 0.0, 2.8),
}
PCI_US = {
    "tree": (1.0, 1.9, 4.0),
    "ring": (1.0, 2.5, 5.7),
    "collnet-direct": (0.0, 0.0, 3.7),
    "collnet-chain": (0.0, 0.0, 2.8),
}
NETWORK_US = {
    "tree": (5.0, 8.5, 14.0),
    "collnet-direct": (0.0, 0.0, 31.0),
    "collnet-chain": (0.0, 0.0, 30.0),
    "nvls-sharp": (0.0, 0.0, 18.0),
}
NETWORK_PATH_US = 3.5
"""Of these, what is the path between NICs: InfiniBand through two tiers, on which NVIDIA tunes them."""

PAT_SHARE = 0.75
"""Share of a NIC's rate that NCCL takes aggregated trees (PAT) to reach."""

BOTH_WAYS_SHARE = 0.92
"""Share of the planned rate of kernels that reduce upwards and copy downwards at once (NCCL's trees)."""

LL_SLOWER = 3.8
"""How much slower NCCL takes LL to be than Simple where flags and not links bound it (its trees)."""

MANY_RANKS_SHARE = 0.74 / 0.85
"""NCCL's efficiency of in-switch reduction on Blackwell over that on Hopper."""

MULTICAST_RANK_US = 0.137
"""What one more rank adds to a multicast write inside a domain (NCCL 2.31, copy engines of Blackwell)."""

TREE_CORRECTION: dict[str, tuple[float, ...]] = {
    "ll": (1, 1, 1, 1, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1, 1, 1, 1),
    "ll128": (1, 1, 1, 1, 1, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1, 1, 1),
    "simple": (0.9,) * 7 + (0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9, 0.9),
}
"""Factors on the bandwidth of a tree all-reduce; index floor(log2(bytes / 64)), the last one for all larger sizes."""

INTRA_SPEEDS: dict[str, tuple[float, ...]] = {
    "ampere": (40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3),
    "hopper": (60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3),
    "blackwell": (90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18),
}
"""Speeds of one channel that the graph search tries inside a domain."""

INTER_SPEEDS: dict[str, tuple[float, ...]] = {
    "ampere": (48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2, 0.24, 0.12),
    "hopper": (48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12),
    "blackwell": (96, 86, 80, 48, 45.1, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12),
}
"""Speeds of one channel that the graph search tries across domains."""


@dataclass(frozen=True)
class Generation:
    """Constants of one accelerator generation; triples are for 1, 2 and more domains.

    Attributes:
        ll_max: Largest bus bandwidth of LL. Between domains NCCL takes it by the CPU, whose proxy reads every flag:
            AMD's for Ampere, whose usual hosts are EPYC, Intel's and others' for the rest.
        ring_ll128: Largest bandwidth of one ring channel, LL128.
        tree_ll128: The same of a tree channel.
        tree_simple: The same, Simple.
        nvls_tree: The same of an NVLS tree channel.
        ring_speed: Speed of a ring channel that the graph search ends with on a full server.
    """

    ll_max: tuple[float, float, float]
    ring_ll128: tuple[float, float, float]
    tree_ll128: tuple[float, float, float]
    tree_simple: tuple[float, float, float]
    nvls_tree: tuple[float, float, float]
    ring_speed: float


_LL128_OLD = (20.0, 20.0, 20.0)
_LL_PROXY = (39.0, 20.4)
GENERATIONS = {
    "volta": Generation((39.0, *_LL_PROXY), _LL128_OLD, _LL128_OLD, (26.5, 18.5, 10.0), (26.5, 18.5, 10.0), 20.0),
    "ampere": Generation((87.7, 22.5, 19.0), _LL128_OLD, _LL128_OLD, (24.0, 23.6, 17.8), (24.0, 23.6, 17.8), 20.0),
    "hopper": Generation(
        (141.0, *_LL_PROXY), (36.7, 36.7, 36.7), (36.7, 36.7, 29.0), (38.7, 41.4, 36.0), (0.0, 57.7, 45.5), 30.0
    ),
    "blackwell": Generation(
        (282.0, *_LL_PROXY), (40.0, 40.0, 40.0), (55.6, 31.67, 20.0), (70.0, 42.8, 24.0), (0.0, 96.0, 80.0), 40.0
    ),
}
_FAMILY = {"turing": "volta", "ada": "ampere", "blackwell-ultra": "blackwell", "blackwell-pcie": "blackwell"}


def generation_name(architecture: str) -> str:
    """The generation whose constants an architecture takes; unknown ones take the newest."""
    name = _FAMILY.get(architecture.lower(), architecture.lower())
    return name if name in GENERATIONS else "blackwell"


@cache
def generation(architecture: str, version: Version = NEWEST) -> Generation:
    """Constants of an architecture in a version: Hopper's LL rose in 2.21, Blackwell came in 2.25, tuned until 2.30."""
    name = generation_name(architecture)
    if name == "hopper" and version < (2, 21):
        return replace(GENERATIONS[name], ll_max=(87.7, *_LL_PROXY))
    if name != "blackwell" or version >= (2, 30):
        return GENERATIONS[name]
    if version < (2, 25):
        return GENERATIONS["hopper"]
    cap = 34.5 if version >= (2, 29) else 73.4
    return replace(GENERATIONS[name], ring_ll128=(cap, cap, cap))


def speeds(table: dict[str, tuple[float, ...]], generation: str) -> tuple[float, ...]:
    """The row of a table of speeds; generations before Ampere share Ampere's."""
    return table.get(generation, table["ampere"])
