"""From which rate on it pays to load the keys and values of a known prefix instead of computing them again.

    rate = bytes of the prefix's keys and values / seconds that computing them takes

Two answers, since two times are in use. `peak`: the FLOPs of the prefix at the accelerators' peak, which is what
Mooncake assumes (Qin et al., FAST'25, equation 2: 6 GB/s for Llama 3 70B and 8,192 tokens on 8 A800, 19 GB/s on 8
H800). Their count takes 22 d^2 for the matrices of a layer and counts the keys behind a query as well; here stand the
model's own shapes and causal attention. `predicted`: the time that the engine is expected to take, which is longer, so
that slower stores pay already.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.kit.errors import InputError
from railyard.model.architecture import ModelColumns

if TYPE_CHECKING:
    from railyard.catalog import Accelerator, Model
    from railyard.work.serving.cost import IterationCost
    from railyard.work.serving.layout import ServingLayout

_PEAK = {16: "bf16", 8: "fp8", 4: "fp4"}


@dataclass(frozen=True, slots=True)
class Reuse:
    """A prefix on one replica: what it weighs, and how long it takes to compute.

    Attributes:
        prefix_tokens: Its length.
        cache_bytes: Its keys and values.
        peak_s: Its FLOPs at the replica's peak.
        predicted_s: An iteration for each chunk of it, as the engine is expected to run them.
    """

    prefix_tokens: int
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
        prefix_tokens=prefix_tokens,
        cache_bytes=cost.kv_bytes_per_token * prefix_tokens,
        peak_s=_flops(model, prefix_tokens) / _peak_flops(model, device, layout),
        predicted_s=float(seconds.sum()),
    )


def _flops(model: Model, tokens: int) -> float:
    """Of a prompt: two for each weight of a layer that a token visits, and attention over the keys before it."""
    row = ModelColumns.of([model])
    weights = model.active_parameters() - model.embedding_parameters() - model.head_parameters()
    scores = row.core_flops(row.causal_pairs(np.array([float(tokens)])) * row.heads) * row.layers
    return 2.0 * weights * tokens + float(scores[0])


def _peak_flops(model: Model, device: Accelerator, layout: ServingLayout) -> float:
    bits = layout.math_bits(layout.weight_bits(model)[0], device)
    return device.flops[_PEAK[bits]] * layout.ranks
