"""The pieces in which libraries move data: channels, chunks of trees, loops of in-switch reduction, and their cost."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from railyard.collective import constants
from railyard.collective.algorithm import ALGORITHMS, Pattern
from railyard.collective.tree import levels
from railyard.collective.tuner import MAX_CHANNELS
from railyard.graph import CollectiveKind
from railyard.kit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from railyard.collective.machine import Case, Shape


@dataclass(frozen=True)
class RankLoad:
    """What an algorithm asks of the busiest rank, in bytes per byte of the collective's size.

    Attributes:
        scale_up: Through a rank's scale-up links, one way, with relays to the right NIC and, in a torus, data of
            others.
        pair: From one rank to one other of its domain.
        port: Through one NIC port, one way.
    """

    scale_up: float
    pair: float
    port: float


@lru_cache(maxsize=4096)
def load_of(name: str, kind: CollectiveKind, shape: Shape) -> RankLoad:
    """The load of an algorithm on a shape."""
    algorithm = ALGORITHMS.get(name)
    local = np.arange(shape.ranks) - shape.offsets[shape.domain_of]
    rails = local * min(shape.ports, shape.per_domain) // shape.per_domain
    joined = shape.aligned and shape.scale_up != "none"
    pattern = algorithm.relayed_pattern(kind, shape, rails) if joined else algorithm.pattern(kind, shape)
    out = pattern.scale_out(shape)
    inside, outside = pattern.part(~out), pattern.part(out)
    pairs = inside.share[(inside.source >= 0) & (inside.target >= 0)]
    carried = Pattern(inside.source, inside.target, inside.share * _hops(inside, shape), inside.merged)
    nics_of_rank = max(1, shape.ports // shape.per_domain)
    return RankLoad(
        scale_up=float(carried.loads(shape.ranks).max()),
        pair=float(pairs.max(initial=0.0)),
        port=_fullest_port(outside, shape, rails) / nics_of_rank,
    )


def _fullest_port(outside: Pattern, shape: Shape, rails: NDArray[np.int64]) -> float:
    """What the fullest NIC port sends or receives: it does both at once, for all ranks that share it."""
    port = shape.domain_of * shape.per_domain + rails
    ends = [(end[end >= 0], outside.share[end >= 0]) for end in (outside.source, outside.target)]
    return max(float(np.bincount(port[rank], share, minlength=1).max()) for rank, share in ends)


def _hops(edges: Pattern, shape: Shape) -> NDArray[np.int64]:
    """Links that an edge crosses: in a torus the distance, for others pass the data on; elsewhere 1."""
    total = np.ones(len(edges), np.int64)
    if not shape.torus:
        return total
    total[:] = 0
    stride = 1
    for size in shape.torus:
        apart = np.abs(edges.source // stride % size - edges.target // stride % size)
        total += np.minimum(apart, size - apart)
        stride *= size
    return total


KIB = 1 << 10

LL_SHOT_BYTES = 512 * 8
"""Data that the threads of a channel pass on at once with LL: 512 of 8 bytes (NCCL 2.30)."""

NIC_SHOTS = 3
"""Times that the lines of a shot are handled at a NIC's hop: written, read by the proxy, read at the other end."""

MANY_RANKS = 16
"""Ranks of a domain beyond which in-switch reduction reaches NCCL's lower efficiency of Blackwell: racks."""

MOST_HEADS = 32
"""`NCCL_MAX_NVLS_ARITY` (2.30)."""


def channels_of(case: Case) -> int:
    """Channels of rings and trees, without the library's steps of speed: never fewer with more bandwidth."""
    if case.shape.domains > 1:
        return min(case.shape.ports, MAX_CHANNELS)
    usual = constants.GENERATIONS[constants.generation_name(case.machine.architecture)].ring_speed
    return min(max(1, int(case.machine.plan_bps / 8e9 / usual)), MAX_CHANNELS)


def tree_fill_us(case: Case, protocol: str, size: NDArray[np.float64]) -> NDArray[np.float64]:
    """Filling of a tree: a chunk of one channel for every rank on the way up and down, float64[k]."""
    shape = case.shape
    channels = 2 * channels_of(case)
    depth = levels(shape.domains)
    chunk = tree_chunk_bytes(size / channels, 1 + depth + 0.1 * shape.per_domain, shape.per_domain, protocol)
    inside, outside = case.machine.plan_bps / 8e6 / channels, case.machine.nic_bps / 8e6 * shape.ports / channels
    each: NDArray[np.float64] = np.minimum(chunk, size / channels)
    hops = (shape.per_domain - 1) / inside + (depth / outside if depth else 0.0)
    return 2 * each * hops


