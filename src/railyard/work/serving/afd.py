"""Attention and FFN on accelerators of their own: what an iteration of decoding costs then.

Tokens of a batch alternate in m micro-batches between the two sides, layer by layer: attention, dispatch (M to N
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
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.collective.lowering.table import lower_transfers
from railyard.kit.errors import InputError
from railyard.measure.result.serving import ApartFigures, SideRow
from railyard.model.architecture import groups_visited
from railyard.work.serving.cost import IterationCost, slopes
from railyard.work.serving.iteration import IterationLoad, parts
from railyard.work.serving.layout import Deployments
from railyard.work.serving.memory import (
    BUSY,
    IDLE,
    MEMORY,
    cache_tokens,
    math_j,
    rank_table,
    state_tokens,
    token_bytes,
    weight_bytes,
)
from railyard.work.serving.software import ServingSoftwareColumns

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from railyard.catalog import Model
    from railyard.cluster import Cluster
    from railyard.model.architecture import ModelColumns
    from railyard.model.machine import F, Machine
    from railyard.work.serving.cost import IterationSlopes
    from railyard.work.serving.iteration import IterationTimes
    from railyard.work.serving.layout import ServingLayout
    from railyard.work.serving.placing import PlacedPool
    from railyard.work.serving.software import ServingSoftware


# Of the kernels of a layer that no shape explains, of its passes over the residual and of its two all-reduces, either
# half has one half.
_HALF = 0.5


@dataclass(frozen=True, slots=True)
class Side:
    """The accelerators of attention, or those of the FFNs.

    Attributes:
        layout: Attention: `tp` of each of `dp_attention` copies. FFN: `tp` of each of `ep` groups of experts, with
            `dp_attention` as many: dense FFNs and shared experts are there once in each group.
        software: Constants of the engine on that device.
        queries: Of each sequence that decodes: its own token, and guesses that are checked with it.
    """

    machine: Machine
    layout: ServingLayout
    software: ServingSoftware
    queries: float = 1.0


_OF_FFN = ("moe_layers", "mlp_parameters", "expert_parameters", "shared_parameters", "experts", "expert_share")
_OF_ATTENTION = (
    *("heads", "latent", "kv_elements", "attention_parameters", "router_parameters"),
    *("sparse_keys", "picking", "indexed", "vocab"),
)
"""Columns of a model that only the one half has."""


def attention_half(model: ModelColumns) -> ModelColumns:
    """Attention, routers, embeddings and the output projection."""
    zero = np.zeros_like(model.layers)
    split = model.layers * model.attention_parameters + model.moe_layers * model.router_parameters
    return model.replace(
        total_parameters=split + model.head_bytes,
        **dict.fromkeys(_OF_FFN, zero),
    )


def ffn_half(model: ModelColumns) -> ModelColumns:
    """Dense FFNs, shared and routed experts."""
    zero = np.zeros_like(model.layers)
    routed = model.moe_layers * model.experts * model.expert_parameters
    dense = (model.layers - model.moe_layers) * model.mlp_parameters + model.moe_layers * model.shared_parameters
    return model.replace(
        total_parameters=routed + dense,
        expert_share=routed / (routed + dense),
        **dict.fromkeys(_OF_ATTENTION, zero),
    )


class Half:
    """One half of a model on its side."""

    def __init__(self, model: Model, side: Side, half: Callable[[ModelColumns], ModelColumns]) -> None:
        self.model, self.side, self.half = model, side, half
        domain, layout = side.machine.scale_up_domain, side.layout
        if layout.tp <= domain:
            # All-reduces stay inside; what the law does where experts' exchange leaves a domain is not of a half.
            domain = max(domain, layout.ranks)
        rows = Deployments.of((model, layout, replace(side.machine, scale_up_domain=domain)))
        self.rows = replace(rows, model=half(rows.model))
        self._software = ServingSoftwareColumns([side.software])

    @cached_property
    def slopes(self) -> IterationSlopes:
        """What sequences, cached tokens and pairs add to an iteration."""
        return slopes(self.rows, self._software, self.side.queries)

    def _of(self, half: ModelColumns, tokens: float) -> IterationTimes:
        """Parts of an iteration of so many tokens without cached ones."""
        rows, none = replace(self.rows, model=half), np.zeros(1)
        return parts(rows, self._software, IterationLoad(np.array([tokens]), none, none, none))

    def layer_s(self, tokens: float) -> float:
        """Seconds of a mean layer without cached tokens and without what crosses to the other side.

        The all-reduce over tensor-parallel ranks is that of a dense model: of as many rows as experts give for each
        token.
        """
        half, layers = self.rows.model, float(self.model.layers)
        bare = half.replace(vocab=np.zeros_like(half.layers))
        one = self._of(bare, tokens)
        rows = max(self.model.experts_per_token, 1) if half.experts[0] else 1
        dense = bare.replace(moe_layers=np.zeros_like(half.layers))
        reduces = self._of(dense, tokens * rows).network
        kernels = one.kernels - _HALF * layers * self.side.software.layer_s
        seconds = one.matrices + one.experts + kernels + _HALF * (one.passes + reduces)
        return float(seconds[0]) / layers

    def head_s(self) -> float:
        """Seconds of the output projection's weights."""
        half = self.rows.model
        bare = self._of(half.replace(vocab=np.zeros_like(half.layers)), 1.0).matrices[0]
        return float(self._of(half, 1.0).matrices[0] - bare)

    def joule_per_token(self) -> float:
        """Energy of the matrix units for one token."""
        half, device = self.rows.model, self.rows.device
        dense = half.total_parameters * (1.0 - half.expert_share)
        active = dense + half.moe_layers * half.topk * half.expert_parameters
        return float(math_j(device.tdp_w, active, device.best_flops_s(self.rows.layout.dense_math))[0])

    @property
    def weight_bytes(self) -> float:
        """Bytes of weights of all ranks."""
        return float(weight_bytes(self.rows)[0]) * self.side.layout.ranks

    @property
    def cache_tokens(self) -> float:
        """Cached tokens that fit; for the FFN half more than zero where its weights fit."""
        return float(cache_tokens(self.rows)[0])

    @property
    def state_tokens(self) -> float:
        """Cached tokens in whose room the states of one sequence lie."""
        return float(state_tokens(self.rows)[0])

    def table(self) -> str:
        """What a rank holds."""
        return rank_table(self.rows)


