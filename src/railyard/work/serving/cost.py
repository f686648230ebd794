"""What one iteration of a replica costs, as tables that a simulation can read, and whether the replica fits at all.

    T = host + host_per_seq * sequences + f(tokens) + g(decodes, kv_tokens) + h * pairs

is the law of `iteration` with its parts gathered by what they grow with: f is a table over tokens (matrices, experts,
passes, kernels, collectives), g linear in the decoding sequences and their cached tokens, h a constant.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from railyard.engine.serving import Cost
from railyard.kit.errors import InputError
from railyard.work.serving.iteration import LINE_SHARE, IterationLoad, late_s, launches_s, parts, prompts_on_copies
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
    from numpy.typing import NDArray

    from railyard.catalog import Model
    from railyard.model.machine import F, Machine
    from railyard.work.serving.layout import ServingLayout
    from railyard.work.serving.software import ServingSoftware

    Floats = NDArray[np.float64]
    Role = Literal["both", "prefill", "decode"]


_SLOW = (1e-4, 1e-5)
"""Shares of the NICs' rate at which they are all that counts."""


def scale_out(rows: Deployments, software: ServingSoftwareColumns, tokens: NDArray[np.int64]) -> dict[str, Any]:
    """`scale_out_*` of `IterationCost`; nothing where the collectives stay in a scale-up domain.

    Args:
        rows: One replica.
        software: Its constants, one row.
        tokens: Rows of the cost's table.
    """
    rate = rows.machine.out_bytes_s
    one, other = (_network_s(rows, software, tokens[-1:], factor) for factor in _SLOW)
    if other[0] <= one[0]:
        return {}
    usual, slow, slower = (_network_s(rows, software, tokens, factor) for factor in (1.0, *_SLOW))
    per_slowness = (slower - slow) / (1 / _SLOW[1] - 1 / _SLOW[0])
    each = float((per_slowness / tokens).mean())
    apart = rows.layout.dp > 1
    exchange = np.minimum(software.exchange_fraction, LINE_SHARE)
    fraction = np.where(apart & (rows.model.moe_layers > 0), exchange, software.reduce_fraction)
    total = float((rate * fraction * rows.layout.tp * rows.layout.dp)[0])
    alone = slow - per_slowness / _SLOW[0] + per_slowness
    return {
        "scale_out_bytes_per_token": each * total,
        "scale_out_bps": 8 * total,
        "scale_out_slack_s": np.maximum(usual - alone, 0.0),
    }


def _network_s(rows: Deployments, software: ServingSoftwareColumns, tokens: NDArray[np.int64], factor: float) -> F:
    machine = replace(rows.machine, out_bytes_s=rows.machine.out_bytes_s * factor)
    slowed, none = replace(rows, machine=machine), np.zeros(1)
    found: F = parts(
        slowed, software, IterationLoad(tokens[:, np.newaxis].astype(np.float64), none, none, none)
    ).network[:, 0]
    return found


# Cached tokens, and query and key pairs, at which attention has left its fixed parts behind.
_MANY = 1e7
_SEQUENCES = 512.0


@dataclass(frozen=True, slots=True)
class IterationSlopes:
    """Seconds of all layers, one row a replica.

    Attributes:
        kv_token_s: Of each cached token that decoding reads.
        sequence_s: Of each sequence that decodes, without its cached tokens.
        pair_s: Of each query and key pair of a prompt.
        logits_s: Of each sequence's row of the output projection.
    """

    kv_token_s: F
    sequence_s: F
    pair_s: F
    logits_s: F


