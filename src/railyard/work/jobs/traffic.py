"""Traffic of a serving job on the fabric, as tasks; and its links, slowed as other jobs slowed that traffic."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import lcm
from typing import TYPE_CHECKING

import numpy as np

from railyard.graph import Kind, Label, Stream, TaskGraph
from railyard.work.serving.links import lanes_between

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.engine.serving import Links
    from railyard.graph import Record
    from railyard.work.serving.placing import PlacedPool
    from railyard.work.serving.prepare import ServingJob

    Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class KvTransfers:
    """KV cache transfers from prefill to decode, in a part of a run.

    Attributes:
        graph: A transfer for every lane of every request, released when it was sent.
        source: int32[n], the sending replica.
        target: int32[n], the receiving replica.
    """

    graph: TaskGraph
    source: NDArray[np.int32]
    target: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.graph)


def middle_ps(run: Record) -> int:
    """Time by which half of the transfers have begun; 0 without transfers."""
    began = run.column("transfer_start_ps")
    began = began[began >= 0]
    return int(np.median(began)) if began.size else 0


def traffic_of(job: ServingJob, run: Record, from_ps: int, span_ps: int) -> KvTransfers:
    """Transfers that begin in a part of a run; release times are relative to its start.

    The part that is sent during prefill is released with it, the rest with the first token.
    """
    pools = {pool.role: pool for pool in job.pools}
    if not {"prefill", "decode"} <= set(pools) or any(pool.home for pool in job.pools):
        return _traffic(job, _Lanes.none())
    begin = run.column("transfer_start_ps")
    inside = (begin >= from_ps) & (begin < from_ps + span_ps) & (run.column("transfer_end_ps") >= 0)
    return _traffic(job, _lanes(job, run, np.flatnonzero(inside), from_ps))


@dataclass(frozen=True, eq=False)
class _Lanes:
    """Transfers between ranks, one row each."""

    rank: Ints
    peer: Ints
    size_bytes: Ints
    release_ps: Ints
    source: Ints
    target: Ints

    @staticmethod
    def none() -> _Lanes:
        return _Lanes(*(np.empty(0, np.int64) for _ in range(6)))


def _lanes(job: ServingJob, run: Record, rows: Ints, from_ps: int) -> _Lanes:
    order = [pool.role for pool in job.pools]
    send, take = (_pool(job, role) for role in ("prefill", "decode"))
    first = np.cumsum([0, *(pool.replicas for pool in job.pools)])
    source, target = run.who[rows].astype(np.int64), run.column("decode_replica")[rows].astype(np.int64)
    here, there = source - first[order.index("prefill")], target - first[order.index("decode")]
    turns = lcm(send.copies.shape[1], take.copies.shape[1])
    lanes = lanes_between(send, take, np.repeat(here, turns), np.repeat(there, turns), turns)
    chosen = lanes.lane % turns == (lanes.lane // turns) % turns
    request = (lanes.lane // turns)[chosen]
    size = job.costs[order.index("prefill")].kv_bytes_per_token * job.requests.input_tokens[rows].astype(np.float64)
    overlap = job.section.transfer.overlap
    begin, first_token = run.column("transfer_start_ps")[rows], run.column("first_token_ps")[rows]
    kept = [(share, at) for share, at in ((overlap, begin), (1 - overlap, np.maximum(first_token, begin))) if share > 0]
    bytes_of = size[request] * lanes.share[chosen]
    return _Lanes(
        np.tile(lanes.source[chosen], len(kept)),
        np.tile(lanes.target[chosen], len(kept)),
        np.concatenate([np.maximum(np.rint(bytes_of * share), 1) for share, _ in kept]).astype(np.int64),
        np.concatenate([at[request] - from_ps for _, at in kept]).astype(np.int64),
        np.tile(source[request], len(kept)),
        np.tile(target[request], len(kept)),
    )


def _pool(job: ServingJob, role: str) -> PlacedPool:
    return next(pool for pool in job.pools if pool.role == role)


def _traffic(job: ServingJob, lanes: _Lanes) -> KvTransfers:
    graph = TaskGraph.of(
        job.cluster.ranks,
        kind=Kind.TRANSFER,
        rank=lanes.rank,
        peer=lanes.peer,
        size_bytes=lanes.size_bytes,
        stream=Stream.FREE,
        labels=[Label("serving", "keys and values", "kv")],
        release_ps=lanes.release_ps,
    )
    return KvTransfers(graph, lanes.source.astype(np.int32), lanes.target.astype(np.int32))


def slowed(links: Links, traffic: KvTransfers, slowdown: NDArray[np.float64]) -> Links:
    """Links slowed by the mean slowdown of their traffic, weighted by bytes.

    Args:
        links: Links at their own rates.
        traffic: The transfers over them.
        slowdown: float64[n], time of each transfer with other jobs relative to without.
    """
    ends, inverse = np.unique(np.stack([traffic.source, traffic.target]), axis=1, return_inverse=True)
    size = traffic.graph.size_bytes.astype(np.float64)
    which = inverse.ravel()
    moved = np.bincount(which, size, minlength=ends.shape[1])
    slow = np.bincount(which, size * slowdown, minlength=ends.shape[1])
    number = {(int(a), int(b)): row for row, (a, b) in enumerate(ends.T)}
    lane = np.array(
        [number.get((int(a), int(b)), -1) for a, b in zip(links.from_replica, links.to_replica, strict=True)]
    )
    row = np.repeat(lane, np.diff(links.ptr))
    known = row >= 0
    weight = links.share[known]
    total = np.bincount(links.link[known], moved[row[known]] * weight, minlength=len(links.rate_bps))
    longer = np.bincount(links.link[known], slow[row[known]] * weight, minlength=len(links.rate_bps))
    factor = np.divide(longer, total, out=np.ones(len(total)), where=total > 0)
    return replace(links, rate_bps=links.rate_bps / np.maximum(factor, 1.0))
