"""The plans of the algorithms, one function an algorithm, and one for any algorithm that writes down its schedule."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from railyard.collective import ALGORITHMS, NETWORK
from railyard.collective.chunks import SLOTS
from railyard.collective.direct import all_pairs
from railyard.collective.ring import chains, orders
from railyard.collective.tree import rooted_channels
from railyard.engine.packet.plan import Planner, SendPlan, cuts
from railyard.engine.packet.records import AT_RECEIVER, AT_SENDER
from railyard.graph import CollectiveKind
from railyard.kit.errors import InputError
from railyard.kit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from railyard.collective import Shape
    from railyard.collective.algorithm import Schedule, Send

    Ints = NDArray[np.int64]


MOST_SCHEDULED = 512
"""Ranks up to which the schedule of an algorithm without a plan of its own is taken message by message."""

_REDUCES = (CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE_SCATTER)
_GATHERS = (CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER)


@dataclass(frozen=True)
class Grain:
    """How finely a collective is cut.

    Attributes:
        merge: Steps over one edge that become one send, at least 1; of an all-to-all, peers for which one stands.
        pieces: Parts that follow one another through a tree or chain.
        channels: Rings or chains over the same edges, each with connections of its own.
        peers: Peers of an all-to-all that a rank sends to at a time.
        in_flight: Sends of one edge that are under way at a time. A connection sends one after another, while flows
            share a NIC, so no more than it takes to keep the wire busy.
        inside: The same of an edge inside a domain; one sends the next piece when the last one has left.
        chunks: The library's chunks in a piece: the first one is passed on while the others come.
        loops: Times that a ring goes round for parts of the data, which follow one another.
    """

    merge: float = 1.0
    pieces: int = 1
    in_flight: int = SLOTS
    inside: int = 1
    chunks: float = 1.0
    loops: int = 1
    channels: int = 1
    peers: int = 128

    def sends(self, steps: int) -> int:
        """Sends for so many steps over one edge."""
        return max(1, round(steps / self.merge))


planners: Registry[Callable[[CollectiveKind, Shape, Grain], SendPlan]] = Registry("plan of sends")
"""Algorithms whose sends are planned, not replayed from their schedules; each registers where it is defined."""


@lru_cache(maxsize=256)
def plan(name: str, kind: CollectiveKind, shape: Shape, grain: Grain) -> SendPlan:
    """The plan of an algorithm.

    Raises:
        InputError: It has no plan of its own, and the shape is too large to replay its messages.
    """
    if name in planners.known:
        return planners.get(name)(kind, shape, grain)
    if shape.ranks > MOST_SCHEDULED:
        raise InputError(
            f"the packet engine replays `{name}` message by message, which is too much for {shape.ranks} ranks",
            key="algorithm",
            found=name,
            allowed=planners.names(),
        )
    return _scheduled(name, kind, shape, grain)


def _rounds(kind: CollectiveKind, ranks: int) -> int:
    return (2 if kind == CollectiveKind.ALL_REDUCE else 1) * (ranks - 1)


def _slots(planner: Planner, ids: Ints, in_flight: int, where: NDArray[np.bool_] | None = None) -> None:
    """Every send waits until the one `in_flight` before it in the first axis has left its sender."""
    if len(ids) <= in_flight:
        return
    after, before = ids[in_flight:], ids[:-in_flight]
    if where is not None:
        chosen = np.broadcast_to(where, after.shape)
        after, before = after[chosen], before[chosen]
    planner.wait(after, before, at=AT_SENDER)


def _pieces(planner: Planner, ids: Ints, grain: Grain, apart: NDArray[np.bool_]) -> None:
    """Pieces over each edge, first axis, in sequence; `apart` marks edges between domains."""
    _slots(planner, ids, grain.in_flight, apart)
    _slots(planner, ids, grain.inside, ~apart)


@planners.register("ring")
def _ring(kind: CollectiveKind, shape: Shape, grain: Grain) -> SendPlan:
    """Send m of an edge passes on what send m - 1 of the edge before it brought."""
    planner = Planner()
    rings, channel = _several(np.stack(orders(shape)), grain)
    channels, ranks = rings.shape
    rounds = _rounds(kind, ranks)
    _ring_of(planner, rings, rounds, 1 / (ranks * channels), shape, grain, channel)
    return planner.build()


def _several(orders: Ints, grain: Grain) -> tuple[Ints, Ints]:
    """Each order as often as there are channels over it, and the number of each among those."""
    return np.repeat(orders, grain.channels, axis=0), np.tile(np.arange(grain.channels), len(orders))


def _ring_of(  # noqa: PLR0917
    planner: Planner, rings: Ints, rounds: int, each: float, shape: Shape, grain: Grain, channel: Ints
) -> Ints:
    """Rings (channels, members) of so many steps that carry `each`. Returns the sends (sends, channels, members)."""
    once = cuts(rounds, grain.sends(rounds))
    steps = np.tile(once, grain.loops)
    source, target = rings, np.roll(rings, -1, axis=1)
    height = steps[:, None, None]
    share = height * each / grain.loops
    lanes = float(_lanes(shape, len(rings)))
    channels = channel[None, :, None]
    ids = planner.sends(source[None], target[None], share, steps=height, lanes=lanes, channel=channels)
    passed_on = np.arange(1, len(ids)) % len(once) != 0
    planner.wait(ids[1:][passed_on], np.roll(ids, 1, axis=2)[:-1][passed_on])
    _slots(planner, ids, grain.in_flight, shape.domain_of[source] != shape.domain_of[target])
    return ids


def _lanes(shape: Shape, channels: int) -> int:
    """Sends that share a rank's scale-up links; in a mesh every pair has links of its own."""
    return max(1, channels // max(1, shape.per_domain - 1)) if shape.scale_up == "mesh" else channels


class EdgeTurns:
    """Counts how many channels already have an edge: trees may share one, and each has a connection of its own."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], int] = {}

    def of(self, source: Ints, target: Ints) -> Ints:
        """int64[k], the number of each edge among equal ones so far; counts it."""
        turns = np.zeros(len(source), np.int64)
        for at, edge in enumerate(zip(source.tolist(), target.tolist(), strict=True)):
            turns[at] = self._seen.get(edge, 0)
            self._seen[edge] = int(turns[at]) + 1
        return turns


@planners.register("tree")
def _tree(kind: CollectiveKind, shape: Shape, grain: Grain) -> SendPlan:
    """Up every tree and down again, piece by piece: a parent sends on what all its children have brought."""
    del kind
    planner = Planner()
    parents = rooted_channels(shape)
    pieces, lanes = grain.pieces, float(_lanes(shape, len(parents)))
    turns = EdgeTurns()
    for parent in parents:
        child = np.flatnonzero(parent >= 0)
        place = np.full(shape.ranks, -1)
        place[child] = np.arange(len(child))
        above = parent[child]
        share = np.full((pieces, 1), 1 / (len(parents) * pieces))
        up = planner.sends(child[None], above[None], share, lanes=lanes, channel=turns.of(child, above))
        down = planner.sends(above[None], child[None], share, lanes=lanes, channel=turns.of(above, child))
        inner = place[above] >= 0
        planner.wait(up[:, place[above[inner]]], up[:, inner])
        planner.wait(down[:, inner], down[:, place[above[inner]]])
        heads = np.flatnonzero(~inner)
        planner.wait(down[:, heads][:, :, None], up[:, heads][:, None, :])
        apart = shape.domain_of[child] != shape.domain_of[above]
        _pieces(planner, up, grain, apart)
        _pieces(planner, down, grain, apart)
    return planner.build()


@planners.register("reduce")
@planners.register("broadcast")
def _chain(kind: CollectiveKind, shape: Shape, grain: Grain) -> SendPlan:
    """A broadcast down every chain, or a reduction up it, piece by piece."""
    planner = Planner()
    walks, channel = _several(np.stack(chains(shape)), grain)
    if kind == CollectiveKind.REDUCE:
        walks = walks[:, ::-1]
    source, target = walks[:, :-1], walks[:, 1:]
    share = np.full((grain.pieces, 1, 1), 1 / (len(walks) * grain.pieces))
    lanes = float(_lanes(shape, len(walks)))
    ids = planner.sends(source[None], target[None], share, lanes=lanes, channel=channel[None, :, None])
    planner.wait(ids[:, :, 1:], ids[:, :, :-1])
    _pieces(planner, ids, grain, shape.domain_of[source] != shape.domain_of[target])
    return planner.build()


@planners.register("pairwise")
def _pairwise(kind: CollectiveKind, shape: Shape, grain: Grain) -> SendPlan:
    """Every rank to its next, the one after, ...: some peers at a time."""
    del kind
    planner = Planner()
    ranks = shape.ranks
    turns, each = _turns(ranks, grain)
    rank, turn = np.arange(ranks), turns[:, None]
    at_once = _peer_lanes(shape, float(min(grain.peers, len(turns))))
    ids = planner.sends(rank[None], (rank + turn) % ranks, each / ranks, lanes=at_once)
    planner.wait(ids, planner.joins(rank, posted=ranks - 1)[None])
    _peers(planner, ids, grain)
    return planner.build()


def _turns(ranks: int, grain: Grain) -> tuple[Ints, float]:
    """How far on the peers are that a rank sends to, and for how many peers each of them stands."""
    kept = max(1, round((ranks - 1) / grain.merge))
    turns = np.unique(np.rint(np.linspace(1, ranks - 1, kept)).astype(np.int64))
    return turns, (ranks - 1) / len(turns)


def _peers(planner: Planner, ids: Ints, grain: Grain) -> None:
    if len(ids) > grain.peers:
        planner.wait(ids[grain.peers :], ids[: -grain.peers], at=AT_SENDER)


def _peer_lanes(shape: Shape, at_once: float) -> float:
    return 1.0 if shape.scale_up == "mesh" else at_once


@planners.register("hierarchical-all-to-all")
def _staged_all_to_all(kind: CollectiveKind, shape: Shape, grain: Grain) -> SendPlan:
    """Inside each domain to the member on the target's rail, then along the rails."""
    del kind
    planner = Planner()
    p, domains, ranks = shape.per_domain, shape.domains, shape.ranks
    turns, each = _turns(domains, grain)
    joins = _inside(planner, shape, domains / ranks)
    domain, turn = np.arange(domains)[:, None], turns[:, None, None]
    local = np.arange(p)
    source = domain * p + local
    target = (domain + turn) % domains * p + local
    ids = planner.sends(source[None], target, each * p / ranks, lanes=float(min(grain.peers, domains)))
    grouped = planner.joins(np.arange(ranks), posted=domains - 1)
    planner.wait(grouped, joins)
    planner.wait(ids, grouped[source][None])
    _peers(planner, ids, grain)
    return planner.build()


@planners.register("direct")
def _direct(kind: CollectiveKind, shape: Shape, grain: Grain) -> SendPlan:
    """Every rank to every other, all at once; to reduce, to gather, or both in sequence."""
    del grain
    planner = Planner()
    joins = None
    if kind in _REDUCES:
        joins = _among(planner, shape, (1, shape.ranks), 1 / shape.ranks)
    if kind in _GATHERS:
        _among(planner, shape, (1, shape.ranks), 1 / shape.ranks, after=None if joins is None else joins[None])
    return planner.build()


def _inside(planner: Planner, shape: Shape, share: float, after: Ints | None = None) -> Ints:
    """Every member to every other of its domain; see `_among`."""
    return _among(planner, shape, (shape.domains, shape.per_domain), share, after)


def _among(planner: Planner, shape: Shape, grid: tuple[int, int], share: float, after: Ints | None = None) -> Ints:
    """Every member of each of some groups to every other of it; returns a join for each position.

    Args:
        planner: Where the sends go.
        shape: An even shape.
        grid: Groups, and consecutive positions of each.
        share: Of each send.
        after: int64[k, ranks], sends that must have reached each position first; None: none.
    """
    count, p = grid
    source, target = all_pairs(p)
    base = p * np.arange(count)[:, None]
    first, second = base + source[None], base + target[None]
    grouped = planner.joins(np.arange(shape.ranks), posted=p - 1)
    ids = planner.sends(first, second, share, lanes=_peer_lanes(shape, p - 1.0))
    planner.wait(ids, grouped[first])
    if after is not None:
        for row in after:
            planner.wait(grouped, row)
    joins = planner.joins(np.arange(shape.ranks))
    planner.wait(joins[second], ids)
    if after is not None:
        for row in after:
            planner.wait(joins, row)
    return joins


@planners.register("hierarchical")
def _hierarchical(kind: CollectiveKind, shape: Shape, grain: Grain) -> SendPlan:
    """Inside the domains, then a ring along every rail, then inside the domains."""
    planner = Planner()
    p, domains = shape.per_domain, shape.domains
    joins = _inside(planner, shape, 1 / p) if kind in _REDUCES else None
    rails = np.arange(shape.ranks).reshape(domains, p).T
    rounds = _rounds(kind, domains)
    ids = _ring_of(planner, rails, rounds, 1 / (domains * p), shape, grain, np.zeros(p, np.int64))
    if joins is not None:
        planner.wait(ids[0], joins[rails])
    if kind in _GATHERS:
        reached = planner.joins(np.arange(shape.ranks))
        planner.wait(reached[rails], np.roll(ids, 1, axis=2))  # the sends that reach each member
        _inside(planner, shape, 1 / p, after=reached[None])
    return planner.build()


@planners.register("halving-doubling")
def _halving(kind: CollectiveKind, shape: Shape, grain: Grain) -> SendPlan:
    """Exchanges of halves with partners at distances 1, 2, 4, ..., then back; see the algorithm for ranks left over."""
    del grain
    planner = Planner()
    bits = shape.ranks.bit_length() - 1
    folds = np.arange(0, 2 * (shape.ranks - (1 << bits)), 2)
    active = np.setdiff1d(np.arange(shape.ranks), folds)
    index = np.arange(len(active))
    turns = list(range(bits)) if kind in _REDUCES else []
    turns += reversed(range(bits)) if kind in _GATHERS else []
    into = planner.sends(folds, folds + 1, 1.0) if len(folds) else None
    place = np.searchsorted(active, folds + 1)
    reached: list[Ints] = []  # what has reached each, exchange by exchange
    for bit in turns:
        partner = index ^ (1 << bit)
        ids = planner.sends(active, active[partner], 0.5 ** (bit + 1))
        for before in reached:
            planner.wait(ids, before)
        if into is not None and not reached:
            planner.wait(ids[place], into)
        reached.append(ids[partner])
    if into is not None:
        out = planner.sends(folds + 1, folds, 1.0)
        for before in reached:
            planner.wait(out, before[place])
    return planner.build()


class _Halves:
    """The tree of an NVLS message of the two that share an edge, by the half that it carries."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], list[int]] = {}

    def of(self, send: Send) -> int:
        """The number of the message's tree among those over its edge."""
        trees = self._seen.setdefault((send.source, send.target), [])
        half = send.chunks[0] % 2
        if half not in trees:
            trees.append(half)
        return trees.index(half)


class _ScaleUpLinks:
    """How many sends of a schedule share a rank's scale-up link, out of it or into it, at a time.

    Those of one step share it. In a pipeline all steps are under way at once: the one that moves the most is charged
    what the others move over the link meanwhile, so that pieces follow one another at the pace of the link.
    """

    def __init__(self, schedule: Schedule, shape: Shape, *, pipelined: bool) -> None:
        self._shape = shape
        self._count: list[Counter[tuple[int, bool]]] = []
        moved: list[Counter[tuple[int, bool]]] = []
        for step in schedule.steps:
            inside = [send for send in step if not _leaves(shape, send.source, send.target)]
            self._count.append(Counter(map(_end, inside)))
            chunks: Counter[tuple[int, bool]] = Counter()
            for send in inside:
                chunks[_end(send)] += len(send.chunks)
            moved.append(chunks)
        total: Counter[tuple[int, bool]] = sum(moved, Counter())
        largest = {end: max(range(len(moved)), key=lambda at: moved[at][end]) for end in total}
        self._busiest = {(at, end): total[end] / moved[at][end] for end, at in largest.items()} if pipelined else {}

    def lanes(self, step: int, send: Send) -> float:
        """Sends like this one in its step that its rank's link carries at the same time."""
        if _leaves(self._shape, send.source, send.target):
            return 1.0
        end = _end(send)
        return self._count[step][end] * self._busiest.get((step, end), 1.0)


def _end(send: Send) -> tuple[int, bool]:
    """The rank whose scale-up link a send inside a domain goes over, and whether out of it."""
    return (send.source, True) if send.source >= 0 else (send.target, False)


def _carried(schedule: Schedule) -> Iterator[tuple[int, Send, list[int]]]:
    """The messages of a schedule in order, each with its step and the numbers of those that brought its chunks."""
    brought: dict[tuple[int, int], list[int]] = {}
    first = 0
    for number, step in enumerate(schedule.steps):
        for send in step:
            yield (
                number,
                send,
                list(dict.fromkeys(one for c in send.chunks for one in brought.get((send.source, c), ()))),
            )
        for at, send in enumerate(step, first):
            for chunk in send.chunks:
                here = (send.target, chunk)
                brought[here] = [*brought.get(here, ()), at] if send.reduce else [at]
        first += len(step)


def _scheduled(name: str, kind: CollectiveKind, shape: Shape, grain: Grain) -> SendPlan:
    """Any algorithm, from its own messages: each waits for those that brought its chunks to its source."""
    algorithm = ALGORITHMS.get(name)
    schedule = algorithm.schedule(kind, shape)
    if algorithm.written:
        return written(schedule, shape, grain)
    pieces = 1 if algorithm.phased else grain.pieces
    planner = Planner()
    halves = _Halves() if name == "nvls-tree" else None
    links = _ScaleUpLinks(schedule, shape, pipelined=pieces > 1)
    sent: list[Ints] = []
    for number, send, before in _carried(schedule):
        share = np.full(pieces, len(send.chunks) * schedule.chunk_share / pieces)
        channel = halves.of(send) if halves is not None else 0
        ids = planner.sends(send.source, send.target, share, lanes=links.lanes(number, send), channel=channel)
        for one in before:
            planner.wait(ids, sent[one])
        _slots(planner, ids, grain.in_flight if _leaves(shape, send.source, send.target) else grain.inside)
        sent.append(ids)
    return planner.build()


def written(schedule: Schedule, shape: Shape, grain: Grain) -> SendPlan:
    """A schedule as it was written: its messages are pieces already, and those of an edge follow one another.

    Messages inside domains have the share of their ranks' links that their edge has of the bytes over them: so all
    edges are busy until the end, as the thread blocks of MSCCL are, one for each neighbour.
    """
    sends = [send for step in schedule.steps for send in step]
    source, target = (np.array([send[end] for send in sends], np.int64) for end in (0, 1))
    share = np.array([len(send.chunks) * schedule.chunk_share for send in sends])
    planner = Planner()
    planner.sends(source, target, share, lanes=_shares(source, target, share, shape))
    waits: list[tuple[int, int, int]] = []  # who waits, for whom, where
    edges: dict[tuple[int, int], list[int]] = {}
    for number, (_, send, before) in enumerate(_carried(schedule)):
        waits += [(number, one, AT_RECEIVER) for one in sorted(before)]
        edge = edges.setdefault((send.source, send.target), [])
        slots = grain.in_flight if _leaves(shape, send.source, send.target) else grain.inside
        if len(edge) >= slots:
            waits.append((number, edge[-slots], AT_SENDER))
        edge.append(number)
    after, earlier, where = np.array(waits, np.int64).reshape(-1, 3).T
    for at in (AT_RECEIVER, AT_SENDER):
        planner.wait(after[where == at], earlier[where == at], at=at)
    return planner.build()


def _shares(source: Ints, target: Ints, share: NDArray[np.float64], shape: Shape) -> NDArray[np.float64]:
    """float64[sends], bytes over the busier of both ends' links into their domain, in bytes over the send's edge."""
    inside = shape.domain_of[source] == shape.domain_of[target]
    moved = np.where(inside, share, 0.0)
    if shape.scale_up == "mesh":
        return np.ones(len(share))
    pair = source * shape.ranks + target
    _, inverse = np.unique(pair, return_inverse=True)
    edge = np.bincount(inverse, moved)[inverse]
    ends = [np.bincount(end, moved, shape.ranks)[end] for end in (source, target)]
    return np.where(inside, np.maximum(*ends) / np.where(inside, edge, 1.0), 1.0)


def _leaves(shape: Shape, source: int, target: int) -> bool:
    """Whether a send goes through NICs."""
    if source < 0 or target < 0:
        return NETWORK in {source, target}
    return bool(shape.domain_of[source] != shape.domain_of[target])
