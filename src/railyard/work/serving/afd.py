"""Attention and FFN on accelerators of their own: what an iteration of decoding costs then.

Tokens of a batch go in m micro-batches to and fro between the two sides, layer by layer: attention, dispatch (M to N
accelerators), FFN, combine (N to M). Each side and each direction of the network works on one micro-batch at a time:

    R = attention + dispatch + FFN + combine        one micro-batch through one layer, alone
    S = max(attention, dispatch, FFN, combine)      the slowest of the four
    T = R + (m - 1) S + (L - 1) max(m S, R)         all micro-batches through L layers

With m S >= R that is (T_a + T_f + 2 T_c) + T_f (m L - 1) of MegaScale-Infer (Zhu et al., arXiv 2504.02263, section
4.1), and m S >= R is its condition m >= 2 (1 + T_c / T_f) where both sides take the same time.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.kit.errors import InputError
from railyard.model.routing import groups_visited
from railyard.work.serving.cost import IterationCost
from railyard.work.serving.halves import Half, Side, halves
from railyard.work.serving.memory import token_bytes
from railyard.work.serving.power import BUSY, IDLE, MEMORY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.catalog import Model
    from railyard.model.columns import F

# Rows of the table over tokens: a line between two of them is the law within a percent.
_ROWS = 96
# Bytes of an element of the residual on its way back; on its way there one where experts are multiplied in 8 bits.
_COMBINE_BYTES = 2.0
# From a message's start to the wire and from the wire to its receiver's notice, beside NICs, switches and cables: the
# 12 us of a step between servers in the law of an iteration, less 4 us of a path of two tiers.
_PROGRESS_S = 8e-6
_LEAST_CONTEXT = 2048.0
_MOST_RANKS = 64


@dataclass(frozen=True, slots=True)
class SideExchange:
    """The network between the sides, with all replicas of the pool at it.

    Attributes:
        dispatch_s_per_byte, combine_s_per_byte: Seconds for a byte that a replica's side sends in all.
        latency_s: Of the path, NICs included.
        far: Whether it leaves the scale-up domain.
    """

    dispatch_s_per_byte: float
    combine_s_per_byte: float
    latency_s: float
    far: bool


@dataclass(frozen=True, slots=True)
class Beat:
    """Seconds of one micro-batch in a mean layer."""

    attention: F
    dispatch: F
    ffn: F
    combine: F

    @property
    def round_s(self) -> F:
        """All four, one after the other."""
        return self.attention + self.dispatch + self.ffn + self.combine

    @property
    def slowest_s(self) -> F:
        """The longest of the four."""
        longest: F = np.maximum(np.maximum(self.attention, self.ffn), np.maximum(self.dispatch, self.combine))
        return longest

    def iteration_s(self, layers: int, micro_batches: int) -> F:
        """All micro-batches through all layers."""
        once, slowest = self.round_s, self.slowest_s
        rest: F = (layers - 1) * np.maximum(micro_batches * slowest, once)
        return once + (micro_batches - 1) * slowest + rest

    @property
    def wanted(self) -> F:
        """The fewest micro-batches with which the slowest of the four works without a pause."""
        fewest: F = np.ceil(self.round_s / self.slowest_s - 1e-9)
        return fewest


@dataclass(frozen=True, eq=False)
class ApartCost(IterationCost):
    """Cost of an iteration of a replica whose attention and FFN are apart; see `IterationCost`.

    Attributes:
        overlapped_per_kv_token_s: f64[lines], seconds of a cached token that is read, ...
        overlapped_s: f64[lines, k], ... of which so many hide beside FFNs and network.
        layers: Of the model.
        micro_batches: Into which the tokens of an iteration are divided.
        beat: Of a micro-batch without cached tokens, by row of `tokens`.
        attention_per_kv_s: Seconds of all layers that a cached token adds to attention.
    """

    overlapped_per_kv_token_s: F
    overlapped_s: F
    layers: int
    micro_batches: int
    beat: Beat
    attention_per_kv_s: float

    def at(self, tokens: float, kv_tokens: float) -> Beat:
        """A micro-batch of an iteration of so many tokens over so many cached ones."""
        attention, *others = (np.interp(tokens, self.tokens, column) for column in astuple(self.beat))
        read = self.attention_per_kv_s * kv_tokens / self.micro_batches / self.layers
        return Beat(attention + read, *others)

    def seconds(self, tokens: F, sequences: F, kv_tokens: F, pairs: F) -> F:
        """Seconds of an iteration, vectorised; see `IterationCost.seconds`."""
        base = np.interp(tokens, self.tokens, self.compute_s + self.network_s)
        longest = np.zeros_like(base)
        for each, hidden in zip(self.overlapped_per_kv_token_s, self.overlapped_s, strict=True):
            longest = np.maximum(longest, each * kv_tokens - np.interp(tokens, self.tokens, hidden))
        found: F = self.host_s + self.host_per_seq_s * sequences + base + longest + self.attention_per_pair_s * pairs
        return found


def apart_cost(
    model: Model,
    attention: Side,
    ffn: Side,
    exchange: SideExchange,
    *,
    micro_batches: int,
    max_batched_tokens: int = 8192,
    context: float = _LEAST_CONTEXT,
) -> ApartCost:
    """What an iteration of a replica costs whose attention and FFN are apart.

    Args:
        model: Of the catalogue.
        attention: Side with keys and values.
        ffn: Side with experts and dense FFNs.
        exchange: The network between them.
        micro_batches: At least 1.
        max_batched_tokens: Most tokens of an iteration.
        context: Cached tokens of a usual sequence: the network's exposed part of an iteration is taken at it.

    Raises:
        InputError: Either side does not fit; with the table why, and what fits.
    """
    one, other = halves(model, attention, ffn)
    check_fit(one, other)
    tokens = np.unique(np.geomspace(1, max(max_batched_tokens, 2), _ROWS).round().astype(np.int64))
    m, layers = micro_batches, model.layers
    added = one.slopes
    each, per_sequence = float(added.kv_token_s[0]), float(added.sequence_s[0])
    beat = _beat(one, other, exchange, tokens / m, per_sequence / layers)
    iteration = beat.iteration_s(layers, m)
    exposed = _exposed(beat, each * context * tokens / m / layers, layers, m)
    slopes, constants = _lines(beat, layers, m)
    busy = [float((m * layers * part / iteration)[-1]) for part in (beat.attention, beat.ffn)]
    limits = [half.side.machine.accelerator.tdp_w * half.side.layout.ranks for half in (one, other)]
    return ApartCost(
        tokens=tokens,
        compute_s=iteration - exposed + m * one.head_s(),
        network_s=exposed,
        hidden_s=np.maximum(m * layers * (beat.dispatch + beat.combine) - exposed, 0.0),
        host_s=attention.software.host_s,
        host_per_seq_s=one.side.software.host_per_sequence_s / one.side.layout.dp_attention + float(added.logits_s[0]),
        attention_per_kv_token_s=0.0,
        attention_per_sequence_s=0.0,
        attention_floor_s=0.0,
        attention_per_pair_s=float(added.pair_s[0]),
        pipeline_stages=1,
        stage_share=1.0,
        idle_w=IDLE * sum(limits),
        busy_w=(BUSY + 0.5 * MEMORY) * sum(share * limit for share, limit in zip(busy, limits, strict=True)),
        joule_per_token=one.joule_per_token() + other.joule_per_token(),
        joule_per_kv_token=0.5 * MEMORY * limits[0] * each,
        kv_bytes_per_token=float(token_bytes(one.rows)[0]),
        kv_capacity_tokens=one.cache_tokens,
        state_tokens=one.state_tokens,
        weight_bytes=one.weight_bytes + other.weight_bytes,
        overlapped_per_kv_token_s=slopes * each / m / layers,
        overlapped_s=np.maximum(iteration - constants, 0.0),
        layers=layers,
        micro_batches=m,
        beat=beat,
        attention_per_kv_s=each,
    )


def _beat(one: Half, other: Half, exchange: SideExchange, tokens: F, per_sequence_s: float) -> Beat:
    """Micro-batches of so many tokens, all of sequences that decode, without their cached tokens."""
    attention = np.array([one.layer_s(float(count)) for count in tokens]) + per_sequence_s * tokens
    ffn = np.array([other.layer_s(float(count)) for count in tokens])
    model = one.model
    vectors = tokens * model.hidden * groups_visited(model, other.side.layout.ep)
    there = 1.0 if other.rows.layout.expert_math[0] <= 8 else _COMBINE_BYTES
    latency = exchange.latency_s + one.side.software.exchange_s + (_PROGRESS_S if exchange.far else 0.0)
    dispatch = latency + vectors * there * exchange.dispatch_s_per_byte
    combine = latency + vectors * _COMBINE_BYTES * exchange.combine_s_per_byte
    return Beat(attention, dispatch, ffn, combine)


def _exposed(beat: Beat, cached_s: F, layers: int, m: int) -> F:
    """What the network adds to an iteration in which attention of a micro-batch reads for `cached_s` in a layer."""
    usual = replace(beat, attention=beat.attention + cached_s)
    none = np.zeros_like(cached_s)
    alone = replace(usual, dispatch=none, combine=none)
    added: F = np.clip(usual.iteration_s(layers, m) - alone.iteration_s(layers, m), 0.0, beat.iteration_s(layers, m))
    return added


def _lines(beat: Beat, layers: int, m: int) -> tuple[F, F]:
    """The iteration as the longest of lines in x, the time by which cached tokens lengthen attention in a layer.

    A sum of maxima is the maximum over all choices of their terms; choices that are never the longest are left out.

    Returns:
        Slopes in x, float64[lines], and the lines at x = 0 by row of tokens, float64[lines, k].
    """
    once, attention = beat.round_s, beat.attention
    others = np.maximum(beat.ffn, np.maximum(beat.dispatch, beat.combine))
    slopes: NDArray[np.float64] = np.array([1.0, layers, layers + m - 1.0, layers * m])
    constants = (
        once + (m - 1) * others + (layers - 1) * m * others,
        once + (m - 1) * others + (layers - 1) * once,
        once + (m - 1) * attention + (layers - 1) * once,
        once + (m - 1) * attention + (layers - 1) * m * attention,
    )
    return slopes, np.stack(constants)


def check_fit(one: Half, other: Half) -> None:
    """Refuses sides whose weights, or on the attention side the cache of one sequence, do not fit.

    Raises:
        InputError: With the table why, and the nearest that fits.
    """
    if one.cache_tokens - one.state_tokens < _LEAST_CONTEXT:
        raise _refused(
            one, "attention", [(tp, one.side.layout.dp_attention) for tp in (1, 2, 4, 8, 16, 32, 64)], _LEAST_CONTEXT
        )
    if other.cache_tokens <= 0.0:
        raise _refused(other, "ffn", [(tp, ep) for ep in (1, 2, 4, 8, 16, 32, 64) for tp in (1, 2, 4, 8)], 0.0)


def _refused(half: Half, name: str, degrees: list[tuple[int, int]], least: float) -> InputError:
    layout = half.side.layout
    near = []
    for tp, ep in sorted(degrees, key=lambda pair: (abs(math.log2(pair[0] * pair[1] / layout.ranks)), pair)):
        if tp * ep > _MOST_RANKS or (name == "ffn" and half.model.experts % ep):
            continue
        other = replace(layout, tp=tp, dp_attention=ep, ep=ep if name == "ffn" else 1)
        if Half(half.model, replace(half.side, layout=other), half.half).cache_tokens > least:
            near.append(f"tp {tp}" + (f" ep {ep}" if name == "ffn" else ""))
    asked = f"tp {layout.tp}" + (f" ep {layout.ep}" if name == "ffn" else "")
    return InputError(
        f"the {name} side of {half.model.name} does not fit {asked} in {layout.precision} on"
        f" {half.side.machine.accelerator.name}: {half.table()}",
        key=name,
        found=asked,
        hint="fits: " + "; ".join(near[:3]) if near else f"nothing up to {_MOST_RANKS} of them fits",
    )
