"""What one iteration of a replica costs, as tables that a simulation can read, and whether the replica fits at all.

    T = host + host_per_seq * sequences + f(tokens) + g(decodes, kv_tokens) + h * pairs

is the law of `iteration` with its parts gathered by what they grow with: f is a table over tokens (matrices, experts,
passes, kernels, collectives), g linear in the decoding sequences and their cached tokens, h a constant.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.errors import InputError
from railyard.workload.serving.columns import Deployments, active_parameters, device_row, place, shape
from railyard.workload.serving.iteration import IterationLoad, IterationTimes, cache_bytes, math_rate, parts
from railyard.workload.serving.memory import MEMORY_SHARE, cache_tokens, token_bytes, weight_bytes, workspace_bytes
from railyard.workload.serving.power import BUSY, IDLE, MATH, MEMORY
from railyard.workload.serving.scale_out import scale_out
from railyard.workload.serving.software import columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.catalog import Accelerator, Model
    from railyard.model.machine import Machine
    from railyard.workload.serving.layout import ServingLayout
    from railyard.workload.serving.software import ServingSoftware, ServingSoftwareColumns

    Floats = NDArray[np.float64]

# Rows of the table: enough that a line between two of them is the law within a percent.
_ROWS = 96
# A length at which latent and plain attention have left their fixed parts behind.
_MANY = 1e7
_GIB = float(1 << 30)
# Engines whose prompts, beside decoding, have iterations of their own without graphs (SGLang, `model_runner.forward`),
# and tokens of a copy of attention up to which an iteration is a captured graph (`cuda_graph_max_bs` from 80 GB on).
_LAUNCHED = ("sglang",)
_CAPTURED = 256.0
# Math share at which the square root of the power law is replaced by a line: a busy replica's.
_USUAL_MATH = 0.15


@dataclass(frozen=True, eq=False)
class IterationCost:
    """Cost of one iteration of one replica. Times in seconds, whole-replica tokens.

    Attributes:
        tokens: i64[k], ascending, from 1 to the most that an iteration takes.
        compute_s, network_s: f64[k], of that many tokens; the network's part is exposed.
        host_s, host_per_seq_s: Of every iteration, of every sequence in it.
        attention_per_kv_token_s, attention_per_sequence_s, attention_floor_s: Of sequences that decode.
        attention_per_pair_s: Of prompts, for each query and key pair.
        pipeline_stages, stage_share: Stages, and the slowest one's share of an iteration.
        idle_w: Drawn by the replica that is up.
        busy_w: More while an iteration runs.
        joule_per_token: More for each token (math); ...
        joule_per_kv_token: ... each cached token that is read.
        kv_bytes_per_token: Of one token, once, as it is moved between replicas.
        kv_capacity_tokens: Cached tokens that the replica holds.
        weight_bytes: Of the whole replica.
        scale_out_bytes_per_token: Of its own collectives over its NICs, all of these together; 0: they stay inside.
        scale_out_bps: Rate at which `network_s` has them sent.
        scale_out_slack_s: f64[k], how much longer they may take until an iteration does; empty where there are none.
        joint_tokens, joint_compute_s, joint_network_s: i64[j], f64[j], of copies in lockstep: what the tokens of all of
            them take together, beside a copy's own; empty where there are none.
    """

    tokens: NDArray[np.int64]
    compute_s: Floats
    network_s: Floats
    host_s: float
    host_per_seq_s: float
    attention_per_kv_token_s: float
    attention_per_sequence_s: float
    attention_floor_s: float
    attention_per_pair_s: float
    pipeline_stages: int
    stage_share: float
    idle_w: float
    busy_w: float
    joule_per_token: float
    joule_per_kv_token: float
    kv_bytes_per_token: float
    kv_capacity_tokens: float
    weight_bytes: float
    scale_out_bytes_per_token: float = field(default=0.0, kw_only=True)
    scale_out_bps: float = field(default=0.0, kw_only=True)
    scale_out_slack_s: Floats = field(default_factory=lambda: np.zeros(0), kw_only=True)
    joint_tokens: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64), kw_only=True)
    joint_compute_s: Floats = field(default_factory=lambda: np.zeros(0), kw_only=True)
    joint_network_s: Floats = field(default_factory=lambda: np.zeros(0), kw_only=True)

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


def iteration_cost(
    model: Model,
    device: Accelerator,
    machine: Machine,
    layout: ServingLayout,
    software: ServingSoftware,
    *,
    max_batched_tokens: int = 8192,
    beside: bool = False,
) -> IterationCost:
    """What an iteration of a replica costs.

    Args:
        model: Of the catalogue.
        device: On which it is served.
        machine: Its scale-up domain and the rate of a rank's NIC.
        layout: Of the replica.
        software: Constants of the engine on that device.
        max_batched_tokens: Most tokens of an iteration.
        beside: Whether prompts are computed beside the decoding of others.

    Raises:
        InputError: Weights and a cache of one sequence do not fit; the message has the table and layouts that fit.
    """
    rows = Deployments(
        shape(model), place(model, device, layout), device_row(device, machine.scale_out_bps, machine.scale_up_domain)
    )
    check_fit(model, device, layout)
    constants = columns([software])
    found = iteration_costs(rows, constants, np.array([float(max_batched_tokens)]), layout.cp)[0]
    if beside:
        found = beside_decoding(found, software.name, software.prompt_share, layout.dp_attention)
    return replace(found, **scale_out(rows, constants, found.tokens))


def iteration_costs(
    rows: Deployments, software: ServingSoftwareColumns, max_batched_tokens: Floats, cp: int = 1
) -> list[IterationCost]:
    """What an iteration of each of many replicas costs, whether its weights fit or not.

    Args:
        rows: The replicas.
        software: Constants, as many rows.
        max_batched_tokens: Most tokens of an iteration, as many rows.
        cp: Ranks that split one sequence, and its cache.
    """
    place, device = rows.place, rows.device
    none, one = np.zeros_like(place.tp), np.ones_like(place.tp)

    def law(tokens: Floats, sequences: Floats, kv_tokens: Floats, pairs: Floats) -> IterationTimes:
        return parts(rows, software, IterationLoad(tokens, sequences, kv_tokens, pairs))

    grids = np.geomspace(one, np.maximum(max_batched_tokens, 2.0), _ROWS).round()
    table = law(grids, none, none, none)
    compute, network = table.matrices + table.experts + table.passes + table.kernels, table.network
    many, more = (law(one, one, times * _MANY * one, none).cache for times in (1.0, 2.0))
    each = (more - many) / _MANY
    logits = (law(one, 512.0 * one, none, none).matrices - law(one, none, none, none).matrices) / 512.0
    ranks, limit = place.tp * place.dp * place.pp * cp, device.tdp_w
    math = _USUAL_MATH**0.5 / _USUAL_MATH * MATH * limit
    whole = {
        "host_s": software.host_s,
        "host_per_seq_s": software.host_per_sequence_s / place.dp + logits,
        "attention_per_kv_token_s": each,
        "attention_per_sequence_s": np.maximum(many - each * _MANY, 0.0),
        "attention_floor_s": none,
        "attention_per_pair_s": law(one, none, none, _MANY * one).prompt / _MANY,
        "stage_share": 1.0 / place.pp,
        "idle_w": IDLE * limit * ranks,
        "busy_w": (BUSY + 0.5 * MEMORY) * limit * ranks,
        "joule_per_token": math * 2.0 * active_parameters(rows.shape) / math_rate(rows, place.dense_math),
        "joule_per_kv_token": 0.5 * MEMORY * limit * ranks * each,
        "kv_bytes_per_token": token_bytes(rows),
        "kv_capacity_tokens": cache_tokens(rows) * cp,
        "weight_bytes": weight_bytes(rows) * ranks,
    }
    found = []
    for row in range(len(none)):
        tokens, kept = np.unique(grids[:, row].astype(np.int64), return_index=True)
        own: dict[str, Any] = {name: float(values[row]) for name, values in whole.items()}
        stages = int(place.pp[row])
        found.append(IterationCost(tokens, compute[kept, row], network[kept, row], pipeline_stages=stages, **own))
    return found


def beside_decoding(cost: IterationCost, engine: str, share: float, copies: int) -> IterationCost:
    """The cost of a replica that computes prompts beside the decoding of others.

    Where prompts are launched kernel by kernel, between decodes that replay a captured graph, they cost `share` times
    what their tokens and pairs alone would. Engines that put both into one compiled iteration pay the plain sum.

    Args:
        cost: By the law.
        engine: Its name.
        share: `prompt_share` of the engine.
        copies: Of attention.
    """
    if engine not in _LAUNCHED:
        return cost
    captured = _CAPTURED * copies
    base = np.interp(captured, cost.tokens, cost.compute_s)
    return replace(
        cost,
        compute_s=np.where(cost.tokens > captured, base + share * (cost.compute_s - base), cost.compute_s),
        attention_per_pair_s=share * cost.attention_per_pair_s,
    )


def check_fit(model: Model, device: Accelerator, layout: ServingLayout, context: int = 2048) -> None:
    """Refuses a replica whose weights, or the cache of one sequence of `context` tokens, do not fit.

    Args:
        model: Of the catalogue.
        device: On which it is served.
        layout: Of the replica.
        context: Tokens of one sequence.

    Raises:
        InputError: With the table why, and the nearest layouts that fit.
    """
    if _room(model, device, layout) >= context:
        return
    rows = Deployments(shape(model), place(model, device, layout), device_row(device, 1.0))
    weights, usable = weight_bytes(rows)[0], device.memory_bytes * MEMORY_SHARE
    workspace = workspace_bytes(rows)[0]
    cache = context * cache_bytes(rows)[0] * model.layers / layout.pp / layout.cp
    table = (
        f"of one rank: weights {weights / _GIB:.1f} GiB, workspace {workspace / _GIB:.1f} GiB, cache of one "
        f"sequence of {context} tokens {cache / _GIB:.2f} GiB; {usable / _GIB:.1f} GiB may be used"
    )
    near = [_said(other) for other in _others(layout) if _room(model, device, other) >= context]
    raise InputError(
        f"{model.name} does not fit {_said(layout)} on {device.name}: {table}",
        key="layout",
        found=_said(layout),
        hint="fits: " + "; ".join(near[:3]) if near else "no layout of up to 64 accelerators fits",
    )


def _room(model: Model, device: Accelerator, layout: ServingLayout) -> float:
    rows = Deployments(shape(model), place(model, device, layout), device_row(device, 1.0))
    return float(cache_tokens(rows)[0]) * layout.cp


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


def _said(layout: ServingLayout) -> str:
    degrees = [f"tp {layout.tp}"]
    for name, short in (("pp", "pp"), ("dp_attention", "dp"), ("ep", "ep"), ("cp", "cp")):
        if getattr(layout, name) > 1:
            degrees.append(f"{short} {getattr(layout, name)}")
    return f"{' '.join(degrees)} in {layout.precision}"