def halves(model: Model, attention: Side, ffn: Side) -> tuple[Half, Half]:
    """Both halves of a model, each on its side."""
    return Half(model, attention, attention_half), Half(model, ffn, ffn_half)


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
class MicroBatchSeconds:
    """Seconds of one micro-batch in a mean layer."""

    attention: F
    dispatch: F
    ffn: F
    combine: F

    @property
    def round_s(self) -> F:
        """All four in sequence."""
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


@dataclass(frozen=True, eq=False, kw_only=True)
class ApartCost(IterationCost):
    """Cost of an iteration of a replica with attention and FFN on separate accelerators; see `IterationCost`.

    Attributes:
        micro_batches: Into which the tokens of an iteration are divided.
        beat: Of a micro-batch without cached tokens, by row of `tokens`.
        attention_per_kv_s: Seconds of all layers that a cached token adds to attention.
    """

    layers: int
    micro_batches: int
    beat: MicroBatchSeconds
    attention_per_kv_s: float

    def at(self, tokens: float, kv_tokens: float) -> MicroBatchSeconds:
        """A micro-batch of an iteration of so many tokens over so many cached ones."""
        attention, *others = (np.interp(tokens, self.tokens, column) for column in astuple(self.beat))
        read = self.attention_per_kv_s * kv_tokens / self.micro_batches / self.layers
        return MicroBatchSeconds(attention + read, *others)

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
    """What an iteration costs on a replica with attention and FFN on separate accelerators.

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


def _beat(one: Half, other: Half, exchange: SideExchange, tokens: F, per_sequence_s: float) -> MicroBatchSeconds:
    """Micro-batches of so many tokens, all of sequences that decode, without their cached tokens."""
    attention = np.array([one.layer_s(float(count)) for count in tokens]) + per_sequence_s * tokens
    ffn = np.array([other.layer_s(float(count)) for count in tokens])
    model = one.model
    vectors = tokens * model.hidden * groups_visited(model, other.side.layout.ep)
    there = 1.0 if other.rows.layout.expert_math[0] <= 8 else _COMBINE_BYTES
    latency = exchange.latency_s + one.side.software.exchange_s + (_PROGRESS_S if exchange.far else 0.0)
    dispatch = latency + vectors * there * exchange.dispatch_s_per_byte
    combine = latency + vectors * _COMBINE_BYTES * exchange.combine_s_per_byte
    return MicroBatchSeconds(attention, dispatch, ffn, combine)


def _exposed(beat: MicroBatchSeconds, cached_s: F, layers: int, m: int) -> F:
    """What the network adds to an iteration in which attention of a micro-batch reads for `cached_s` in a layer."""
    usual = replace(beat, attention=beat.attention + cached_s)
    none = np.zeros_like(cached_s)
    alone = replace(usual, dispatch=none, combine=none)
    added: F = np.clip(usual.iteration_s(layers, m) - alone.iteration_s(layers, m), 0.0, beat.iteration_s(layers, m))
    return added


def _lines(beat: MicroBatchSeconds, layers: int, m: int) -> tuple[F, F]:
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


_BULK_BYTES = 1 << 22
"""Size at which the exchange is lowered: its messages are written by the device, without a protocol for few bytes."""


def exchange_of(
    cluster: Cluster,
    sides: tuple[NDArray[np.int64], NDArray[np.int64]],
    rate_bps: NDArray[np.float64],
    weights: NDArray[np.float64],
) -> SideExchange:
    """Seconds per byte of dispatch and combine, where the fullest link has as much as routes and rates give it.

    Args:
        cluster: The network of the pool.
        sides: int64[replicas, ranks of a replica], of attention and of FFNs.
        rate_bps: Of the cluster's links.
        weights: float64[FFN ranks of a replica], share of the bytes that each of them takes.

    Raises:
        InputError: Two accelerators have no path.
    """
    one, other = sides
    replicas, here, there = len(one), one.shape[1], other.shape[1]
    source = np.repeat(one, there, axis=1).ravel()
    target = np.tile(other, (1, here)).ravel()
    share = np.tile(weights / here, replicas * here)
    domain = cluster.scale_up_domain
    away = source // domain != target // domain
    ports = cluster.back_end.port_of_rank[:, 0]
    path_ps = cluster.back_end.path_latency_ps(ports[source[away]], ports[target[away]]) if away.any() else None
    return SideExchange(
        _seconds_per_byte(cluster, source, target, share, rate_bps),
        _seconds_per_byte(cluster, target, source, share, rate_bps),
        (cluster.scale_up.latency_ps if path_ps is None else int(path_ps.max())) * 1e-12,
        far=bool(away.any()),
    )


def _seconds_per_byte(
    cluster: Cluster,
    source: NDArray[np.int64],
    target: NDArray[np.int64],
    share: NDArray[np.float64],
    rate_bps: NDArray[np.float64],
) -> float:
    """Seconds per byte of the fullest link, when every pair has its share of a byte."""
    count = len(source)
    table = lower_transfers(
        cluster,
        source.astype(np.int32),
        target.astype(np.int32),
        np.full(count, _BULK_BYTES, np.int64),
        np.ones(count, np.int32),
    )
    pair = np.repeat(np.arange(count), np.diff(table.link_ptr))
    load = np.bincount(table.link_idx, weights=table.link_share * share[pair], minlength=len(rate_bps))
    return float((8.0 * load / rate_bps).max())


_LIKE = 0.95
"""Sides of which one works at least this share of the other's time wait for nobody."""


