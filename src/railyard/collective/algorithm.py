"""Collective algorithms: their record and registry, and patterns: how much each rank sends to each other."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from railyard.graph import CollectiveKind
from railyard.kit.errors import SimulationError
from railyard.kit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from railyard.collective.machine import Case, CollectiveMachine, Shape


STAGED_FROM = 256
"""Ranks beyond which `Algorithm.staged` is taken."""


def never(_kind: CollectiveKind, _shape: Shape, _machine: CollectiveMachine) -> None:
    """The refusals of an algorithm that works everywhere."""


@dataclass(frozen=True)
class Steps:
    """Messages that must follow one another when the data is so small that only latency counts.

    Attributes:
        scale_up: Inside a scale-up domain, from accelerator to accelerator.
        scale_out: Through NICs.
        switch: Passes through a reducing scale-up switch.
        reduction: Passes through the reducing switches of the network, up to the root of their tree and down again.
        peers: Messages that one rank posts one after another without waiting for them.
    """

    scale_up: float = 0.0
    scale_out: float = 0.0
    switch: float = 0.0
    reduction: float = 0.0
    peers: float = 0.0

    @property
    def paths(self) -> float:
        """Ways through the network from domain to domain: a pass through its reducing switches is one."""
        return self.scale_out + self.reduction


@dataclass(frozen=True)
class Algorithm:
    """One way to do one or more kinds of collectives.

    Attributes:
        name: The word by which users override the choice.
        summary: What it does, one line.
        protocols: The wire protocols it may use, a subset of "ll", "ll128", "simple".
        family: Whose measured constants it takes: "ring", "tree", "nvls", "collnet", "pat" or "peer".
        refuses: Why it cannot serve a kind on a shape and machine; None where it can.
        pattern: Bytes of each edge.
        steps: Latencies that add up.
        schedule: Every message in order; for tests and for engines that replay messages.
        sources: Where the algorithm is described.
        staged: An algorithm whose pattern is this one's when edges that change rails go through peers. It has fewer
            edges to write down, so large communicators take it.
        route: Between which domains steps go: "ring" from each to the next and round again, "chain" from the first to
            the last, "exchange" to all others at once, "mixed" also far.
        phased: Whether what it does inside domains and what it does between them follow one another, so that their
            times add up. Others pass data on in a pipeline, in which the slowest link counts.
        written: Whether it is a schedule that was made for one network: taken only where it is asked for by name, and
            its messages are sent as they are.
        fill: Of a case, seconds for each byte of the collective's size in which its busiest link waits for data that is
            stored on its journey; None: none, or counted elsewhere.
        floor_us: Of a case, what its own kernel takes for the smallest message, us: no library runs it, and it is taken
            only where it is asked for by name. None: the library's constants hold.
    """

    name: str
    summary: str
    kinds: tuple[CollectiveKind, ...]
    protocols: tuple[str, ...]
    family: str
    pattern: Callable[[CollectiveKind, Shape], Pattern]
    steps: Callable[[CollectiveKind, Shape], Steps]
    schedule: Callable[[CollectiveKind, Shape], Schedule]
    sources: tuple[str, ...]
    refuses: Callable[[CollectiveKind, Shape, CollectiveMachine], str | None] = never
    route: str = "mixed"
    phased: bool = False
    staged: str | None = None
    written: bool = False
    fill: Callable[[Case], float] | None = None
    floor_us: Callable[[Case], float] | None = None

    @property
    def to_the_next(self) -> bool:
        """Whether its steps between domains go from each to the next only."""
        return self.route in {"ring", "chain"}

    @property
    def reduces_in_network(self) -> bool:
        """Whether the network's switches add for it."""
        return self.family == "collnet" or self.name == "nvls-sharp"

    def relayed_pattern(self, kind: CollectiveKind, shape: Shape, rails: NDArray[np.int64]) -> Pattern:
        """The pattern on an aligned shape when edges that change rails go through peers; see `Pattern.relayed`."""
        grid = shape.even and shape.domains > 1 and shape.per_domain > 1
        if self.staged is not None and grid and shape.ranks > STAGED_FROM:
            return ALGORITHMS.get(self.staged).pattern(kind, shape)
        return self.pattern(kind, shape).relayed(shape, rails)

    def refusal(self, kind: CollectiveKind, shape: Shape, machine: CollectiveMachine) -> str | None:
        """Why the algorithm cannot do `kind` on `shape`; None when it can."""
        if kind not in self.kinds:
            return f"`{self.name}` does not do {kind.name.lower().replace('_', '-')}"
        if shape.ranks < 2:
            return None
        return self.refuses(kind, shape, machine)


ALGORITHMS: Registry[Algorithm] = Registry("collective algorithm", package="railyard.collective")


NETWORK = -(2**31)
"""The reducing switches of the scale-out network (SHARP class) as the end of an edge."""


def domain_switch(domain: int) -> int:
    """The reducing scale-up switch of a domain (NVLink SHARP class) as the end of an edge: a negative number."""
    return -1 - domain


