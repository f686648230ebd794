"""The rate from which it pays to load the keys and values of a known prefix instead of computing them again.

    rate = bytes of the prefix's keys and values / seconds that computing them takes

Two answers, since two times are in use. `peak`: the FLOPs of the prefix at the accelerators' peak, which is what
Mooncake assumes (Qin et al., FAST'25, equation 2: 6 GB/s for Llama 3 70B and 8,192 tokens on 8 A800, 19 GB/s on 8
H800). Their count takes 22 d^2 for the matrices of a layer and counts the keys behind a query as well; here stand the
model's own shapes and causal attention. `predicted`: the time that the engine is expected to take, which is longer, so
that slower stores pay already.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from railyard.kit.errors import InputError
from railyard.kit.quantities import format_memory
from railyard.model.architecture import ModelColumns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.catalog import Accelerator, Model
    from railyard.work.serving.cost import IterationCost
    from railyard.work.serving.layout import ServingLayout


CODE_BYTES_PER_S, VECTOR_BYTES_PER_S = 18e9, 10e9
"""Rates of one core of a server processor that scans short codes and whole vectors."""
MISS_S = 100e-9
"""One access to a place in memory that no cache holds."""
MEMORY_SHARE = 0.9
"""Share of a device's memory that an index may take."""
_PROCESSORS = "x86"
_LINKS_BYTES = 256
"""Neighbours of a vector of a graph: 32 on the lowest level at 4 bytes, both ways (HNSW, arXiv 1603.09320, M = 32)."""


@dataclass(frozen=True, slots=True)
class Index:
    """Vectors to search.

    Attributes:
        kind: `flat`, `ivf` or `hnsw`.
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


_PEAK = {16: "bf16", 8: "fp8", 4: "fp4"}


@dataclass(frozen=True, slots=True)
class Reuse:
    """A prefix on one replica: what it weighs, and how long it takes to compute.

    Attributes:
        cache_bytes: Its keys and values.
        peak_s: Its FLOPs at the replica's peak.
        predicted_s: An iteration for each chunk of it, as the engine is expected to run them.
    """

    cache_bytes: float
    peak_s: float
    predicted_s: float

    @property
    def peak_bps(self) -> float:
        """From this rate on loading beats a replica at its peak, bit/s."""
        return 8.0 * self.cache_bytes / self.peak_s

    @property
    def predicted_bps(self) -> float:
        """From this rate on loading beats the replica as it is expected to run, bit/s."""
        return 8.0 * self.cache_bytes / self.predicted_s


def reuse(
    model: Model,
    device: Accelerator,
    layout: ServingLayout,
    cost: IterationCost,
    prefix_tokens: int,
) -> Reuse:
    """What a prefix weighs and takes on one replica.

    Args:
        model: Of the catalogue.
        device: Of the replica.
        layout: Of the replica.
        cost: Of an iteration of it; its longest row is a chunk.
        prefix_tokens: Tokens that were computed before, one or more.

    Raises:
        InputError: The prefix has no token.
    """
    if prefix_tokens < 1:
        raise InputError("a prefix has at least one token", key="prefix_tokens", found=prefix_tokens)
    chunk = int(cost.tokens[-1])
    start = np.arange(0, prefix_tokens, chunk, dtype=np.float64)
    length = np.minimum(prefix_tokens - start, chunk)
    pairs = length * start + length * length / 2.0
    seconds = cost.seconds(length, np.ones_like(length), np.zeros_like(length), pairs)
    return Reuse(
        cache_bytes=cost.kv_bytes_per_token * prefix_tokens,
        peak_s=_flops(model, prefix_tokens) / _peak_flops(model, device, layout),
        predicted_s=float(seconds.sum()),
    )


def _flops(model: Model, tokens: int) -> float:
    """FLOPs of a prompt: two for each weight of a layer that a token visits, and attention over the keys before it."""
    row = ModelColumns([model])
    weights = model.active_parameters() - model.embedding_parameters() - model.head_parameters()
    scores = row.core_flops(row.causal_pairs(np.array([float(tokens)])) * row.heads) * row.layers
    return 2.0 * weights * tokens + float(scores[0])


def _peak_flops(model: Model, device: Accelerator, layout: ServingLayout) -> float:
    bits = layout.math_bits(layout.weight_bits(model)[0], device)
    return device.flops[_PEAK[bits]] * layout.ranks
