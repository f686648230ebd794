"""A training step of the shape of Llama 3 405B, made of numbers alone, to measure the engine and nothing else.

TP 8 inside a server, PP 16, the rest DP; interleaved 1F1B with 8 virtual stages and 16 micro-batches: for each rank,
virtual stage and micro-batch one forward and one backward computation, one symbolic tensor-parallel collective a
communicator, one transfer to the next stage a rank; for each virtual stage one gather of parameters before its first
forward and one scatter of gradients after its last backward. Links: scale-up and NIC of every rank, and two tiers of a
rail-optimized Clos with hashed paths.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.engine.lowering import Entities, Lowered
from railyard.graph import Communicators, Kind, Label, Stream, TaskGraph

if TYPE_CHECKING:
    from numpy.typing import NDArray

TP, PP, VP, MICRO_BATCHES = 8, 16, 8, 16
FORWARD_PS, BACKWARD_PS, OPTIMIZER_PS = 9_000_000_000, 18_000_000_000, 20_000_000_000
ACTIVATION_BYTES, TENSOR_BYTES, SHARD_BYTES = 33_554_432, 268_435_456, 1_600_000_000
SCALE_UP_BPS, NIC_BPS = 3.6e12, 4e11
SERVERS_PER_LEAF = 32


@dataclass
class Step:
    """A graph with its communications lowered by hand, and the links that they use."""

    graph: TaskGraph
    lowered: Lowered
    links: Links


@dataclass
class Links:
    """What an engine needs of a cluster's `LinkTable`."""

    rate_bps: NDArray[np.float64]
    bundle_of: NDArray[np.int32]

    @property
    def physical(self) -> int:
        """All links are real."""
        return len(self.rate_bps)

    def with_bundles(self, rate_bps: NDArray[np.float64]) -> NDArray[np.float64]:
        """There are no bundles."""
        return rate_bps


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
        self.blocks: list[dict[str, NDArray[Any]]] = []
        self.deps: list[tuple[NDArray[Any], NDArray[Any]]] = []  # (task, predecessor)
        self.size = 0

    def add(self, count: int, **columns: object) -> NDArray[Any]:
        self.blocks.append({name: np.broadcast_to(np.asarray(value), count) for name, value in columns.items()})
        self.size += count
        return np.arange(self.size - count, self.size)

    def wait(self, task: NDArray[Any], predecessor: NDArray[Any]) -> None:
        self.deps.append((task.ravel(), predecessor.ravel()))

    def column(self, name: str, dtype: type, default: int = 0) -> NDArray[Any]:
        parts = [
            np.asarray(b.get(name, np.broadcast_to(default, next(iter(b.values())).size)), dtype) for b in self.blocks
        ]
        return np.concatenate(parts)


Key = tuple[bool, int, int, int]  # backward?, virtual stage, micro-batch, stage


