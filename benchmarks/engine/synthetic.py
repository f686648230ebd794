"""A training step of the shape of Llama 3 405B, made of numbers alone, to measure the engine and nothing else.

TP 8 inside a server, PP 16, the rest DP; interleaved 1F1B with 8 virtual stages and 16 micro-batches: for each rank,
virtual stage and micro-batch one forward and one backward computation, one symbolic tensor-parallel collective a
communicator, one transfer to the next stage a rank; for each virtual stage one gather of parameters before its first
forward and one scatter of gradients after its last backward. Links: scale-up and NIC of every rank, and two tiers of a
rail-optimized Clos with hashed paths.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from railyard.graph import Communicators, Kind, Label, Stream, TaskGraph

TP, PP, VP, MICRO_BATCHES = 8, 16, 8, 16
FORWARD_PS, BACKWARD_PS, OPTIMIZER_PS = 9_000_000_000, 18_000_000_000, 20_000_000_000
ACTIVATION_BYTES, TENSOR_BYTES, SHARD_BYTES = 33_554_432, 268_435_456, 1_600_000_000
SCALE_UP_BPS, NIC_BPS = 3.6e12, 4e11
SERVERS_PER_LEAF = 32


@dataclass
class Templates:
    """Columns of fluid entities."""

    link_ptr: np.ndarray
    link_idx: np.ndarray
    link_share: np.ndarray
    volume_bytes: np.ndarray
    latency_ps: np.ndarray
    rate_cap_bps: np.ndarray
    fair_weight: np.ndarray


@dataclass
class Step:
    graph: TaskGraph
    entity: np.ndarray
    templates: Templates
    capacity_bps: np.ndarray


def stage_order(stage: int) -> list[tuple[bool, int, int]]:
    """(backward?, virtual stage, micro-batch) of one pipeline stage in the order of Megatron-LM's interleaved 1F1B."""
    total = VP * MICRO_BATCHES

    def unit(k: int, backward: bool) -> tuple[bool, int, int]:
        chunk = k % (PP * VP) // PP
        return backward, VP - 1 - chunk if backward else chunk, k // (PP * VP) * PP + k % PP

    warm = min(total, (PP - stage - 1) * 2 + (VP - 1) * PP)
    order = [unit(k, False) for k in range(warm)]
    for k in range(total - warm):
        order += [unit(warm + k, False), unit(k, True)]
    return order + [unit(k, True) for k in range(total - warm, total)]


class _Rows:
    """Columns under construction: blocks of rows, appended."""

    def __init__(self) -> None:
        self.blocks: list[dict[str, np.ndarray]] = []
        self.deps: list[tuple[np.ndarray, np.ndarray]] = []  # (task, predecessor)
        self.size = 0

    def add(self, count: int, **columns: object) -> np.ndarray:
        self.blocks.append({name: np.broadcast_to(np.asarray(value), count) for name, value in columns.items()})
        self.size += count
        return np.arange(self.size - count, self.size)

    def wait(self, task: np.ndarray, predecessor: np.ndarray) -> None:
        self.deps.append((task.ravel(), predecessor.ravel()))

    def column(self, name: str, dtype: type, default: int = 0) -> np.ndarray:
        parts = [np.asarray(b.get(name, np.broadcast_to(default, next(iter(b.values())).size)), dtype) for b in self.blocks]
        return np.concatenate(parts)


