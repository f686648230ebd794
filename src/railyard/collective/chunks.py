"""The pieces in which libraries move data: channels, chunks of trees, loops of in-switch reduction, and their cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.tree import levels
from railyard.collective.tuner import constants
from railyard.collective.tuner.plan import MAX_CHANNELS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.collective.machine import Case

KIB = 1 << 10

LL_SHOT_BYTES = 512 * 8
"""Data that the threads of a channel pass on at once with LL: 512 of 8 bytes (NCCL 2.30)."""

MANY_RANKS = 16
"""Ranks of a domain beyond which in-switch reduction reaches NCCL's lower efficiency of Blackwell: racks."""


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
    filled: NDArray[np.float64] = np.clip(np.ceil(size / (LL_SHOT_BYTES * parts)), 1, 2 * channels_of(case))
    return filled


def ll_shot_us(case: Case, size: NDArray[np.float64]) -> NDArray[np.float64]:
    """Time of a hop's first shot of LL in a tree, float64[k]: flags double its bytes."""
    shot = np.minimum(size / ll_channels(case, size, parts=1), LL_SHOT_BYTES)
    passed: NDArray[np.float64] = 2 * shot / (1e3 * case.measured.channel_gbs)
    return passed


def tree_chunk_bytes(
    channel_bytes: NDArray[np.float64], steps: float, per_domain: int, protocol: str
) -> NDArray[np.float64]:
    """Chunk of a tree's channel (NCCL 2.30): smaller ones while the data is only a few.

    Args:
        channel_bytes: float64[k], data of one channel.
        steps: How deep NCCL takes the tree to be.
        per_domain: Ranks of a domain.
        protocol: "ll128" or "simple".
    """
    chunk = np.full(channel_bytes.shape, 512.0 * KIB)
    rules: tuple[tuple[float, int], ...] = ((64 / per_domain, 128 * KIB), (16 / per_domain, 32 * KIB))
    if protocol == "simple":
        rules = ((8, 128 * KIB), (4, 64 * KIB), (1, 32 * KIB))
    for least, floor in rules:
        for _ in range(4):
            chunk = np.where((channel_bytes < steps * least * chunk) & (chunk > floor), chunk / 2, chunk)
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
    """Chunk of a CollNetChain channel (NCCL 2.30): 256 KiB, halved while the data is only a few; `depth` ranks."""
    chunk = np.full(channel_bytes.shape, 256.0 * KIB)
    for chunks, least in ((64, 128), (8, 64), (1, 32)):
        for _ in range(3):
            chunk = np.where((channel_bytes < chunks * depth * chunk) & (chunk > least * KIB), chunk / 2, chunk)
    return chunk


def switch_loop_bytes(case: Case, size: NDArray[np.float64], algorithm: str) -> NDArray[np.float64]:
    """Bytes of one loop of in-switch reduction; trees of domains take chunks of at most 64 KiB."""
    shape = case.shape
    hopper = constants.generation_name(case.machine.architecture) == "hopper"
    channels = 16 if hopper else (24 if shape.domains == 1 else 32)
    heads = channels * shape.per_domain
    chunk = switch_chunk_bytes(size, heads)
    if algorithm == "nvls-tree":
        chunk = np.minimum(chunk, 64 * KIB)
    loop: NDArray[np.float64] = np.clip(size, 1, heads * chunk)
    return loop


def switch_chunk_bytes(size_bytes: NDArray[np.float64], heads: int) -> NDArray[np.float64]:
    """Chunk of in-switch reduction: 128 KiB, halved while the data fills less than 64, 8 and 2 loops (NCCL 2.30)."""
    chunk = np.full(size_bytes.shape, 128.0 * KIB)
    for loops in (64, 8, 2):
        chunk = np.where(size_bytes < loops * heads * chunk, chunk / 2, chunk)
    return chunk


def switch_sync_us(case: Case) -> float:
    """Synchronisation of one loop of in-switch reduction: a fixed part, and one for each rank that all wait for."""
    generation = constants.generation_name(case.machine.architecture)
    factor = case.measured.hop_factor(generation, "ll")
    return factor * (case.measured.switch_sync_us + constants.MULTICAST_RANK_US * case.shape.per_domain)
