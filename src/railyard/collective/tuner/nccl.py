"""NCCL's estimate of the time of a collective for every algorithm and protocol, from which it takes the smallest.

Restated from NVIDIA/nccl 2.30.7. The estimate is a selector: what Railyard predicts is `timing.py`'s.
"""

from __future__ import annotations

from math import log2
from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.algorithm import ALGORITHMS
from railyard.collective.tuner import constants as c
from railyard.collective.tuner.plan import ChannelPlan, collnet_plan, ring_plan, switch_plan, tree_plan
from railyard.graph import CollectiveKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.collective.machine import Case

_SERVES = {
    CollectiveKind.ALL_REDUCE: ("tree", "ring", "collnet-direct", "collnet-chain", "nvls", "nvls-sharp", "nvls-tree"),
    CollectiveKind.ALL_GATHER: ("ring", "pat", "nvls"),
    CollectiveKind.REDUCE_SCATTER: ("ring", "pat", "nvls"),
    CollectiveKind.BROADCAST: ("ring",),
    CollectiveKind.REDUCE: ("ring",),
}


def estimates(case: Case, size_bytes: NDArray[np.float64]) -> dict[tuple[str, str], NDArray[np.float64]]:
    """Time in us of every candidate at every size.

    Args:
        case: What is to be done where; at least 2 ranks. NCCL makes no choice for an all-to-all.
        size_bytes: float64[k].

    Returns:
        float64[k] by (algorithm, protocol), algorithms in Railyard's words.
    """
    out = {}
    for algorithm in _SERVES.get(case.kind, ()):
        if not _offered(algorithm, case):
            continue
        for index, protocol in enumerate(c.PROTOCOLS):
            if index < 2 and algorithm not in ("tree", "ring"):
                continue
            out[algorithm, protocol] = _time_us(case, algorithm, index, size_bytes)
    return out


def _offered(algorithm: str, case: Case) -> bool:
    """Whether NCCL considers an algorithm at all."""
    shape = case.shape
    if algorithm == "pat":
        return shape.domains > 1 and shape.per_domain == 1 and case.version >= (2, 23)
    if algorithm in ("tree", "ring"):
        return True
    record = ALGORITHMS.get(algorithm)
    return record.refusal(case.kind, shape, case.machine) is None and (
        record.family == "collnet" or case.machine.scale_up == "switched"
    )


def _time_us(case: Case, algorithm: str, protocol: int, size: NDArray[np.float64]) -> NDArray[np.float64]:
    machine, shape, kind = case.machine, case.shape, case.kind
    plan = _plan(case, algorithm)
    bandwidth = _algorithm_gbs(case, algorithm, protocol, plan)
    latency = np.full(size.shape, latency_us(case, algorithm, protocol))
    rate = np.full(size.shape, max(bandwidth, 1e-6))
    if algorithm == "tree":
        rate = rate * tree_correction(c.PROTOCOLS[protocol], size)
    if algorithm == "ring" and protocol == 2 and kind == CollectiveKind.ALL_REDUCE and shape.domains > 1:
        factor = 1.9 if c.generation_name(machine.architecture) == "volta" else 1.4
        latency = np.where(size / (plan.channels * shape.ranks) >= 64, latency * factor, latency)
    time_us: NDArray[np.float64] = latency + size / (1000 * rate)
    return time_us


def _plan(case: Case, algorithm: str) -> ChannelPlan:
    if algorithm.startswith("nvls"):
        return switch_plan(case.machine, case.shape)
    plans = {"tree": tree_plan, "collnet-direct": collnet_plan, "collnet-chain": collnet_plan}
    return plans.get(algorithm, ring_plan)(case.machine, case.shape)


def tree_correction(protocol: str, size_bytes: NDArray[np.float64]) -> NDArray[np.float64]:
    """NCCL's measured factor on the bandwidth of a tree all-reduce, float64[k]."""
    table = np.asarray(c.TREE_CORRECTION[protocol], np.float64)
    index = np.log2(np.maximum(size_bytes, 64) / 64).astype(np.int64)
    factor: NDArray[np.float64] = table[np.minimum(index, len(table) - 1)]
    return factor


def _algorithm_gbs(case: Case, algorithm: str, protocol: int, plan: ChannelPlan) -> float:
    """GB/s of the collective's size."""
    n, kind = case.shape.ranks, case.kind
    bus = bus_gbs(case, algorithm, protocol, plan)
    if kind in (CollectiveKind.BROADCAST, CollectiveKind.REDUCE):
        return bus
    if algorithm in ("ring", "nvls", "nvls-sharp", "nvls-tree", "pat"):
        steps = 2 * (n - 1) if kind == CollectiveKind.ALL_REDUCE else n - 1
        return bus * n / steps
    return bus * 0.5