def ll_channels(case: Case, size: NDArray[np.float64], *, parts: int) -> NDArray[np.float64]:
    """Channels that data fills with LL, float64[k]: NCCL opens another one where each has a shot for every part.

    Args:
        case: What is to be done where.
        size: float64[k], bytes.
        parts: Into how many parts an algorithm cuts a channel's data: a ring one for each rank.
    """
    filled: NDArray[np.float64] = np.clip(size / (LL_SHOT_BYTES * parts), 1, 2 * channels_of(case))
    return filled


def ll_shot_us(case: Case, size: NDArray[np.float64]) -> NDArray[np.float64]:
    """Time of the first shot of LL at a NIC's hop of a tree, float64[k].

    Inside a domain every thread passes its own line on. At a NIC the sender's kernel writes all lines, its proxy reads
    the flag of each before it posts (NCCL 2.30, `net.cc`), and the receiver's kernel reads them.
    """
    shot = np.minimum(size / ll_channels(case, size, parts=1), LL_SHOT_BYTES)
    passed: NDArray[np.float64] = NIC_SHOTS * shot / (1e3 * case.measured.ll_channel_gbs)
    return passed


def tree_chunk_bytes(
    channel_bytes: NDArray[np.float64], steps: float, per_domain: int, protocol: str
) -> NDArray[np.float64]:
    """Chunk of a tree's channel (NCCL 2.30).

    Args:
        channel_bytes: float64[k], data of one channel.
        steps: How deep NCCL takes the tree to be.
        per_domain: Ranks of a domain.
        protocol: "ll128" or "simple".
    """
    rules: tuple[tuple[float, int], ...] = ((64 / per_domain, 128), (16 / per_domain, 32))
    if protocol == "simple":
        rules = ((8, 128), (4, 64), (1, 32))
    return chunk_bytes(channel_bytes / steps, 512, rules)


def chunk_bytes(size: NDArray[np.float64], most: float, rules: Iterable[tuple[float, float]]) -> NDArray[np.float64]:
    """Chunk of data that is cut by rules "less of it while there are fewer than so many chunks", float64[k].

    NCCL halves chunks. Between two powers of two they grow here with the data, so that a byte more costs no step.

    Args:
        size: float64[k], bytes for each place that takes a chunk at a time.
        most: Largest chunk, KiB.
        rules: How many chunks the rule aims at, and the smallest chunk it allows, KiB.
    """
    chunk = np.full(size.shape, most * KIB)
    for wanted, least in rules:
        chunk = np.minimum(chunk, np.maximum(least * KIB, size / wanted))
    return chunk