def slopes(rows: Deployments, software: ServingSoftwareColumns, queries: float = 1.0) -> IterationSlopes:
    """Slopes of an iteration of each replica.

    Args:
        rows: The replicas.
        software: Constants, as many rows.
        queries: Queries of each decoding sequence.
    """
    none, one = np.zeros_like(rows.layout.tp), np.ones_like(rows.layout.tp)
    first, second = (
        parts(rows, software, IterationLoad(one, one, count * one, none, queries=queries)).cache
        for count in (_MANY, 2.0 * _MANY)
    )
    each = (second - first) / _MANY
    bare, full = (
        parts(rows, software, IterationLoad(one, n * one, none, none, queries=queries)).matrices
        for n in (0.0, _SEQUENCES)
    )
    return IterationSlopes(
        kv_token_s=each,
        sequence_s=np.maximum(first - each * _MANY, 0.0),
        pair_s=parts(rows, software, IterationLoad(one, none, none, _MANY * one)).prompt / _MANY,
        logits_s=(full - bare) / _SEQUENCES,
    )


# Rows of the table: enough that a line between two of them is the law within a percent.
_ROWS = 96
# Engines whose prompts, among decoding, have iterations of their own (SGLang, `model_runner.forward`).
_APART = ("sglang",)
# Tokens of a copy of attention up to which an iteration that decodes is a captured graph: 512 in vLLM
# (`cudagraph_capture_sizes`) and SGLang (`cuda_graph_max_bs` of 8 H200), up to the largest batch in TensorRT-LLM.
_CAPTURED = 512.0


@dataclass(frozen=True, eq=False, kw_only=True)
class IterationCost(Cost):
    """Cost of one iteration of one replica, and of what it holds; whole-replica tokens.

    Attributes:
        hidden_s: f64[k], collectives that run behind other work, not in the iteration's time.
        kv_bytes_per_token: Of one token, once, as it is moved between replicas.
        kv_capacity_tokens: Cached tokens that the replica holds without states of recurrences.
        state_tokens: Cached tokens in whose room the states of one sequence lie; 0 without recurrences.
    """

    hidden_s: Floats
    kv_bytes_per_token: float
    kv_capacity_tokens: float
    weight_bytes: float
    state_tokens: float = 0.0

    def seconds(self, tokens: Floats, sequences: Floats, kv_tokens: Floats, pairs: Floats) -> Floats:
        """Seconds of an iteration, vectorised.

        Args:
            tokens: Of prompts and decoding together.
            sequences: In the iteration; all of them count as decoding where `kv_tokens` is not zero.
            kv_tokens: Cached tokens that the decoding sequences look at.
            pairs: Query and key pairs of prompts.
        """
        base = np.interp(tokens, self.tokens, self.compute_s + self.network_s)
        decode = self.attention_per_sequence_s * sequences + self.attention_per_kv_token_s * kv_tokens
        decode = np.where(kv_tokens > 0, np.maximum(decode, self.attention_floor_s), 0.0)
        found: Floats = (
            self.host_s + self.host_per_seq_s * sequences + base + decode + self.attention_per_pair_s * pairs
        )
        return found

    def collectives_s(self, tokens: float, copies: int = 1) -> tuple[float, float]:
        """Seconds of an iteration's collectives: those that nothing hides, and those that run behind other work.

        Args:
            tokens: In the iteration of a replica, or of one of the copies in lockstep.
            copies: As many go in lockstep.
        """
        hidden = float(np.interp(tokens, self.tokens, self.hidden_s))
        if len(self.joint_tokens):
            return float(np.interp(tokens * copies, self.joint_tokens, self.joint_network_s)), hidden
        return float(np.interp(tokens, self.tokens, self.network_s)), hidden