def bus_gbs(case: Case, algorithm: str, protocol: int, plan: ChannelPlan) -> float:
    """NCCL's bus bandwidth in GB/s.

    Args:
        case: What is to be done where.
        algorithm: In Railyard's words.
        protocol: 0 LL, 1 LL128, 2 Simple.
        plan: Channels and their speeds.
    """
    shape = case.shape
    generation = c.generation(case.machine.architecture, case.version)
    row = min(shape.domains, 3) - 1
    channels = plan.channels
    if algorithm.startswith("nvls"):
        return _switch_gbs(case, algorithm, plan, generation)
    bus = channels * (plan.intra if shape.domains <= 2 or algorithm.startswith("collnet") else plan.inter)
    if algorithm == "collnet-chain":
        return bus
    if algorithm == "collnet-direct":
        heads = shape.per_domain / channels
        factor = heads - (heads - 1) / 2
        return bus / factor * (0.85 if generation.nvls_efficiency else 1.0)
    if algorithm == "pat":
        return bus * 0.75
    if algorithm == "ring":
        caps = (min(generation.ll_max[row], 0.5 * bus), min(0.92 * bus, channels * generation.ring_ll128[row]), bus)
        return caps[protocol]
    caps = (
        min(bus / 3.8, generation.ll_max[row]),
        min(bus * (7 / 9 if shape.domains == 1 else 120 / 128), channels * generation.tree_ll128[row]),
        min(c.BOTH_WAYS_SHARE * bus, channels * generation.tree_simple[row]),
    )
    return caps[protocol]


def _switch_gbs(case: Case, algorithm: str, plan: ChannelPlan, generation: c.Generation) -> float:
    shape, channels = case.shape, plan.channels
    twice = 2.0 if case.kind == CollectiveKind.ALL_REDUCE else (shape.per_domain - 1) / shape.per_domain
    each = plan.intra * generation.nvls_efficiency * (channels - 1) / channels * twice
    if shape.domains > 1:
        doubled = 2.0 if shape.domains <= 2 and algorithm == "nvls-tree" else 1.0
        each = min(each, plan.inter * doubled)
        if algorithm == "nvls-tree":
            each = min(each, generation.nvls_tree[min(shape.domains, 3) - 1])
    return each * channels


def latency_us(case: Case, algorithm: str, protocol: int) -> float:
    """NCCL's latency in us.

    Args:
        case: What is to be done where.
        algorithm: In Railyard's words.
        protocol: 0 LL, 1 LL128, 2 Simple.
    """
    n, domains, p = case.shape.ranks, case.shape.domains, case.shape.per_domain
    levels = log2(domains)
    base = c.BASE_US.get(algorithm, (0.0, 0.0, 0.0))[protocol]
    inside = c.PCI_US[algorithm] if case.machine.pcie else c.nvlink_us(algorithm, case.version)
    intra = inside[protocol]
    inter = c.network_us("tree" if p == 1 and algorithm == "ring" else algorithm, case.version)[protocol]
    if algorithm == "ring":
        return base + _ring_us(case, protocol, intra, inter)
    by_name = {
        "tree": base + 2 * ((n / domains - 1) * intra + levels * inter),
        "pat": base + levels * inter / 3.5 + 2.8 * n,
        "collnet-direct": 2 * (min(1, p - 1) * intra + (p - 1) * 0.4) + inter,
        "collnet-chain": 2 * (p - 1) * intra + inter,
        "nvls-tree": intra + 2 * levels * inter,
        "nvls": intra,
        "nvls-sharp": intra + inter,
    }
    return by_name[algorithm]


def _ring_us(case: Case, protocol: int, intra: float, inter: float) -> float:
    n, domains = case.shape.ranks, case.shape.domains
    if case.kind in (CollectiveKind.BROADCAST, CollectiveKind.REDUCE):
        return intra if domains == 1 else inter
    rounds = 2 if case.kind == CollectiveKind.ALL_REDUCE else 1
    out = rounds * (domains - 1)
    post = (3 if protocol == 2 else 1) * c.POST_OVERHEAD_US if domains > 1 else 0.0
    return (rounds * (n - 1) - out) * max(intra, post) + out * inter