def collnet_fill_us(
    case: Case, egress: float, size: NDArray[np.float64], rate_gbs: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Filling of CollNet's pipeline: a chunk of every channel, once for each stage on the way, float64[k].

    Args:
        case: What is to be done where.
        egress: Bytes through a rank's scale-up links for each byte; 0 where a domain has one rank.
        size: float64[k], bytes.
        rate_gbs: float64[k], what it moves once filled.
    """
    channels, hops = 2 * channels_of(case), 2 * (case.shape.per_domain - 1)
    chunk = np.minimum(collnet_chunk_bytes(size / channels, case.shape.per_domain), size / channels)
    inside = hops * max(egress, 1.0) / rate_gbs
    outside = 2 / (case.machine.nic_bps / 8e9 * case.shape.ports)
    fill: NDArray[np.float64] = channels * chunk * (inside / 2 + outside) / 1e3
    return fill


def collnet_chunk_bytes(channel_bytes: NDArray[np.float64], depth: int) -> NDArray[np.float64]:
    """Chunk of a CollNetChain channel (NCCL 2.30): 256 KiB, less while the data is only a few; `depth` ranks."""
    return chunk_bytes(channel_bytes / depth, 256, ((64, 128), (8, 64), (1, 32)))


def loop_bytes(case: Case, size: NDArray[np.float64], algorithm: str) -> NDArray[np.float64]:
    """Bytes of one loop of a pipeline of heads: a chunk of every head on every channel, float64[k]."""
    parts = _channels_of_heads(case, algorithm) * heads_of(case, algorithm)
    loop: NDArray[np.float64] = np.clip(size, 1, parts * head_chunk_bytes(case, size, algorithm, parts))
    return loop


def heads_of(case: Case, algorithm: str) -> int:
    """Ranks of a domain that each own a part: those next to NICs, or all up to NCCL's `NCCL_MAX_NVLS_ARITY`."""
    if algorithm == "collnet-direct":
        return min(case.shape.ports, case.shape.per_domain)
    return min(case.shape.per_domain, MOST_HEADS)


def _channels_of_heads(case: Case, algorithm: str) -> int:
    if algorithm == "collnet-direct":
        return 2 * channels_of(case)
    hopper = constants.generation_name(case.machine.architecture) == "hopper"
    return 16 if hopper else (24 if case.shape.domains == 1 else 32)


def head_chunk_us(case: Case, loop: NDArray[np.float64], algorithm: str) -> NDArray[np.float64]:
    """Time of one head's chunk of one channel through its NICs, float64[k]; `loop` in bytes."""
    chunk = loop / (_channels_of_heads(case, algorithm) * heads_of(case, algorithm))
    nics = case.machine.nic_bps / 8e6 * max(1, case.shape.ports // case.shape.per_domain)
    passed: NDArray[np.float64] = chunk / nics
    return passed


def head_chunk_bytes(case: Case, size: NDArray[np.float64], algorithm: str, parts: int) -> NDArray[np.float64]:
    """Chunk of one head and channel (NCCL 2.30).

    Args:
        case: What is done where.
        size: float64[k], bytes.
        algorithm: One whose data is cut among heads.
        parts: Heads times channels.
    """
    most, rules = _HEAD_CHUNKS.get(algorithm, _HEAD_CHUNKS["nvls"])
    if algorithm == "nvls-tree" and case.shape.domains >= 4:
        most = 64.0
    return chunk_bytes(size / parts, most, rules)


_HEAD_CHUNKS: dict[str, tuple[float, tuple[tuple[int, int], ...]]] = {
    "nvls": (128.0, ((64, 64), (8, 32), (2, 16))),
    "nvls-tree": (128.0, ((4, 64), (1, 32))),
    "collnet-direct": (512.0, ((128, 128), (16, 32))),
}
"""Largest chunk in KiB and rules of `chunk_bytes`; an NVLS tree of four domains and more begins at 64 KiB."""


def switch_sync_us(case: Case) -> float:
    """Synchronisation of one loop of in-switch reduction: a fixed part, and one for each rank that all wait for.

    One domain adds and multicasts in one pass. Between domains these are two, each synchronises, and every head is one
    more to post to: 16 H100 reach 252 GB/s over InfiniBand and RoCE, 16 B300 409, with chunks as NCCL's source has
    them; 128 GB200 begin at 290 us.
    """
    generation = constants.generation_name(case.machine.architecture)
    one_us = case.measured.switch_sync_us + constants.MULTICAST_RANK_US * case.shape.per_domain
    heads_us = case.measured.peer_us * heads_of(case, "nvls-tree") if case.shape.domains > 1 else 0.0
    return case.measured.hop_factor(generation, "ll") * (passes_of(case) * one_us + heads_us)


def passes_of(case: Case) -> int:
    """Passes through the scale-up switch that follow one another."""
    return 1 if case.shape.domains == 1 else 2


LONG_PS = 25_000_000
"""One way from which a path counts as long (5 km): below, slots come back before a NIC runs out of them."""

SLOTS = 8
RING_STEPS = 2
"""Steps of a ring of Simple in those slots."""

RING_BYTES = {"ll": 64 * KIB, "ll128": 2 * 576_000, "simple": 4096 * KIB}
"""Largest step of a ring, of the two channels that the library runs for each that its search finds: a slot of LL and
LL128 without flags (NCCL 2.30: 512 KiB and 4.9 MB of buffer in 8 slots), four of Simple."""

CHUNK_BYTES = 512 * KIB
"""A slot of Simple, the largest chunk of a tree."""

LEAST_CHUNK_BYTES = {"ll": 8 * KIB, "ll128": 16 * KIB, "simple": 32 * KIB}
"""NCCL halves a tree's chunks down to 32 KiB while fewer than `PIECES_A_LEVEL` of them fill each level; LL and LL128
pass data on line by line, for which smaller pieces stand."""

PIECES_A_LEVEL = 8

RINGS = ("ring", "hierarchical")


def steps_in_flight(algorithm: str, protocol: str) -> int:
    """Steps of a ring, or chunks, that one connection has on its way at most."""
    return RING_STEPS if algorithm in RINGS and protocol == "simple" else SLOTS


def tree_chunk(each: NDArray[np.float64] | float, domains: int, protocol: str) -> NDArray[np.float64]:
    """Chunk of a tree's channel that carries `each`, bytes."""
    wanted = PIECES_A_LEVEL * max(domains, 2).bit_length()
    chunk: NDArray[np.float64] = np.clip(np.asarray(each) / wanted, LEAST_CHUNK_BYTES[protocol], CHUNK_BYTES)
    return chunk


def ring_step_bytes(size: NDArray[np.float64] | float, case: Case, algorithm: str) -> NDArray[np.float64]:
    """A step of a ring on one channel of the plan, before it is cut into loops."""
    shape = case.shape
    members = shape.domains if algorithm == "hierarchical" else shape.ranks
    step: NDArray[np.float64] = np.asarray(size) / (members * shape.per_domain)
    return step


_edges: Registry[Callable[[Case, str, str, NDArray[np.float64]], NDArray[np.float64]]] = Registry("law of chunks")
"""Chunks over the longest edge of an algorithm that slots bound, float64[k]; each registers where it is defined."""


def window_s(
    case: Case, algorithm: str, protocol: str, size: NDArray[np.float64], path_s: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Least time that slots leave a collective, the paths of its first data included, float64[k]; 0: none.

    Its longest edge carries `trips` windows. Each begins when the first send of the one before has come back, which was
    sent at the NIC's rate. A ring's last window need not come back.

    Args:
        case: What is done where.
        algorithm: How.
        protocol: "ll", "ll128" or "simple".
        size: float64[k], bytes.
        path_s: float64[k], one way over its longest edge between domains.
    """
    if algorithm not in _edges.known:
        return np.zeros(len(size))
    chunks = np.maximum(
        _edges.get(algorithm)(case, algorithm, protocol, size), 1
    )  # a barrier has no bytes and one chunk
    trips = np.ceil(chunks / steps_in_flight(algorithm, protocol))
    ways = 2 * trips - (1 if algorithm in RINGS else 0)
    port_bytes = size * load_of(algorithm, case.kind, case.shape).port
    send_s = 8 * port_bytes / chunks / (case.machine.nic_bps * case.machine.payload_efficiency)
    bound: NDArray[np.float64] = np.where(path_s > 1e-12 * LONG_PS, ways * path_s + trips * send_s, 0.0)
    return bound


@_edges.register("hierarchical")
@_edges.register("ring")
def _ring_chunks(case: Case, algorithm: str, protocol: str, size: NDArray[np.float64]) -> NDArray[np.float64]:
    members = case.shape.domains if algorithm == "hierarchical" else case.shape.ranks
    rounds = (2 if case.kind == CollectiveKind.ALL_REDUCE else 1) * (members - 1)
    loops: NDArray[np.float64] = np.ceil(ring_step_bytes(size, case, algorithm) / RING_BYTES[protocol])
    return rounds * loops


@_edges.register("collnet-chain")
@_edges.register("collnet-direct")
@_edges.register("tree")
def _tree_chunks(case: Case, algorithm: str, protocol: str, size: NDArray[np.float64]) -> NDArray[np.float64]:
    del algorithm
    each = size / (2 * case.shape.per_domain)
    chunks: NDArray[np.float64] = np.ceil(each / tree_chunk(each, case.shape.domains, protocol))
    return chunks


@_edges.register("nvls-sharp")
@_edges.register("nvls-tree")
def _switch_chunks(case: Case, algorithm: str, protocol: str, size: NDArray[np.float64]) -> NDArray[np.float64]:
    del protocol
    chunks: NDArray[np.float64] = np.ceil(size / loop_bytes(case, size, algorithm))
    return chunks
