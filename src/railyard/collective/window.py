"""How much of a collective is on its way between two domains at a time: the slots of the library's buffers.

A channel's connection has a buffer of 4 MiB in 8 slots (NCCL 2.30, `NCCL_BUFFSIZE`, `NCCL_STEPS`). A ring of Simple
takes 4 of them for a step, so two steps of at most 2 MiB are on their way; trees and in-switch reduction take one for a
chunk. The sender posts again when a slot has come back, so that no more than

    window / round trip

crosses a long link: 8 MiB through a NIC of 400 Gb/s last 168 us, which is a round trip of 16 km.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.chunks import loop_bytes
from railyard.collective.rank_load import load_of
from railyard.graph import CollectiveKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.collective.machine import Case

KIB = 1 << 10

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
    if algorithm not in _EDGES:
        return np.zeros(len(size))
    chunks = _EDGES[algorithm](case, algorithm, protocol, size)
    trips = np.ceil(chunks / steps_in_flight(algorithm, protocol))
    ways = 2 * trips - (1 if algorithm in RINGS else 0)
    send_s = 8 * _port_bytes(case, algorithm, size) / chunks / (case.machine.nic_bps * case.machine.payload_efficiency)
    bound: NDArray[np.float64] = np.where(path_s > 1e-12 * LONG_PS, ways * path_s + trips * send_s, 0.0)
    return bound


def _port_bytes(case: Case, algorithm: str, size: NDArray[np.float64]) -> NDArray[np.float64]:
    """Through the busiest NIC, one way."""
    return size * load_of(algorithm, case.kind, case.shape).port


def _ring_chunks(case: Case, algorithm: str, protocol: str, size: NDArray[np.float64]) -> NDArray[np.float64]:
    members = case.shape.domains if algorithm == "hierarchical" else case.shape.ranks
    rounds = (2 if case.kind == CollectiveKind.ALL_REDUCE else 1) * (members - 1)
    loops: NDArray[np.float64] = np.ceil(ring_step_bytes(size, case, algorithm) / RING_BYTES[protocol])
    return rounds * loops


def _tree_chunks(case: Case, algorithm: str, protocol: str, size: NDArray[np.float64]) -> NDArray[np.float64]:
    del algorithm
    each = size / (2 * case.shape.per_domain)
    chunks: NDArray[np.float64] = np.ceil(each / tree_chunk(each, case.shape.domains, protocol))
    return chunks


def _switch_chunks(case: Case, algorithm: str, protocol: str, size: NDArray[np.float64]) -> NDArray[np.float64]:
    del protocol
    chunks: NDArray[np.float64] = np.ceil(size / loop_bytes(case, size, algorithm))
    return chunks


_EDGES = {
    "ring": _ring_chunks,
    "hierarchical": _ring_chunks,
    "tree": _tree_chunks,
    "nvls-tree": _switch_chunks,
    "nvls-sharp": _switch_chunks,
    "collnet-direct": _tree_chunks,
    "collnet-chain": _tree_chunks,
}
