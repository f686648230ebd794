"""How long a collective takes alone: a floor, steps that follow one another, and a rate that its kernels cannot exceed.

    time = launch + base + steps x step latency (+ path of the network) + loops x synchronisation + fill + size / rate

The form is NCCL's cost model; where published logs show what that model leaves out, the cause is added:

- the steps of a ring are paid again for every loop over its buffers (channels x ranks x 2 MiB);
- in-switch reduction is limited by what a rank's link carries, the data and its own part, and synchronises once a loop;
- a pipeline is filled before it delivers: a stage for every domain on the way, each as long as one loop.

Each constant below says on which published measurements it rests.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.algorithm import ALGORITHMS
from railyard.collective.tree import levels
from railyard.collective.tuner import constants, nccl, rccl
from railyard.collective.tuner.plan import Plan, ring_plan
from railyard.graph import CollectiveKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.collective.algorithm import Algorithm, Steps
    from railyard.collective.machine import Case, Machine
    from railyard.collective.shape import Shape

KIB, MIB = 1 << 10, 1 << 20

WIRE = {"ll": 2.0, "ll128": 128 / 120, "simple": 1.0}
"""Bytes on a link for one byte of data: LL sends a 4-byte flag with 4 bytes of data, LL128 one 8-byte flag in 128
bytes."""

LINK_CEILING = 0.87
"""Share of a switched scale-up link's rate that data can reach: copies reach 392 of 450 GB/s (H100) and 777 of 900
(GB200)."""

SOFTWARE_US = {"ll": 3.8, "ll128": 5.5, "simple": 10.5}
"""A step through a NIC without the path itself: proxy thread, doorbell, flag, for Simple the flush. NCCL's constants
(5.0, 8.5 and 14 us on InfiniBand, of which 3 to 3.5 are the path) with LL raised to the floors of two-server logs."""

CROSS_SERVER_HOP = 2.2
"""Factor on a scale-up step when the communicator spans servers of one domain: 128 GB200 take 184 us for 126 steps."""

PEER_US = 0.25
"""Posting one more message of an all-to-all: 10.9 us for 8 ranks, 15 us for 8 over two trays."""

PEER_BASE_US = 8.5
"""Floor of grouped sends and receives: 9.1 us send-receive, 10.9 us all-to-all on B200."""

PEER_SHARE = 0.93
"""Share of the planned scale-up rate in grouped sends: 224 of 240 (A100), 673 of 722 (B200), 667 of 722 GB/s
(GB300)."""

SWITCH_SHARE = {"hopper": 0.88, "blackwell": 0.83}
"""Share of the planned scale-up rate that in-switch reduction reaches: H200 with 4 to 8 ranks, GB300 with 4 and 8."""

SWITCH_ACROSS_SERVERS = 0.87
"""Factor on it when the domain spans servers: GB200 and GB300 with 64 ranks."""

SWITCH_SYNC_US = 0.5
"""Synchronisation of a loop of in-switch reduction, for each rank of the domain (8 ranks 3.8 to 6.4 us, 4 ranks
1.4)."""

SWITCH_PASS_US = 25.0
"""A pass through the scale-up switch's reduction (NCCL 2.30)."""


@dataclass(frozen=True)
class Timing:
    """A collective alone, without the path of its steps through the network, which depends on where its ranks sit.

    Attributes:
        latency_us: float64[k], everything that does not move with bandwidth.
        network_steps: Steps to each of which the path through the network is added.
        rate_gbs: float64[k], bytes of the collective's size that its kernels can move in a second, in GB/s; inf for
            none.
    """

    latency_us: NDArray[np.float64]
    network_steps: float
    rate_gbs: NDArray[np.float64]


@dataclass(frozen=True)
class RankLoad:
    """What an algorithm asks of the busiest rank, in bytes per byte of the collective's size.

    Attributes:
        egress: Out of a rank into its scale-up links, relays to the right NIC and, in a torus, data of others counted.
        pair: From one rank to one other of its domain.
        port: Out of a domain, for each of its NIC ports.
    """

    egress: float
    pair: float
    port: float