def sides_of(pool: PlacedPool, cost: Any, tokens: float, kv_tokens: float) -> ApartFigures | None:
    """The two sides in the mean iteration of a run; None where they are together."""
    if pool.ffn is None or not isinstance(cost, ApartCost) or tokens <= 0:
        return None
    beat = cost.at(tokens, kv_tokens)
    times = {"attention": beat.attention, "ffn": beat.ffn, "dispatch": beat.dispatch, "combine": beat.combine}
    total = float(beat.iteration_s(cost.layers, cost.micro_batches))
    busy = {name: cost.micro_batches * cost.layers * float(part) / total for name, part in times.items()}
    network = max(busy["dispatch"], busy["combine"])
    fewer, more = sorted(("attention", "ffn"), key=lambda side: busy[side])
    waits = "both" if network > busy[more] else ("neither" if busy[fewer] >= _LIKE * busy[more] else fewer)
    return ApartFigures(
        micro_batches=cost.micro_batches,
        micro_batches_wanted=int(beat.wanted),
        waits=waits,
        attention=_side(pool.cluster.accelerator.name, pool.ranks.size, busy["attention"]),
        ffn=_side(pool.ffn.cluster.accelerator.name, pool.ffn.ranks.size, busy["ffn"]),
        network_busy=network,
    )


def _side(accelerator: str, count: int, busy: float) -> SideRow:
    return SideRow(accelerator=accelerator, accelerators=int(count), busy=busy)


def ffn_share(pool: PlacedPool) -> float:
    """Share of the power limits of a pool's accelerators that those of its FFNs have."""
    if pool.ffn is None:
        return 0.0
    one = pool.cluster.accelerator.tdp_w * pool.ranks.size
    other = pool.ffn.cluster.accelerator.tdp_w * pool.ffn.ranks.size
    return other / (one + other)
