"""Closed-form time of a collective: latency per step, and bytes over the slower of scale-up and scale-out.

If the machine has a collective library, its curves give the time that the engine `flow` uses without contention.

A group of n ranks at a distance of `stride` ranks has `local` of them in each scale-up domain. Rings leave a domain by
the NICs of all its members at once, so the domain's share of the network is `local` NICs; all other groups use their
own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from railyard.graph import CollectiveKind
from railyard.model.architecture import places_visited
from railyard.model.machine import LAUNCH_S, SCALE_OUT_STEP_S, SCALE_UP_STEP_S
from railyard.work.training.operators import gemm_rate

if TYPE_CHECKING:
    from railyard.model.machine import F, MachineColumns
    from railyard.work.training.columns import Columns
    from railyard.work.training.stages import RankColumns, VirtualStage


# In-switch reduction against a ring: measured bus bandwidth of 8 H100, 480 GB/s against 360 (NCCL logs).
_NVLS_GAIN = 4.0 / 3.0


@dataclass(frozen=True, slots=True)
class Group:
    """A class of communicators: members, and distance between two neighbors in rank order."""

    ranks: F
    stride: F

    def local(self, machine: MachineColumns) -> F:
        """Members inside one scale-up domain."""
        return np.clip(np.floor(machine.domain / self.stride), 1.0, self.ranks)


def collective_s(kind: CollectiveKind, size_bytes: F, group: Group, machine: MachineColumns, fraction: F) -> F:
    """Seconds of one collective with the network to itself.

    Args:
        kind: Kind of the collective.
        size_bytes: As nccl-tests counts it (the larger buffer of one rank).
        group: Its communicator.
        machine: Rates.
        fraction: Share of the link rates that it reaches.
    """
    n, local = group.ranks, group.local(machine)
    if machine.curves is not None:
        return machine.curves.seconds(kind, size_bytes, (n, local), machine.longer)
    domains = np.ceil(n / local)
    if kind == CollectiveKind.ALL_TO_ALL:
        inside = size_bytes * (local - 1.0) / n / machine.inside_bytes_s(local)
        outside = size_bytes * (n - local) / n / machine.out_bytes_s
        steps = SCALE_UP_STEP_S * (local - 1.0) + 1e-6 * (n - local)
        return np.where(n > 1, LAUNCH_S + steps + np.maximum(inside, outside) / fraction, 0.0)
    passes = 2.0 if kind == CollectiveKind.ALL_REDUCE else 1.0
    moved = passes * size_bytes * (n - 1.0) / n
    gain = np.where((machine.nvls > 0) & (domains == 1.0), _NVLS_GAIN, 1.0) if passes > 1.0 else 1.0
    inside = moved / (machine.inside_bytes_s(local) * gain)
    outside = np.where(domains > 1, moved / (machine.out_bytes_s * local), 0.0)
    # Trees keep an all-reduce's latency logarithmic in the number of domains.
    far = np.minimum(domains - 1.0, 4.0 * np.log2(domains) + 1.0) if passes > 1.0 else domains - 1.0
    steps = passes * (SCALE_UP_STEP_S * (local - 1.0) + SCALE_OUT_STEP_S * far)
    return np.where(n > 1, LAUNCH_S + steps + np.maximum(inside, outside) / fraction, 0.0)


def wire_bytes(kind: CollectiveKind, size_bytes: F, group: Group, machine: MachineColumns) -> tuple[F, F]:
    """Bytes that one rank sends on its scale-up links and through its own NICs, as `collective_s` counts them.

    Args:
        kind: Kind of the collective.
        size_bytes: As nccl-tests counts it.
        group: Its communicator.
        machine: Sizes of domains.
    """
    n, local = group.ranks, group.local(machine)
    if kind == CollectiveKind.ALL_TO_ALL:
        return size_bytes * (local - 1.0) / n, size_bytes * (n - local) / n
    moved = (2.0 if kind == CollectiveKind.ALL_REDUCE else 1.0) * size_bytes * (n - 1.0) / n
    return np.where(local > 1, moved, 0.0), np.where(n > local, moved / local, 0.0)


def wire_bytes_s(group: Group, machine: MachineColumns, fraction: F, *, exchange: bool = False) -> F:
    """Bytes per second that each rank sends while a large collective runs; 0 in a group of one.

    Args:
        group: Its communicator.
        machine: Rates.
        fraction: Share of the link rates that it reaches.
        exchange: Whether it is an all-to-all, which leaves a domain by each rank's own NIC.
    """
    n, local = group.ranks, group.local(machine)
    inside, outside = machine.inside_bytes_s(local), machine.out_bytes_s * (1.0 if exchange else local)
    if exchange:  # no traffic has no limit; inf times 0 peers would be NaN
        inside = inside * np.where(local > 1, (n - 1.0) / np.maximum(local - 1.0, 1.0), 1.0)
        outside = outside * np.where(n > local, (n - 1.0) / np.maximum(n - local, 1.0), 1.0)
    sent = np.minimum(inside, np.where(n > local, outside, np.inf))
    return np.where(n > 1, sent, 0.0) * fraction


def send_s(size_bytes: F, stride: F, machine: MachineColumns) -> F:
    """Seconds of one send to the rank `stride` ranks away."""
    near = stride < machine.domain
    rate = np.where(near, machine.inside_bytes_s(np.full_like(stride, 2.0)), machine.out_bytes_s)
    return LAUNCH_S + np.where(near, SCALE_UP_STEP_S, SCALE_OUT_STEP_S) + size_bytes / rate


Phase = Literal["forward", "backward"]
Class = Literal["tp", "cp", "ep"]


@dataclass(frozen=True, slots=True)
class Exchange:
    """Collectives of one kind in one pass of one part of the model.

    Attributes:
        part: `attention`, `mlp`, `experts`, `embedding`, `head`: once for each of them that a stage holds; `input` and
            `output`: once for each activation received from the stage before and each gradient from the one behind.
        group: Class of the communicator.
        phase: Forward (and its recomputation) or backward.
        size_bytes: Size of one collective, as in nccl-tests.
        hidden: Share that overlaps computation.
    """

    part: str
    kind: CollectiveKind
    group: Class
    phase: Phase
    size_bytes: F
    count: F
    hidden: F


def exchanges(columns: Columns, domain: F) -> list[Exchange]:
    """All exchanges of one micro-batch by part of the model; counts are 0 if a design has no such group."""
    return [*_tensor(columns), *_context(columns), *_experts(columns, domain)]


def places(stage: RankColumns | VirtualStage, chunks: F | int = 1) -> dict[str, Any]:
    """How many of each part of the model named by `Exchange.part` a rank has, or one of its virtual stages."""
    return {
        "attention": stage.layers,
        "mlp": stage.layers - stage.moe_layers,
        "experts": stage.moe_layers,
        "shared": stage.moe_layers,
        "embedding": stage.embedding,
        "head": stage.head,
        "input": chunks - stage.embedding,
        "output": chunks - stage.head,
    }


def repeats(columns: Columns, exchange: Exchange, phase: str) -> F | float:
    """How often a pass runs an exchange; under full recomputation backward repeats the forward ones."""
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
    # A frozen model has no weight gradients to overlap with.
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
    """Features, over all tp ranks, that a block's first product makes and its last one takes."""
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
    """Share of a collective that is hidden when it is cut into tp chunks and pipelined with a product.

    One chunk has no product to overlap with; for the others, the time beyond a chunk of the product is exposed. The
    hidden
    share is limited to the software's own (asynchronous TP of PyTorch; user buffers of Transformer Engine).
    """
    layout, software = columns.layout, columns.software
    product = 2.0 * columns.tokens * columns.model.hidden * features / layout.tp / gemm_rate(columns, columns.job.bits)
    chunks = (layout.tp - 1.0) / layout.tp
    # A device without scale-up links (rate 0) pipelines nothing.
    covered = product * columns.device.scale_up_bytes_s / np.maximum(size * chunks, 1e-15)
    law = np.minimum(1.0, covered) * chunks
    return layout.overlap_tensor * np.minimum(software.tensor_overlap, law)


def _received(size: F, scattered: F) -> list[Exchange]:
    """Activations sent in parts, one per tensor-parallel rank, are gathered on arrival."""
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
    width = (columns.software.dispatch_bytes + 2.0) / 2.0  # average of dispatch and combine
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
    """Copies of a token that are sent, relative to one for each of its experts.

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
