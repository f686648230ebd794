"""What a virtual stage sends in one micro-batch: collectives by phase, sizes by the definition of nccl-tests.

Under sequence parallelism a tensor-parallel block gathers its input and scatters its output; its backward pass gathers
the gradient of the output, gathers the input once more for the weight gradient, and scatters the gradient of the input,
the last two under matrix products (Korthikanti et al. 2022, arXiv 2205.05198). Without it, one all-reduce forward and
one backward, which runs under the weight-gradient product. Experts exchange each token with its experts' ranks and
back. Context parallelism gathers keys and values around the ring under attention, twice more backward.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from railyard.graph import CollectiveKind
from railyard.model.flops import places_visited
from railyard.work.training.alpha_beta import Group
from railyard.work.training.operators import gemm_rate

if TYPE_CHECKING:
    from railyard.model.columns import F
    from railyard.work.training.columns import Columns
    from railyard.work.training.pipeline_ranks import RankColumns

Phase = Literal["forward", "backward"]
Class = Literal["tp", "cp", "ep"]


@dataclass(frozen=True, slots=True)
class Exchange:
    """Collectives of one kind in one pass of one part of the model.

    Attributes:
        part: `attention`, `mlp`, `experts`, `embedding`, `head`: once for each of them that a stage holds; `input` and
            `output`: once for each activation received from the stage before and each gradient from the one behind.
        kind: Of the collective.
        group: Class of the communicator.
        phase: Forward (and its recomputation) or backward.
        size_bytes: Of one collective, as nccl-tests counts it.
        count: Collectives.
        hidden: Share that runs under computation.
    """

    part: str
    kind: CollectiveKind
    group: Class
    phase: Phase
    size_bytes: F
    count: F
    hidden: F


def exchanges(columns: Columns, domain: F) -> list[Exchange]:
    """All exchanges of one micro-batch, by part of the model; counts are 0 where a design has no such group.

    Args:
        columns: The designs.
        domain: Ranks of a scale-up domain.
    """
    return [*_tensor(columns), *_context(columns), *_experts(columns, domain)]


def places(columns: Columns, rank: RankColumns) -> dict[str, F]:
    """How often a rank holds each part of the model that `Exchange.part` names."""
    return {
        "attention": rank.layers,
        "mlp": rank.layers - rank.moe_layers,
        "experts": rank.moe_layers,
        "shared": rank.moe_layers,
        "embedding": rank.embedding,
        "head": rank.head,
        "input": columns.layout.vp - rank.embedding,
        "output": columns.layout.vp - rank.head,
    }


def repeats(columns: Columns, exchange: Exchange, phase: str) -> F | float:
    """How often a pass runs an exchange; backward runs the forward ones again under full recomputation."""
    layer_part = exchange.part not in ("embedding", "head", "input", "output")
    again = columns.layout.recompute_full if layer_part and exchange.phase == "forward" else 0.0
    if exchange.part == "experts" and exchange.phase == "forward":
        again = np.maximum(again, columns.layout.again_moe)
    return (exchange.phase == phase) + again * (phase == "backward")


def groups(columns: Columns) -> dict[str, Group]:
    """Communicators of the classes of exchanges."""
    layout = columns.layout
    one = np.ones_like(layout.tp)
    return {"tp": Group(layout.tp, one), "cp": Group(layout.cp, layout.tp), "ep": Group(layout.ep, layout.expert_tp)}


def _tensor(columns: Columns) -> list[Exchange]:
    layout, software = columns.layout, columns.software
    size = columns.tokens * columns.model.hidden * 2.0
    many = np.where(layout.tp > 1, 1.0, 0.0)
    sequence = many * layout.sequence
    plain = many - sequence
    zero = np.zeros_like(size)
    # Of a frozen model there are no weight gradients to run under.
    under = software.backward_overlap * (1.0 - columns.job.frozen)
    expert_block = np.where(columns.layout.expert_tp > 1, 1.0, 0.0)
    found: list[Exchange] = []
    for part, share in (
        ("attention", columns.model.mixers),
        ("mlp", columns.model.dense),
        ("shared", columns.model.shared_ffn > 0),
        ("experts", expert_block),
    ):
        on, off = sequence * share, plain * share
        enter, leave = (_pipelined(columns, size, product) for product in _products(columns, part))
        behind = np.maximum(enter, under)
        found += [
            Exchange(part, CollectiveKind.ALL_GATHER, "tp", "forward", size, on, enter),
            Exchange(part, CollectiveKind.REDUCE_SCATTER, "tp", "forward", size, on, leave),
            Exchange(part, CollectiveKind.ALL_REDUCE, "tp", "forward", size, off, zero),
            Exchange(part, CollectiveKind.ALL_GATHER, "tp", "backward", size, on, leave),
            Exchange(part, CollectiveKind.ALL_GATHER, "tp", "backward", size, on, behind),
            Exchange(part, CollectiveKind.REDUCE_SCATTER, "tp", "backward", size, on, behind),
            Exchange(part, CollectiveKind.ALL_REDUCE, "tp", "backward", size, off, zero + under),
        ]
    scattered = plain * software.scattered_sends * (layout.pp > 1)
    return [*found, *_ends(size, sequence, plain, under), *_received(size, scattered)]


def _products(columns: Columns, part: str) -> tuple[F, F]:
    """Features, over all tp ranks, that the first product of a block makes and that its last one takes."""
    model, tp = columns.model, columns.layout.tp
    gate = 1.0 + model.gated
    if part == "attention":
        out = model.heads * model.value_dim
        latent = model.heads * model.score_dim + model.q_lora
        return np.where(model.latent > 0, latent, out + 2.0 * np.maximum(model.kv_heads, tp) * model.head_dim), out
    if part == "experts":
        routed = model.topk * model.moe_ffn
        return routed * gate, routed
    width = model.ffn if part == "mlp" else model.shared_ffn
    return width * gate, width


def _pipelined(columns: Columns, size: F, features: F) -> F:
    """Share of a collective that hides when it is cut into tp chunks and pipelined with a product.

    One chunk has no product beside it; of the others what takes longer than a chunk of the product stays open. No more
    than the software's own share hides (asynchronous TP of PyTorch; user buffers of Transformer Engine).
    """
    layout, software = columns.layout, columns.software
    product = 2.0 * columns.tokens * columns.model.hidden * features / layout.tp / gemm_rate(columns, columns.job.bits)
    chunks = (layout.tp - 1.0) / layout.tp
    # A device without scale-up links (rate 0) pipelines nothing.
    covered = product * columns.device.scale_up_bytes_s / np.maximum(size * chunks, 1e-15)
    law = np.minimum(1.0, covered) * chunks
    return layout.overlap_tensor * np.minimum(software.tensor_overlap, law)


def _received(size: F, scattered: F) -> list[Exchange]:
    """What a stage was sent in parts, each tensor-parallel rank one, is gathered on arrival."""
    zero = np.zeros_like(size)
    return [
        Exchange("input", CollectiveKind.ALL_GATHER, "tp", "forward", size, scattered, zero),
        Exchange("output", CollectiveKind.ALL_GATHER, "tp", "backward", size, scattered, zero),
    ]


def _ends(size: F, sequence: F, plain: F, behind: F) -> list[Exchange]:
    """Split vocabulary: partial token vectors are summed; logits need the whole hidden state."""
    zero = np.zeros_like(size)
    return [
        Exchange("embedding", CollectiveKind.REDUCE_SCATTER, "tp", "forward", size, sequence, zero),
        Exchange("embedding", CollectiveKind.ALL_REDUCE, "tp", "forward", size, plain, zero),
        Exchange("embedding", CollectiveKind.ALL_GATHER, "tp", "backward", size, sequence, zero),
        Exchange("head", CollectiveKind.ALL_GATHER, "tp", "forward", size, sequence, zero),
        Exchange("head", CollectiveKind.REDUCE_SCATTER, "tp", "backward", size, sequence, behind),
        Exchange("head", CollectiveKind.ALL_REDUCE, "tp", "backward", size, plain, behind),
    ]


def _context(columns: Columns) -> list[Exchange]:
    model, layout = columns.model, columns.layout
    groups = np.maximum(model.kv_heads / layout.tp, 1.0)
    # Latent attention is gathered after its expansion to full heads.
    latent = model.heads / layout.tp * (model.score_dim + model.value_dim)
    width = np.where(model.latent > 0, latent, 2.0 * groups * model.head_dim)
    size = columns.tokens * layout.cp * width * 2.0
    many = np.where(layout.cp > 1, model.cored, 0.0)
    hidden = columns.software.context_overlap
    return [
        Exchange("attention", CollectiveKind.ALL_GATHER, "cp", "forward", size, many, hidden),
        Exchange("attention", CollectiveKind.ALL_GATHER, "cp", "backward", size, many, hidden),
        Exchange("attention", CollectiveKind.REDUCE_SCATTER, "cp", "backward", size, many, hidden),
    ]


def _experts(columns: Columns, domain: F) -> list[Exchange]:
    layout, model = columns.layout, columns.model
    width = (columns.software.dispatch_bytes + 2.0) / 2.0  # of the way there and the way back, on average
    size = columns.split_tokens * model.topk * model.expert_dim * width * _copies(columns, domain)
    many = np.where(layout.ep > 1, 2.0, 0.0)
    # The exchange ends when the busiest rank has received its tokens.
    size = size * columns.job.dispatch * columns.job.imbalance
    hidden = layout.overlap_expert * columns.software.expert_overlap
    return [
        Exchange("experts", CollectiveKind.ALL_TO_ALL, "ep", "forward", size, many, hidden),
        Exchange("experts", CollectiveKind.ALL_TO_ALL, "ep", "backward", size, many, hidden),
    ]


def _copies(columns: Columns, domain: F) -> F:
    """Copies of a token that travel, over one for each of its experts.

    A dispatcher that sends a token once to each place sends it to p (1 - (1 - 1/p)^k) of p places on average when its k
    experts lie anywhere; places are domains when the group spans several, else ranks. A router that picks groups of
    experts first (node-limited: DeepSeek-V3, arXiv 2412.19437, section 2.1.2) leaves that share of the places.
    """
    ranks = columns.layout.ep
    local = np.clip(np.floor(domain / columns.layout.expert_tp), 1.0, ranks)
    places = np.where(ranks > local, np.ceil(ranks / local), ranks)
    places = np.maximum(places * np.where(places > 1, columns.model.group_share, 1.0), 1.0)
    topk = np.maximum(columns.model.topk, 1.0)
    once = places_visited(places, topk) / topk
    return np.where(columns.software.expert_once > 0, once, 1.0)


def pipeline_bytes(columns: Columns) -> F:
    """Bytes of one activation that one rank sends to the next stage for one micro-batch (16 bits)."""
    parts = np.where(columns.software.scattered_sends > 0, columns.tokens / columns.layout.tp, columns.split_tokens)
    return parts * columns.model.hidden * 2.0