def iteration_cost(
    model: Model,
    layout: ServingLayout,
    machine: Machine,
    software: ServingSoftware,
    *,
    max_batched_tokens: int = 8192,
    prompt_tokens: float = 1024.0,
    role: Role = "decode",
) -> IterationCost:
    """What an iteration of a replica costs.

    Args:
        model: Of the catalogue.
        layout: Of the replica.
        machine: Its accelerators, scale-up domain and the rate of a rank's NIC.
        software: Constants of the engine on that device.
        max_batched_tokens: Most tokens of an iteration.
        prompt_tokens: Of a mean prompt: copies of attention do not split one.
        role: Of the replica: what it does decides which of its iterations hold prompts.

    Raises:
        InputError: Weights and a cache of one sequence do not fit; the message has the table and layouts that fit.
    """
    rows = Deployments.of((model, layout, machine))
    check_fit(model, layout, machine)
    constants = ServingSoftwareColumns([software])
    found = iteration_costs(rows, constants, np.array([float(max_batched_tokens)]))[0]
    launches = float(launches_s(rows, constants)[0])
    crowd = crowded_s(rows, constants, found.tokens, prompt_tokens) if layout.dp_attention > 1 else 0.0
    found = with_prompts(
        found, role, Prompting(software.name, software.prompt_share, launches, layout.dp_attention, crowd)
    )
    return replace(found, **scale_out(rows, constants, found.tokens))


def iteration_costs(
    rows: Deployments, software: ServingSoftwareColumns, max_batched_tokens: Floats
) -> list[IterationCost]:
    """What an iteration of each of many replicas costs, whether its weights fit or not.

    Args:
        rows: The replicas.
        software: Constants, as many rows.
        max_batched_tokens: Most tokens of an iteration, as many rows.
    """
    layout, device = rows.layout, rows.device
    none, one = np.zeros_like(layout.tp), np.ones_like(layout.tp)
    grids = np.geomspace(one, np.maximum(max_batched_tokens, 2.0), _ROWS).round()
    table = parts(rows, software, IterationLoad(grids, none, none, none))
    compute = table.matrices + table.experts + table.passes + table.kernels
    network, hidden = (np.broadcast_to(each, compute.shape) for each in (table.network, table.hidden))
    each = slopes(rows, software)
    ranks, limit = layout.tp * layout.dp * layout.pp * layout.cp, device.tdp_w
    scalars = {
        "host_s": software.host_s,
        "host_per_seq_s": software.host_per_sequence_s / layout.dp + each.logits_s,
        "attention_per_kv_token_s": each.kv_token_s,
        "attention_per_sequence_s": each.sequence_s,
        "attention_floor_s": none,
        "attention_per_pair_s": each.pair_s,
        "stage_share": 1.0 / layout.pp,
        "idle_w": IDLE * limit * ranks,
        "busy_w": (BUSY + 0.5 * MEMORY) * limit * ranks,
        "joule_per_token": math_j(limit, rows.model.active_parameters, device.best_flops_s(layout.dense_math)),
        "joule_per_kv_token": 0.5 * MEMORY * limit * ranks * each.kv_token_s,
        "kv_bytes_per_token": token_bytes(rows),
        "kv_capacity_tokens": cache_tokens(rows) * layout.cp,
        "state_tokens": state_tokens(rows) * layout.cp,
        "weight_bytes": weight_bytes(rows) * ranks,
    }
    found = []
    for row in range(len(none)):
        tokens, distinct = np.unique(grids[:, row].astype(np.int64), return_index=True)
        values: dict[str, Any] = {name: float(column[row]) for name, column in scalars.items()}
        stages = int(layout.pp[row])
        values |= {"compute_s": compute[distinct, row], "network_s": network[distinct, row]}
        values |= {"hidden_s": hidden[distinct, row], "pipeline_stages": stages}
        found.append(IterationCost(tokens, **values))
    return found


def crowded_s(rows: Deployments, software: ServingSoftwareColumns, tokens: NDArray[np.int64], prompt: float) -> Floats:
    """What iterations of prompts take longer because each prompt lies on one copy of attention; one deployment.

    Args:
        rows: The replica.
        software: Constants.
        tokens: i64[k], of the iterations.
        prompt: Tokens of each prompt; the only one of a shorter iteration is as long as that.
    """
    each = np.minimum(np.asarray(tokens, np.float64), prompt)
    count, none = tokens / each, np.zeros(len(tokens))
    pairs = count * rows.model.causal_pairs(each)
    most = prompts_on_copies(rows.model, count, each, rows.layout.dp)
    most = {name: np.minimum(most[name], whole) for name, whole in (("copy_tokens", tokens), ("copy_pairs", pairs))}
    both = [
        parts(rows, software, IterationLoad(np.asarray(tokens, np.float64), none, none, pairs, **crowd))
        for crowd in ({}, most)
    ]
    even, uneven = (each.compute_s + each.network for each in both)
    return np.maximum(uneven - even, 0.0)