class _Builder:
    """One step, stage by stage, in the order in which each stage works."""

    def __init__(self, ranks: int) -> None:
        self.dp = ranks // (TP * PP)
        self.stages = np.arange(ranks).reshape(PP, self.dp * TP)
        self.tensor_groups = np.arange(ranks // TP).reshape(PP, self.dp)
        self.data_groups = ranks // TP + np.arange(PP * TP).reshape(PP, TP)
        self.rows = _Rows()
        self.computes: dict[Key, NDArray[np.int64]] = {}
        self.results: dict[Key, NDArray[np.int64]] = {}
        self.arrivals: list[tuple[Key, NDArray[np.int64]]] = []

    def stage(self, stage: int) -> None:
        gathers = [self.collective(self.data_groups[stage], SHARD_BYTES, Stream.PARAMETER) for _ in range(VP)]
        scatters = []
        for backward, chunk, batch in stage_order(stage):
            key = (backward, chunk, batch, stage)
            result = self.unit(key)
            if not backward and batch == 0:
                self.rows.wait(self.computes[key], np.tile(gathers[chunk], self.dp))
            if backward and batch == MICRO_BATCHES - 1:
                scatters.append(self.collective(self.data_groups[stage], SHARD_BYTES, Stream.GRADIENT))
                self.rows.wait(np.repeat(scatters[-1], self.dp), np.tile(result, TP))
        done = self.compute(stage, OPTIMIZER_PS)
        for scatter in scatters:
            self.rows.wait(done, np.tile(scatter, self.dp))

    def unit(self, key: Key) -> NDArray[np.int64]:
        """Computation, tensor-parallel collective and transfer of one micro-batch on one virtual stage."""
        backward, chunk, batch, stage = key
        self.computes[key] = self.compute(stage, BACKWARD_PS if backward else FORWARD_PS)
        self.results[key] = self.collective(self.tensor_groups[stage], TENSOR_BYTES, Stream.COMPUTE)
        there = next_unit(backward, chunk, stage)
        if there is not None:
            to_chunk, to_stage = there
            stream = Stream.BACKWARD if backward else Stream.FORWARD
            ends = {"rank": self.stages[stage], "peer": self.stages[to_stage]}
            send = self.rows.add(
                len(self.stages[stage]), kind=Kind.TRANSFER, size=ACTIVATION_BYTES, stream=stream, **ends
            )
            self.rows.wait(send, np.repeat(self.results[key], TP))
            self.arrivals.append(((backward, to_chunk, batch, to_stage), send))
        return self.results[key]

    def compute(self, stage: int, duration_ps: int) -> NDArray[np.int64]:
        ranks = self.stages[stage]
        return self.rows.add(len(ranks), kind=Kind.COMPUTE, rank=ranks, duration=duration_ps, stream=Stream.COMPUTE)

    def collective(self, groups: NDArray[np.int64], size: int, stream: Stream) -> NDArray[np.int64]:
        return self.rows.add(len(groups), kind=Kind.COLLECTIVE, rank=groups, size=size, stream=stream)

    def connect(self) -> None:
        """Computations wait for what arrives; the first backward of a micro-batch for its last forward."""
        for key, send in self.arrivals:
            self.rows.wait(self.computes[key], send)
        for batch in range(MICRO_BATCHES):
            turn = (VP - 1, batch, PP - 1)
            self.rows.wait(self.computes[True, *turn], np.repeat(self.results[False, *turn], TP))


def build(ranks: int) -> Step:
    """The step on `ranks` accelerators (a multiple of 128)."""
    builder = _Builder(ranks)
    for stage in range(PP):
        builder.stage(stage)
    builder.connect()
    return _lowered(_graph(builder.rows, ranks, builder.dp), ranks, builder.dp)


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
    return TaskGraph(
        ranks=ranks,
        kind=rows.column("kind", np.uint8),
        rank=rows.column("rank", np.int32),
        peer=rows.column("peer", np.int32, -1),
        duration_ps=rows.column("duration", np.int64),
        size_bytes=rows.column("size", np.int64),
        count=np.ones(n, np.int32),
        collective=np.zeros(n, np.uint8),
        stream=rows.column("stream", np.uint8),
        label=np.zeros(n, np.int32),
        dep_ptr=ptr,
        dep_idx=predecessor[order].astype(np.int32),
        labels=[Label("forward", "unit")],
        communicators=_groups(ranks, dp),
    )


def _groups(ranks: int, dp: int) -> Communicators:
    """Tensor-parallel groups, then data-parallel groups."""
    everybody = np.arange(ranks, dtype=np.int32)
    by_data = everybody.reshape(PP, dp, TP).transpose(0, 2, 1).ravel()
    ptr = np.concatenate([np.arange(0, ranks, TP), ranks + np.arange(0, ranks + 1, dp)])
    names = ["tp"] * (ranks // TP) + ["dp"] * (PP * TP)
    return Communicators(ptr.astype(np.int64), np.concatenate([everybody, by_data]), names)


class _Network:
    """Scale-up egress and ingress, NIC up and down of every rank, leaf-spine links both ways."""

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks
        self.leaves = -(-ranks // (TP * SERVERS_PER_LEAF)) * TP
        self.base = 4 * ranks
        count = self.base + 2 * self.leaves * SERVERS_PER_LEAF
        self.capacity = np.full(count, NIC_BPS)
        self.capacity[: 2 * ranks] = SCALE_UP_BPS

    def leaf(self, rank: NDArray[Any]) -> NDArray[Any]:
        return rank // (TP * SERVERS_PER_LEAF) * TP + rank % TP

    def path(self, source: NDArray[Any], target: NDArray[Any]) -> NDArray[Any]:
        """Links [flows, 4] of hashed paths; twice the NIC links where both ends share a leaf."""
        key = (source.astype(np.uint64) << np.uint64(32)) ^ target.astype(np.uint64)
        key = (key ^ (key >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        spine = ((key >> np.uint64(33)) % np.uint64(SERVERS_PER_LEAF)).astype(np.int64)
        up = self.base + self.leaf(source) * SERVERS_PER_LEAF + spine
        down = self.base + (self.leaves + self.leaf(target)) * SERVERS_PER_LEAF + spine
        local = self.leaf(source) == self.leaf(target)
        nic_up, nic_down = 2 * self.ranks + source, 3 * self.ranks + target
        return np.stack([nic_up, np.where(local, nic_up, up), np.where(local, nic_down, down), nic_down], axis=1)


def _rows_of_links(
    owner: NDArray[Any], link: NDArray[Any], share: NDArray[Any], rows: int, links: int
) -> tuple[NDArray[Any], ...]:
    key, inverse = np.unique(owner.astype(np.int64) * links + link, return_inverse=True)
    total = np.bincount(inverse, weights=share)
    ptr = np.zeros(rows + 1, np.int64)
    np.cumsum(np.bincount(key // links, minlength=rows), out=ptr[1:])
    return ptr, (key % links).astype(np.int32), total


class _Usage:
    """(entity, link, share) triples under construction."""

    def __init__(self) -> None:
        self.parts: list[tuple[NDArray[Any], NDArray[Any], float]] = []

    def add(self, entity: NDArray[Any], link: NDArray[Any], share: float) -> None:
        self.parts.append((entity.ravel(), link.ravel(), share))

    def add_paths(self, entity: NDArray[Any], path: NDArray[Any], share: float) -> None:
        """Every link of each path once."""
        for hop in range(path.shape[1]):
            new = np.ones(len(path), bool) if hop == 0 else path[:, hop] != path[:, hop - 1]
            self.add(entity[new], path[new, hop], share)

    def columns(self, rows: int, links: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        owner = np.concatenate([entity for entity, _, _ in self.parts])
        link = np.concatenate([link for _, link, _ in self.parts])
        share = np.concatenate([np.full(len(entity), share) for entity, _, share in self.parts])
        return _rows_of_links(owner, link, share, rows, links)


def _lowered(graph: TaskGraph, ranks: int, dp: int) -> Step:
    network = _Network(ranks)
    everybody = np.arange(ranks)
    tensor_groups, data_groups = ranks // TP, PP * TP
    transfers = tensor_groups + data_groups  # first row of the transfers: forward, then backward ones
    usage = _Usage()
    usage.add(everybody // TP, everybody, 1.75)
    usage.add(everybody // TP, ranks + everybody, 1.75)
    members = graph.communicators.ranks[ranks:].reshape(data_groups, dp)
    ring = network.path(members.ravel(), np.roll(members, -1, axis=1).ravel())
    usage.add_paths(np.repeat(tensor_groups + np.arange(data_groups), dp), ring, (dp - 1) / dp if dp > 1 else 1.0)
    ahead, behind = (everybody + dp * TP) % ranks, (everybody - dp * TP) % ranks
    usage.add_paths(transfers + everybody, network.path(everybody, ahead), 1.0)
    usage.add_paths(transfers + ranks + everybody, network.path(everybody, behind), 1.0)
    rows = np.repeat([0, 1, 2], [tensor_groups, data_groups, 2 * ranks])
    volume = np.array([TENSOR_BYTES, SHARD_BYTES, ACTIVATION_BYTES], np.float64)[rows]
    latency = np.array([20_000_000, 1_000_000_000, 5_000_000])[rows]
    columns = usage.columns(len(rows), len(network.capacity))
    entities = Entities(
        *columns, volume, latency, np.full(len(rows), np.inf), np.ones(len(rows)), np.zeros(len(rows), np.int64)
    )
    links = Links(network.capacity, np.full(len(network.capacity), -1, np.int32))
    return Step(graph, Lowered(entities, _entities(graph, ranks, transfers, ahead)), links)


def _entities(graph: TaskGraph, ranks: int, transfers: int, ahead: NDArray[Any]) -> NDArray[np.int32]:
    entity = np.full(len(graph), -1, np.int32)
    groups = graph.kind == Kind.COLLECTIVE
    entity[groups] = graph.rank[groups]  # communicator c is row c
    sends = graph.kind == Kind.TRANSFER
    forward = graph.peer[sends] == ahead[graph.rank[sends]]
    entity[sends] = transfers + np.where(forward, 0, ranks) + graph.rank[sends]
    return entity
