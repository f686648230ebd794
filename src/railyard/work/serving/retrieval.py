"""Time of a batch of vector searches on a device: bytes through memory, scores through its units, or steps in a graph.

    flat, ivf:  T(B) = max(N b (1 - (1 - p)^B) / memory, B p N b / scan)       p = 1 for flat
    hnsw:       T(B) = ceil(B / cores) v (d b / core + 100 ns)

N vectors of b bytes; a query scans the share p of the lists, and queries of a batch share the lists that they have in
common, as tokens share experts. Scanning also costs the units: a core of a server processor goes through 18 GB/s of
short codes and 10 GB/s of whole vectors (RAGO, arXiv 2503.14649, calibrated on ScaNN and an EPYC; its open code); an
accelerator computes two FLOPs an element. A graph is walked one vector after the other: each of the v visited ones is a
miss of the caches, about 100 ns of a server's memory, and its own bytes at a core's rate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from railyard.kit.errors import InputError
from railyard.kit.units import format_memory

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.catalog import Accelerator

CODE_BYTES_PER_S, VECTOR_BYTES_PER_S = 18e9, 10e9
"""Of one core of a server processor, scanning short codes and whole vectors."""
MISS_S = 100e-9
"""One access to a place in memory that no cache holds."""
MEMORY_SHARE = 0.9
"""Of a device's memory that an index may take."""
_PROCESSORS = "x86"
_LINKS_BYTES = 256
"""Neighbours of a vector of a graph: 32 on the lowest level at 4 bytes, both ways (HNSW, arXiv 1603.09320, M = 32)."""


@dataclass(frozen=True, slots=True)
class Index:
    """Vectors to search.

    Attributes:
        kind: `flat`, `ivf` or `hnsw`.
        vectors: How many.
        dimensions: Of each.
        vector_bytes: Stored for each.
        probed: Share of the lists that a query scans.
        visited: Vectors that a query is compared with in a graph.
    """

    kind: Literal["flat", "ivf", "hnsw"]
    vectors: int
    dimensions: int
    vector_bytes: int
    probed: float = 1.0
    visited: int = 0

    @property
    def size_bytes(self) -> float:
        """Memory that it takes."""
        return float(self.vectors) * (self.vector_bytes + (_LINKS_BYTES if self.kind == "hnsw" else 0))


def is_processor(device: Accelerator) -> bool:
    """Whether a device is a server's processor, whose cores work on queries of their own."""
    return device.architecture.startswith(_PROCESSORS)


def search_s(index: Index, device: Accelerator, queries: NDArray[np.int64], shards: int = 1) -> NDArray[np.float64]:
    """Seconds of batches of so many queries, each over `shards` devices that hold a part of the vectors.

    Args:
        index: What is searched.
        device: Of each shard.
        queries: int64[k], in a batch.
        shards: Devices.

    Raises:
        InputError: The index does not fit, or a graph is asked for on a device without cores of its own.
    """
    room = MEMORY_SHARE * device.memory_bytes * shards
    if index.size_bytes > room:
        need = int(np.ceil(index.size_bytes / (MEMORY_SHARE * device.memory_bytes)))
        raise InputError(
            f"the index takes {format_memory(index.size_bytes, 0)}, {shards} x {device.name} have room for"
            f" {format_memory(room, 0)}",
            key="shards",
            found=shards,
            allowed=f"at least {need}",
            hint="shorter vectors (`vector_size`) take less",
        )
    return _walk_s(index, device, queries) if index.kind == "hnsw" else _scan_s(index, device, queries, shards)


def _scan_s(index: Index, device: Accelerator, queries: NDArray[np.int64], shards: int) -> NDArray[np.float64]:
    part = float(index.vectors) * index.vector_bytes / shards
    share = 1.0 if index.kind == "flat" else index.probed
    read = part * -np.expm1(queries * np.log1p(-min(share, 1 - 1e-12)))
    memory = read / (device.memory_bps / 8 * device.memory_efficiency)
    scanned = queries * share * part
    if is_processor(device):
        short = index.vector_bytes < index.dimensions
        units = scanned / (device.sm_count * (CODE_BYTES_PER_S if short else VECTOR_BYTES_PER_S))
    else:
        elements = scanned / index.vector_bytes * index.dimensions
        best = max(device.flops.get("bf16", 0.0), device.flops.get("fp16", 0.0)) * device.gemm_efficiency
        units = 2 * elements / best
    longer: NDArray[np.float64] = np.maximum(memory, units)
    return longer


def _walk_s(index: Index, device: Accelerator, queries: NDArray[np.int64]) -> NDArray[np.float64]:
    if not is_processor(device):
        raise InputError(
            "a graph of vectors is walked by the cores of a server's processor",
            key="index",
            found=f"hnsw on {device.name}",
            hint="`ivf` or `flat` run on accelerators",
        )
    each = index.visited * (index.vector_bytes / VECTOR_BYTES_PER_S + MISS_S)
    waves: NDArray[np.float64] = np.ceil(queries / device.sm_count)
    return waves * each