@dataclass(frozen=True)
class Pattern:
    """Edges of a collective; at most one for each ordered pair.

    Attributes:
        source: int64[e]; position, or a switch when negative (`domain_switch`, `NETWORK`).
        target: int64[e]; the same.
        share: float64[e]; bytes over the edge per byte of the collective's size (nccl-tests size).
        merged: int64[e]; edges of rings and trees that an edge stands for: each has connections of its own.
    """

    source: NDArray[np.int64]
    target: NDArray[np.int64]
    share: NDArray[np.float64]
    merged: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.share)

    @staticmethod
    def of(edges: Iterable[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64] | float]]) -> Pattern:
        """Sums groups of edges (sources, targets, share or shares) into one pattern."""
        groups = [(source, target, np.broadcast_to(share, source.shape)) for source, target, share in edges]
        if not groups:
            none = np.empty(0, np.int64)
            return Pattern(none, none, np.empty(0), none)
        source, target, share = (np.concatenate(column) for column in zip(*groups, strict=True))
        return _summed(source, target, share, np.ones(len(source), np.int64))

    def scale_out(self, shape: Shape) -> NDArray[np.bool_]:
        """bool[e]: whether an edge leaves its scale-up domain."""
        network = (self.source == NETWORK) | (self.target == NETWORK)
        members = (self.source >= 0) & (self.target >= 0)
        domain = shape.domain_of
        crosses = domain[np.where(members, self.source, 0)] != domain[np.where(members, self.target, 0)]
        outside: NDArray[np.bool_] = network | (members & crosses)
        return outside

    def relayed(self, shape: Shape, rails: NDArray[np.int64]) -> Pattern:
        """The pattern when edges that change rails go through the member of their domain at the target's place.

        Done once for a shape, so that the n (n-1) edges of an all-to-all shrink to those between ranks of one rail
        before any of them is routed.

        Args:
            shape: An aligned shape.
            rails: int64[ranks], rail of each position.
        """
        crossing = self.scale_out(shape) & (self.source >= 0) & (self.target >= 0)
        source, target, share = self.source[crossing], self.target[crossing], self.share[crossing]
        place = target - shape.offsets[shape.domain_of[target]]
        peer = shape.offsets[shape.domain_of[source]] + place
        peer = np.where(rails[source] == rails[target], source, peer)
        moved = peer != source
        merged = self.merged[crossing]
        kept = (self.source[~crossing], self.target[~crossing], self.share[~crossing], self.merged[~crossing])
        parts = (kept, (source[moved], peer[moved], share[moved], merged[moved]), (peer, target, share, merged))
        return _summed(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def loads(self, ranks: int) -> NDArray[np.float64]:
        """float64[ranks]: the larger of what leaves each position and of what reaches it."""
        out = np.bincount(self.source[self.source >= 0], self.share[self.source >= 0], minlength=ranks)
        into = np.bincount(self.target[self.target >= 0], self.share[self.target >= 0], minlength=ranks)
        return np.maximum(out, into)

    def part(self, chosen: NDArray[np.bool_]) -> Pattern:
        """Some of the edges."""
        return Pattern(self.source[chosen], self.target[chosen], self.share[chosen], self.merged[chosen])


def _summed(
    source: NDArray[np.int64], target: NDArray[np.int64], share: NDArray[np.float64], merged: NDArray[np.int64]
) -> Pattern:
    used = np.flatnonzero(share > 0)
    order = used[np.lexsort((target[used], source[used]))]
    source, target, share, merged = source[order], target[order], share[order], merged[order]
    if len(source) == 0:
        return Pattern(source, target, share, merged)
    first = np.concatenate([[True], (source[1:] != source[:-1]) | (target[1:] != target[:-1])])
    begin = np.flatnonzero(first)
    return Pattern(source[first], target[first], np.add.reduceat(share, begin), np.add.reduceat(merged, begin))


class Send(NamedTuple):
    """One message.

    Attributes:
        source: Position, or a switch when negative.
        target: Position, or a switch when negative.
        chunks: The chunks it carries.
        reduce: The target adds what comes to what it has; otherwise it keeps what comes.
    """

    source: int
    target: int
    chunks: tuple[int, ...]
    reduce: bool = False


def backwards(steps: Sequence[tuple[Send, ...]], *, reduce: bool = False) -> list[tuple[Send, ...]]:
    """The same messages the other way, the last step first: a gather becomes a scatter, a reduction a broadcast."""
    return [tuple(Send(send.target, send.source, send.chunks, reduce) for send in step) for step in reversed(steps)]


@dataclass(frozen=True)
class Schedule:
    """Steps of messages; all messages of one step read what their sources had before the step.

    Attributes:
        kind: Type of the collective, such as all-gather.
        ranks: Members; the root of a broadcast or reduction is position 0.
        chunks: Equal parts into which the data is cut. All-to-all: chunk `source * ranks + target` (times any whole
            number of parts) is what `source` has for `target`.
        owner: All-gather and reduce-scatter: the position to which each chunk belongs; else empty.
        unsent: Chunks of an all-to-all of uneven sizes that nobody wants.
    """

    kind: CollectiveKind
    ranks: int
    chunks: int
    steps: tuple[tuple[Send, ...], ...]
    owner: tuple[int, ...] = ()
    unsent: frozenset[int] = frozenset()

    @property
    def chunk_share(self) -> float:
        """Size of one chunk per byte of the collective's size (an all-to-all's size is that of one rank's buffer)."""
        return (self.ranks if self.kind == CollectiveKind.ALL_TO_ALL else 1) / self.chunks

    def pattern(self) -> Pattern:
        """The bytes of all messages, summed over steps."""
        sends = [send for step in self.steps for send in step]
        source = np.array([send.source for send in sends], np.int64)
        target = np.array([send.target for send in sends], np.int64)
        share = np.array([len(send.chunks) * self.chunk_share for send in sends], np.float64)
        return Pattern.of([(source, target, share)])

    def run(self) -> None:
        """Runs the schedule symbolically.

        Raises:
            SimulationError: A message carries what its source does not hold, something is added twice, or a rank ends
                without the data that the kind of collective promises.
        """
        blocks_of = self._start()
        for number, step in enumerate(self.steps):
            before = {send.source: dict(blocks_of[send.source]) for send in step}
            for send in step:
                _deliver(send, before[send.source], blocks_of[send.target], number)
        self._check(blocks_of)

    def _start(self) -> dict[int, dict[int, frozenset[int]]]:
        blocks_of: dict[int, dict[int, frozenset[int]]] = defaultdict(dict)
        for chunk in self._used():
            for rank in self._holders(chunk):
                blocks_of[rank][chunk] = frozenset([rank])
        return blocks_of

    def _used(self) -> list[int]:
        return [chunk for chunk in range(self.chunks) if chunk not in self.unsent]

    def _holders(self, chunk: int) -> list[int]:
        if self.kind == CollectiveKind.BROADCAST:
            return [0]
        if self.kind == CollectiveKind.ALL_GATHER:
            return [self.owner[chunk]]
        if self.kind == CollectiveKind.ALL_TO_ALL:
            return [chunk * self.ranks // self.chunks]
        return list(range(self.ranks))

    def _wanted(self, chunk: int) -> tuple[list[int], frozenset[int]]:
        everyone = list(range(self.ranks))
        if self.kind == CollectiveKind.ALL_REDUCE:
            return everyone, frozenset(everyone)
        if self.kind == CollectiveKind.REDUCE_SCATTER:
            return [self.owner[chunk]], frozenset(everyone)
        if self.kind == CollectiveKind.REDUCE:
            return [0], frozenset(everyone)
        if self.kind == CollectiveKind.ALL_TO_ALL:
            parts = self.chunks // self.ranks**2
            return [chunk // parts % self.ranks], frozenset(self._holders(chunk))
        return everyone, frozenset(self._holders(chunk))

    def _check(self, blocks_of: dict[int, dict[int, frozenset[int]]]) -> None:
        for chunk in self._used():
            ranks, content = self._wanted(chunk)
            for rank in ranks:
                if blocks_of[rank].get(chunk) != content:
                    raise SimulationError(
                        f"{self.kind.name}: position {rank} ends without chunk {chunk}: "
                        f"it holds the data of {sorted(blocks_of[rank].get(chunk, ()))}"
                    )


def empty_chunks(pieces: NDArray[np.int64]) -> frozenset[int]:
    """Chunks that nobody wants.

    Args:
        pieces: int64[ranks, ranks], of an uneven all-to-all the chunks of each pair; all have room for the most.
    """
    return frozenset(np.flatnonzero(np.arange(pieces.max()) >= pieces[:, :, None]).tolist())


def direct(pieces: NDArray[np.int64]) -> Schedule:
    """An uneven all-to-all in which every rank sends straight to every other, all at once.

    Args:
        pieces: int64[ranks, ranks], the chunks of each pair.
    """
    ranks, most = len(pieces), int(pieces.max())
    sends = []
    for source, target in np.argwhere(pieces).tolist():
        first = (source * ranks + target) * most
        sends.append(Send(source, target, tuple(range(first, first + int(pieces[source, target])))))
    kind = CollectiveKind.ALL_TO_ALL
    return Schedule(kind, ranks, ranks**2 * most, (tuple(sends),), (), empty_chunks(pieces))


def _deliver(send: Send, source: dict[int, frozenset[int]], target: dict[int, frozenset[int]], step: int) -> None:
    for chunk in send.chunks:
        if chunk not in source:
            raise SimulationError(f"step {step}: {send.source} sends chunk {chunk}, which it does not hold")
        if not send.reduce:
            target[chunk] = source[chunk]
            continue
        present = target.get(chunk, frozenset())
        if present & source[chunk]:
            raise SimulationError(f"step {step}: {send.target} adds chunk {chunk} of {send.source} twice")
        target[chunk] = present | source[chunk]