@dataclass(frozen=True, slots=True)
class Prompting:
    """How an engine's iterations with prompts differ from those that decode.

    Attributes:
        share: `prompt_share` of the engine.
        launches_s: Of the kernels of one iteration.
        crowded_s: f64[k], what each iteration of `IterationCost.tokens` takes longer because a prompt lies on one copy
            of attention; 0 without copies.
    """

    engine: str
    share: float
    launches_s: float
    copies: int
    crowded_s: Floats | float = 0.0


def with_prompts(cost: IterationCost, role: Role, prompting: Prompting) -> IterationCost:
    """The cost of a replica whose iterations hold prompts: these are launched kernel by kernel, which takes the host.

    Iterations of few tokens without prompts are captured graphs. Where prompts among decoding have iterations of their
    own they cost `share` times what their tokens and pairs alone would; engines that put both into one pay the plain
    sum.

    Args:
        cost: By the law, without prompts.
        role: Of the replica; one that decodes only is left as it is.
        prompting: Of its engine.
    """
    if role == "decode":
        return cost
    captured = _CAPTURED * prompting.copies if role == "both" else 0.0
    above = cost.tokens > captured
    share = prompting.share if role == "both" and prompting.engine in _APART else 1.0
    base = np.interp(captured, cost.tokens, cost.compute_s)
    compute = (
        np.where(above, base + share * (cost.compute_s - base), cost.compute_s) if share != 1.0 else cost.compute_s
    )
    compute = compute + np.where(above, share * prompting.crowded_s, 0.0)
    late = late_s(compute + cost.network_s, prompting.launches_s)
    return replace(
        cost,
        compute_s=compute + np.where(above, late, 0.0),
        attention_per_pair_s=share * cost.attention_per_pair_s,
    )


_LEAST_CONTEXT = 2048


def check_fit(model: Model, layout: ServingLayout, machine: Machine) -> None:
    """Refuses a replica whose weights, or the cache of one sequence of `_LEAST_CONTEXT` tokens, do not fit.

    Raises:
        InputError: With the table why, and the nearest layouts that fit.
    """

    def fits(tried: ServingLayout) -> bool:
        rows = Deployments.of((model, tried, machine))
        return float((cache_tokens(rows) - state_tokens(rows))[0]) * tried.cp >= _LEAST_CONTEXT

    if fits(layout):
        return
    table = rank_table(Deployments.of((model, layout, machine)), _LEAST_CONTEXT)
    near = [str(other) for other in _others(layout) if fits(other)]
    raise InputError(
        f"{model.name} does not fit {layout} on {machine.accelerator.name}: {table}",
        key="layout",
        found=str(layout),
        hint="fits: " + "; ".join(near[:3]) if near else "no layout of up to 64 accelerators fits",
    )


def _others(layout: ServingLayout) -> list[ServingLayout]:
    """Layouts near to one: more tensor parallelism, then fewer bits, fewest accelerators first."""
    narrower = {"bf16": "fp8", "fp16": "fp8"}.get(layout.precision, layout.precision)
    found = []
    for tp in (1, 2, 4, 8, 16, 32, 64):
        for precision in dict.fromkeys((layout.precision, narrower)):
            if tp >= layout.tp:
                ep = layout.ep if tp * layout.dp_attention % layout.ep == 0 else 1
                found.append(replace(layout, tp=tp, precision=precision, ep=ep))
    return found