@lru_cache(maxsize=4096)
def load_of(name: str, kind: CollectiveKind, shape: Shape) -> RankLoad:
    """The load of an algorithm on a shape."""
    pattern = ALGORITHMS.get(name).pattern(kind, shape)
    out = pattern.scale_out(shape)
    inside = ~out & (pattern.source >= 0)
    carried = pattern.share[inside] * _hops(pattern.source[inside], pattern.target[inside], shape)
    egress = np.bincount(pattern.source[inside], carried, minlength=shape.ranks)
    relayed = _relayed(pattern.source[out], pattern.target[out], pattern.share[out], shape)
    pair = float(pattern.share[inside & (pattern.target >= 0)].max(initial=0.0))
    leaving = out & (pattern.source >= 0)
    domains = np.bincount(shape.domain_of[pattern.source[leaving]], pattern.share[leaving], minlength=shape.domains)
    return RankLoad(float((egress + relayed).max()), pair, float(domains.max()) / shape.ports)


def _hops(source: NDArray[np.int64], target: NDArray[np.int64], shape: Shape) -> NDArray[np.int64]:
    """Links that an edge crosses: in a torus the distance, for others pass the data on; elsewhere 1."""
    if not shape.torus:
        return np.ones(len(source), np.int64)
    total = np.zeros(len(source), np.int64)
    stride = 1
    for size in shape.torus:
        apart = np.abs(source // stride % size - target // stride % size)
        total += np.minimum(apart, size - apart)
        stride *= size
    return total


def _relayed(
    source: NDArray[np.int64], target: NDArray[np.int64], share: NDArray[np.float64], shape: Shape
) -> NDArray[np.float64]:
    """Egress of each rank to peers that own the target's rail."""
    both = (source >= 0) & (target >= 0)
    source, target, share = source[both], target[both], share[both]
    local = np.arange(shape.ranks) - shape.offsets[shape.domain_of]
    moved = local[source] != local[target]
    egress: NDArray[np.float64] = np.bincount(source[moved], share[moved], minlength=shape.ranks).astype(np.float64)
    return egress


def timing(case: Case, algorithm: Algorithm, protocol: str, size_bytes: NDArray[np.float64]) -> Timing:
    """Floor and rate of one algorithm and protocol at many sizes.

    Args:
        case: What is to be done where; at least 2 ranks.
        algorithm: How.
        protocol: "ll", "ll128" or "simple".
        size_bytes: float64[k], nccl-tests sizes of one invocation.
    """
    size = np.asarray(size_bytes, np.float64)
    steps = algorithm.steps(case.kind, case.shape)
    step_us = _steps_us(case, algorithm, protocol, steps)
    rate = _rate_gbs(case, algorithm, protocol, size)
    latency = np.full(size.shape, _base_us(case.machine, algorithm, protocol) + step_us)
    if protocol == "simple":
        latency += _pipeline_us(case, algorithm, size, rate, step_us)
    return Timing(latency, steps.scale_out, rate)


def _base_us(machine: Machine, algorithm: Algorithm, protocol: str) -> float:
    index = constants.PROTOCOLS.index(protocol)
    if machine.library == "rccl":
        return rccl.BASE_US[index]
    if algorithm.family == "peer":
        return PEER_BASE_US
    return constants.BASE_US.get(algorithm.family, (0.0, 0.0, 0.0))[index]


def _steps_us(case: Case, algorithm: Algorithm, protocol: str, steps: Steps) -> float:
    machine = case.machine
    hop = _hop_us(machine, algorithm, protocol)
    if case.shape.per_domain > machine.server_ranks:
        hop *= CROSS_SERVER_HOP
    inside = steps.scale_up * hop + steps.peers * PEER_US + steps.switch * SWITCH_PASS_US
    return machine.latency_factor * inside + steps.scale_out * SOFTWARE_US[protocol]


def _hop_us(machine: Machine, algorithm: Algorithm, protocol: str) -> float:
    """One step from accelerator to accelerator inside a domain."""
    index = constants.PROTOCOLS.index(protocol)
    family = algorithm.family if algorithm.family == "tree" else "ring"
    if machine.library == "nccl":
        return (constants.PCI_US if machine.pcie else constants.NVLINK_US)[family][index]
    if machine.library == "rccl":
        return rccl.LINK_US[family][index]
    return machine.scale_up_latency_ps * 1e-6 * (1.0, 1.5, 3.0)[index] / machine.latency_factor


def _rate_gbs(case: Case, algorithm: Algorithm, protocol: str, size: NDArray[np.float64]) -> NDArray[np.float64]:
    """What the kernels can move; links are counted elsewhere."""
    machine = case.machine
    egress = load_of(algorithm.name, case.kind, case.shape).egress
    plan = machine.plan_bps / 8e9
    if egress == 0:
        return np.full(size.shape, np.inf)
    if algorithm.family == "nvls":
        return np.full(size.shape, plan * _switch_share(case) / egress)
    if protocol == "simple" and algorithm.family != "tree":
        # on a mesh or torus the links themselves are the limit, and what they carry stands in their efficiency
        share = PEER_SHARE if algorithm.family == "peer" else 1.0
        return np.full(size.shape, plan * share / egress if machine.scale_up == "switched" else np.inf)
    rate = np.full(size.shape, _protocol_gbs(case, algorithm, protocol) / egress)
    return rate * nccl.tree_correction(protocol, size) if algorithm.family == "tree" else rate


def _switch_share(case: Case) -> float:
    generation = constants.generation_name(case.machine.architecture)
    share = SWITCH_SHARE.get(generation, SWITCH_SHARE["blackwell"])
    return share * (SWITCH_ACROSS_SERVERS if case.shape.per_domain > case.machine.server_ranks else 1.0)


def _protocol_gbs(case: Case, algorithm: Algorithm, protocol: str) -> float:
    """Egress of a rank in GB/s to which a protocol's flags and a tree's channels limit it."""
    plan = case.machine.plan_bps / 8e9
    if case.machine.library != "nccl":
        return plan * {"ll": 0.4, "ll128": 0.85, "simple": 0.92}[protocol]
    channels = ring_plan(case.machine, case.shape).channels
    smooth = Plan(channels, plan / channels, plan / channels)
    index = constants.PROTOCOLS.index(protocol)
    if algorithm.family == "tree":
        egress = load_of("tree", CollectiveKind.ALL_REDUCE, case.shape).egress
        return nccl.bus_gbs(case, "tree", index, smooth) / 2 * egress
    return nccl.bus_gbs(case, "ring", index, smooth)


def _pipeline_us(
    case: Case, algorithm: Algorithm, size: NDArray[np.float64], rate: NDArray[np.float64], step_us: float
) -> NDArray[np.float64]:
    """What loops over the buffers of Simple and the filling of pipelines add, float64[k]."""
    if algorithm.family == "nvls":
        return _switch_pipeline_us(case, size, rate)
    if algorithm.family != "ring" or algorithm.floods:
        return np.zeros(size.shape)
    channels = 2 * ring_plan(case.machine, case.shape).channels
    if case.kind in (CollectiveKind.BROADCAST, CollectiveKind.REDUCE):
        chunk = np.minimum(128 * KIB, size / (12 * channels))
        fill: NDArray[np.float64] = (case.shape.ranks - 1) * chunk * channels / (case.machine.plan_bps / 8e6)
        return fill
    loop = channels * case.shape.ranks * 2 * MIB
    return np.maximum(size / loop - 1, 0) * step_us


def _switch_pipeline_us(case: Case, size: NDArray[np.float64], rate: NDArray[np.float64]) -> NDArray[np.float64]:
    """In-switch reduction: loops of channels x heads x chunk, each synchronised; domains fill one after another."""
    shape = case.shape
    hopper = constants.generation_name(case.machine.architecture) == "hopper"
    channels = 16 if hopper else (24 if shape.domains == 1 else 32)
    heads = channels * shape.per_domain
    chunk = switch_chunk_bytes(size, heads)
    if shape.domains > 1:
        chunk = np.minimum(chunk, 64 * KIB)
    loop = np.clip(size, 1, heads * chunk)
    sync = SWITCH_SYNC_US * shape.per_domain
    stages = 1.2 + 4 * levels(shape.domains)
    filled: NDArray[np.float64] = size / loop * sync + stages * (loop / (1e3 * rate) + sync)
    return filled


def switch_chunk_bytes(size_bytes: NDArray[np.float64], heads: int) -> NDArray[np.float64]:
    """Chunk of in-switch reduction: 128 KiB, halved while the data fills less than 64, 8 and 2 loops (NCCL 2.30)."""
    chunk = np.full(size_bytes.shape, 128.0 * KIB)
    for loops in (64, 8, 2):
        chunk = np.where(size_bytes < loops * heads * chunk, chunk / 2, chunk)
    return chunk


def transfer_us(machine: Machine, part: str) -> float:
    """Parts of the floor of one send and receive in us: "base", or a hop inside a domain by "ll" or "simple"."""
    if part == "base":
        return PEER_BASE_US
    return _hop_us(machine, ALGORITHMS.get("pairwise"), part) * machine.latency_factor