def build(ranks: int) -> Step:
    """The step on `ranks` accelerators (a multiple of 128)."""
    dp = ranks // (TP * PP)
    width = dp * TP  # ranks of one stage
    rows = _Rows()
    stages = np.arange(ranks).reshape(PP, width)
    tensor_groups = np.arange(ranks // TP).reshape(PP, dp)
    dp_groups = ranks // TP + np.arange(PP * TP).reshape(PP, TP)
    last: dict[tuple[bool, int, int, int], np.ndarray] = {}  # collective after each unit, per tensor group
    first_of: dict[tuple[bool, int, int, int], np.ndarray] = {}
    arrivals: list[tuple[tuple[bool, int, int, int], np.ndarray]] = []
    gradients = []
    for stage in range(PP):
        gathers = {
            chunk: rows.add(TP, kind=Kind.COLLECTIVE, rank=dp_groups[stage], size=SHARD_BYTES, stream=Stream.PARAMETER)
            for chunk in range(VP)
        }
        final = {}
        for backward, chunk, batch in stage_order(stage):
            key = (backward, chunk, batch, stage)
            compute = rows.add(
                width, kind=Kind.COMPUTE, rank=stages[stage], duration=BACKWARD_PS if backward else FORWARD_PS, stream=Stream.COMPUTE
            )
            tensor = rows.add(
                dp, kind=Kind.COLLECTIVE, rank=tensor_groups[stage], size=TENSOR_BYTES, stream=Stream.COMPUTE
            )
            if not backward and batch == 0:
                rows.wait(compute, np.tile(gathers[chunk], dp))
            first_of[key], last[key] = compute, tensor
            final[backward, chunk] = (batch, tensor)
            there = next_unit(backward, chunk, stage)
            if there is not None:
                to_chunk, to_stage = there
                send = rows.add(
                    width, kind=Kind.TRANSFER, rank=stages[stage], peer=stages[to_stage], size=ACTIVATION_BYTES,
                    stream=Stream.BACKWARD if backward else Stream.FORWARD,
                )
                rows.wait(send, np.repeat(tensor, TP))
                arrivals.append(((backward, to_chunk, batch, to_stage), send))
            if backward and batch == MICRO_BATCHES - 1:
                grad = rows.add(TP, kind=Kind.COLLECTIVE, rank=dp_groups[stage], size=SHARD_BYTES + 1, stream=Stream.GRADIENT)
                rows.wait(np.repeat(grad, dp), np.tile(tensor, TP))
                gradients.append((stage, grad))
    for stage in range(PP):
        done = rows.add(width, kind=Kind.COMPUTE, rank=stages[stage], duration=OPTIMIZER_PS, stream=Stream.COMPUTE)
        for where, grad in gradients:
            if where == stage:
                rows.wait(done, np.tile(grad, dp))
    for key, send in arrivals:
        rows.wait(first_of[key], send)
    for (backward, chunk, batch, stage), compute in first_of.items():
        if backward and chunk == VP - 1 and stage == PP - 1:
            rows.wait(compute, np.repeat(last[False, chunk, batch, stage], TP))
    graph = _graph(rows, ranks, dp)
    return _with_templates(graph, ranks, dp)


def next_unit(backward: bool, chunk: int, stage: int) -> tuple[int, int] | None:
    """(virtual stage, stage) to which a unit's result goes; None at the ends of the pipeline."""
    position = chunk * PP + stage + (-1 if backward else 1)
    return divmod(position, PP) if 0 <= position < PP * VP else None


def _graph(rows: _Rows, ranks: int, dp: int) -> TaskGraph:
    n = rows.size
    task = np.concatenate([t for t, _ in rows.deps])
    predecessor = np.concatenate([p for _, p in rows.deps])
    order = np.argsort(task, kind="stable")
    ptr = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(task, minlength=n), out=ptr[1:])
    groups = ranks // TP + PP * TP
    members = [np.arange(ranks, dtype=np.int32)]
    members.append(np.arange(ranks, dtype=np.int32).reshape(PP, dp, TP).transpose(0, 2, 1).ravel())
    group_ptr = np.concatenate([np.arange(0, ranks, TP), ranks + np.arange(0, ranks + 1, dp)])
    return TaskGraph(
        ranks=ranks, kind=rows.column("kind", np.uint8), rank=rows.column("rank", np.int32),
        peer=rows.column("peer", np.int32, -1), duration_ps=rows.column("duration", np.int64),
        size_bytes=rows.column("size", np.int64), count=np.ones(n, np.int32), collective=np.zeros(n, np.uint8),
        stream=rows.column("stream", np.uint8), label=np.zeros(n, np.int32), dep_ptr=ptr,
        dep_idx=predecessor[order].astype(np.int32), labels=[Label("forward", "unit")],
        communicators=Communicators(group_ptr.astype(np.int64), np.concatenate(members), ["tp"] * (ranks // TP) + ["dp"] * (groups - ranks // TP)),
    )  # fmt: skip


class _Network:
    """Scale-up egress and ingress, NIC up and down of every rank, leaf-spine links both ways."""

    def __init__(self, ranks: int, spray: int = 1) -> None:
        self.ranks = ranks
        self.leaves = -(-ranks // (TP * SERVERS_PER_LEAF)) * TP
        self.base = 4 * ranks
        count = self.base + 2 * self.leaves * SERVERS_PER_LEAF
        self.capacity = np.full(count, NIC_BPS)
        self.capacity[: 2 * ranks] = SCALE_UP_BPS

    def leaf(self, rank: np.ndarray) -> np.ndarray:
        return rank // (TP * SERVERS_PER_LEAF) * TP + rank % TP

    def path(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Links [flows, 4] of hashed paths; twice the NIC links where both ends share a leaf."""
        key = (source.astype(np.uint64) << np.uint64(32)) ^ target.astype(np.uint64)
        key = (key ^ (key >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        spine = ((key >> np.uint64(33)) % np.uint64(SERVERS_PER_LEAF)).astype(np.int64)
        up = self.base + self.leaf(source) * SERVERS_PER_LEAF + spine
        down = self.base + (self.leaves + self.leaf(target)) * SERVERS_PER_LEAF + spine
        local = self.leaf(source) == self.leaf(target)
        nic_up, nic_down = 2 * self.ranks + source, 3 * self.ranks + target
        return np.stack([nic_up, np.where(local, nic_up, up), np.where(local, nic_down, down), nic_down], axis=1)


def _rows_of_links(owner: np.ndarray, link: np.ndarray, share: np.ndarray, rows: int, links: int) -> tuple[np.ndarray, ...]:
    key, inverse = np.unique(owner.astype(np.int64) * links + link, return_inverse=True)
    total = np.bincount(inverse, weights=share)
    ptr = np.zeros(rows + 1, np.int64)
    np.cumsum(np.bincount(key // links, minlength=rows), out=ptr[1:])
    return ptr, (key % links).astype(np.int32), total


def _with_templates(graph: TaskGraph, ranks: int, dp: int) -> Step:
    network = _Network(ranks)
    links = len(network.capacity)
    groups = len(graph.communicators)
    tensor_groups = ranks // TP
    everybody = np.arange(ranks)
    owner, link, share = [], [], []

    def use(rows: np.ndarray, used: np.ndarray, amount: float) -> None:
        owner.append(rows.ravel())
        link.append(used.ravel())
        share.append(np.full(rows.size, amount))

    use(everybody // TP, everybody, 1.75)
    use(everybody // TP, ranks + everybody, 1.75)
    for kind in range(2):  # gathers, scatters: rings over the data-parallel groups
        members = graph.communicators.ranks[ranks:].reshape(PP * TP, dp)
        path = network.path(members.ravel(), np.roll(members, -1, axis=1).ravel())
        distinct = np.concatenate([np.ones((len(path), 1), bool), path[:, 1:] != path[:, :-1]], axis=1)
        rows = np.repeat(np.arange(PP * TP) + tensor_groups + kind * PP * TP, dp)
        for hop in range(4):
            use(rows[distinct[:, hop]], path[distinct[:, hop], hop], (dp - 1) / dp if dp > 1 else 1.0)
    ahead = (everybody + dp * TP) % ranks
    behind = (everybody - dp * TP) % ranks
    first = groups + PP * TP
    for offset, peer in ((0, ahead), (ranks, behind)):
        path = network.path(everybody, peer)
        for hop in range(4):
            keep = np.ones(ranks, bool) if hop == 0 else path[:, hop] != path[:, hop - 1]
            use(first + offset + everybody[keep], path[keep, hop], 1.0)
    count = first + 2 * ranks
    ptr, idx, amount = _rows_of_links(np.concatenate(owner), np.concatenate(link), np.concatenate(share), count, links)
    volume = np.full(count, float(ACTIVATION_BYTES))
    volume[:tensor_groups] = TENSOR_BYTES
    volume[tensor_groups:first] = SHARD_BYTES
    latency = np.full(count, 5_000_000)
    latency[:tensor_groups] = 20_000_000
    latency[tensor_groups:first] = 1_000_000_000
    templates = Templates(ptr, idx, amount, volume, latency, np.full(count, np.inf), np.ones(count))
    return Step(graph, _entities(graph, ranks, tensor_groups, first, ahead), templates, network.capacity)


def _entities(graph: TaskGraph, ranks: int, tensor_groups: int, first: int, ahead: np.ndarray) -> np.ndarray:
    entity = np.full(len(graph), -1, np.int32)
    groups = graph.kind == Kind.COLLECTIVE
    scatter = groups & (graph.stream == Stream.GRADIENT)
    entity[groups] = graph.rank[groups]
    entity[scatter] += PP * TP
    sends = graph.kind == Kind.TRANSFER
    forward = graph.peer[sends] == ahead[graph.rank[sends]]
    entity[sends] = first + np.where(forward, 0, ranks) + graph.rank[sends]
    return entity
