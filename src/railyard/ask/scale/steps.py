"""One measured step of a rank: computations with their measured times, communications, and what waits for what.

A wait is exact where the trace has `Stream Wait Event`. Otherwise it is inferred from the order of launches and from
times, and every inferred wait agrees with them:

    communication   waits for the last kernel of each compute stream that was launched before it and had ended
    computation     waits for a communication launched before it if its stream stood idle until that one ended
    otherwise       what nothing waits for is waited for where frameworks need its result at the latest (`_needed_by`);
                    in a trace with events, by the end of the step

The measured time of a communication is not used: it contains the wait for other ranks.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from statistics import median_low
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.observe.kernels import COMPUTE_BOUND, COPY, OPTIMIZER, PHASES, kind_of_kernel
from railyard.ask.observe.measured import Launched, steps_of
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.ask.observe.reader import Piece

    Ints = NDArray[np.int64]

SLACK_NS = 20_000
"""A kernel that starts within this time of the end of a communication is taken to have waited for it: an event, and
the launch of a kernel behind it, take 5 to 15 us."""

EXACT, SEEN, ASSUMED = "exact", "seen", "assumed"
"""How a wait is known: an event of the trace, idle time that ends with the communication, neither."""

_COMMUNICATION = PHASES.index("communication")
_LATE = ("all_reduce", "reduce_scatter", "reduce", "broadcast", "barrier")
"""Results that the optimizer needs, or nobody before the end of the step."""


@dataclass(frozen=True)
class CommCall:
    """A communication that a rank called.

    Attributes:
        group: Its process group as the trace names it; of a message between two ranks, `0 to 4`.
        size_bytes: The larger of a rank's buffers; 0 where the trace does not say.
        measured_ns: Time of its kernel, waiting included.
    """

    group: str
    kind: str
    size_bytes: int
    measured_ns: int


@dataclass
class TracedStep:
    """One step of a rank, as tasks in an order in which none waits for a later one.

    Attributes:
        rank: Its number in the job.
        number: Number of the step as the profiler marked it.
        period_ns: From its first kernel to that of the next step.
        duration_ns: Of each task, kernels and the idle time of the host between them; 0 of a communication.
        busy_ns: The part of it in kernels whose time follows the FLOP/s, and in those whose time follows the memory.
        main: Whether each task is on the compute stream that is busy longest.
        calls: The communication of each task; None of a computation.
        waits: Pairs (task, earlier task that it waits for).
        assumed: Those of the waits that nothing shows.
        known: How many waits are `EXACT`, `SEEN` and `ASSUMED`.
        kernels_ns: Time of compute kernels on the main stream.
        overlapped_ns: The part of it during which a communication ran: these kernels may have been slowed.
        unexplained_ns: Idle time of the main stream during communications for which nothing was seen to wait.
    """

    rank: int
    number: int
    period_ns: int
    duration_ns: list[int] = field(default_factory=list)
    busy_ns: list[tuple[int, int]] = field(default_factory=list)
    main: list[bool] = field(default_factory=list)
    calls: list[CommCall | None] = field(default_factory=list)
    waits: list[tuple[int, int]] = field(default_factory=list)
    assumed: list[tuple[int, int]] = field(default_factory=list)
    known: dict[str, int] = field(default_factory=lambda: {EXACT: 0, SEEN: 0, ASSUMED: 0})
    kernels_ns: int = 0
    overlapped_ns: int = 0
    unexplained_ns: int = 0

    def with_last(self, call: CommCall) -> TracedStep:
        """The step with one more communication, which starts when all else has ended."""
        last = len(self.duration_ns)
        return replace(
            self,
            duration_ns=[*self.duration_ns, 0],
            busy_ns=[*self.busy_ns, (0, 0)],
            main=[*self.main, False],
            calls=[*self.calls, call],
            waits=[*self.waits, (last, last - 1)],
        )

    def without_assumed(self) -> TracedStep:
        """The step without the waits that nothing shows."""
        return replace(self, waits=[one for one in self.waits if one not in set(self.assumed)])

    def on_other(self, products: float, traffic: float) -> TracedStep:
        """The step on another accelerator: factors on times of products and of kernels that memory bounds."""
        more = [round(one * (products - 1) + other * (traffic - 1)) for one, other in self.busy_ns]
        return replace(
            self,
            duration_ns=[one + longer for one, longer in zip(self.duration_ns, more, strict=True)],
            kernels_ns=self.kernels_ns + sum(one for one, main in zip(more, self.main, strict=True) if main),
        )

    @property
    def own_ns(self) -> int:
        """Time of the main stream that does not depend on communication: kernels and the host's idle time."""
        return sum(one for one, main in zip(self.duration_ns, self.main, strict=True) if main)

    @property
    def replayed_ns(self) -> int:
        """Length of the step if every communication takes its measured time: checks the waits."""
        end = [0] * len(self.duration_ns)
        before: dict[int, list[int]] = {}
        for task, earlier in self.waits:
            before.setdefault(task, []).append(earlier)
        for task, (duration, call) in enumerate(zip(self.duration_ns, self.calls, strict=True)):
            start = max((end[one] for one in before.get(task, ())), default=0)
            end[task] = start + (duration if call is None else call.measured_ns)
        return max(end, default=0)


def measured_steps(pieces: Sequence[Piece]) -> tuple[int, dict[int, dict[int, TracedStep]]]:
    """The number of the step to take, and by rank all whole steps by number.

    The step is the median of those that all ranks have, by length. The last step of a trace is used only if it is the
    only one, because the idle time behind it is not in the trace.

    Raises:
        InputError: No rank has kernels, or no step is on all ranks.
    """
    traced = {piece.rank or 0: piece for piece in pieces if piece.timed and piece.kernels is not None}
    if not traced:
        raise InputError("no trace with kernels was found", found=", ".join(piece.source for piece in pieces) or None)
    places, numbers = steps_of({rank: _launched(piece) for rank, piece in traced.items()})
    found = {rank: dict(_steps(rank, piece, places[rank], numbers)) for rank, piece in traced.items()}
    shared = [number for number in numbers if all(number in steps for steps in found.values())]
    if not shared:
        raise InputError("no step is in the traces of all ranks", found=f"ranks {', '.join(map(str, sorted(found)))}")
    length = {number: sum(steps[number].period_ns for steps in found.values()) for number in shared}
    middle = median_low(length.values())
    return next(number for number in shared if length[number] == middle), found


def _launched(piece: Piece) -> Launched:
    kernels = piece.kernels
    assert kernels is not None
    code = (kernels.name.astype(np.int64) * (1 << 20) + kernels.group) * len(PHASES) + kernels.phase
    return Launched(code, kernels.launch, kernels.start_ns, piece.steps, piece.exact)


def _steps(
    rank: int, piece: Piece, place: NDArray[np.int32], numbers: Sequence[int]
) -> Iterator[tuple[int, TracedStep]]:
    kernels = piece.kernels
    assert kernels is not None
    rows = {at: np.flatnonzero(place == at) for at in range(len(numbers))}
    first = {at: int(kernels.start_ns[those].min()) for at, those in rows.items() if len(those)}
    kept = sorted(first)[:-1] or sorted(first)
    for at in kept:
        chosen = rows[at]
        last = int((kernels.start_ns + kernels.duration_ns)[chosen].max())
        until = min((start for other, start in first.items() if other > at), default=last)
        yield numbers[at], _Reading(rank, piece, chosen).step(numbers[at], until)


class _Reading:
    """The kernels of one step while they become tasks; k counts kernels by start."""

    def __init__(self, rank: int, piece: Piece, rows: Ints) -> None:
        kernels = piece.kernels
        assert kernels is not None
        order = rows[np.lexsort((kernels.duration_ns[rows], kernels.start_ns[rows]))]
        self.rank, self.piece, self.kernels, self.rows = rank, piece, kernels, order
        self.start = kernels.start_ns[order]
        self.end = self.start + kernels.duration_ns[order]
        launch = kernels.launch[order]
        self.launch = launch if (launch >= 0).all() else np.arange(len(order), dtype=np.int64)
        self.moves: NDArray[np.bool_] = kernels.phase[order] == _COMMUNICATION
        # Communications on a stream of computations have a queue of their own; `_turns` puts the two in order.
        self.queue = kernels.stream[order] * 2 + self.moves
        self.on = {int(queue): np.flatnonzero(self.queue == queue) for queue in np.unique(self.queue)}
        self.reached = {queue: np.maximum.accumulate(self.end[those]) for queue, those in self.on.items()}
        busy = {queue: int((self.end - self.start)[those].sum()) for queue, those in self.on.items() if not queue % 2}
        self.main = max(busy, key=lambda queue: busy[queue], default=0)
        self.free = np.full(len(order), int(self.start[0]), np.int64)
        for queue, those in self.on.items():
            self.free[those[1:]] = np.maximum(self.reached[queue][:-1], self.start[0])
        self.waits: dict[int, dict[int, str]] = {}

    def step(self, number: int, until: int) -> TracedStep:
        """The step, which ends where the next one starts."""
        self._find_waits()
        found = TracedStep(self.rank, number, until - int(self.start[0]))
        self._overlap(found)
        self._tasks(found, until)
        for those in self.waits.values():
            for how in those.values():
                found.known[how] += 1
        return found

    def _find_waits(self) -> None:
        self._events()
        self._turns()
        for k in np.flatnonzero(self.moves).tolist():
            if EXACT in self.waits.get(k, {}).values():
                continue
            for queue, those in self.on.items():
                if not queue % 2 and (j := self._last(those, k)) >= 0:
                    self.waits.setdefault(k, {}).setdefault(j, SEEN)
        idle = np.flatnonzero(~self.moves & (self.start > self.free))
        for k in idle.tolist():
            self._behind_idle(k)
        self._first_of_other_queues()
        if self.piece.waits:
            return
        waited = {j for those in self.waits.values() for j in those}
        for k in np.flatnonzero(self.moves).tolist():
            alone = int(self.queue[k]) - 1 not in self.on
            if alone and k not in waited and (later := self._needed_by(k)) >= 0:
                self.waits.setdefault(later, {})[k] = ASSUMED

    def _events(self) -> None:
        """Waits for events, by the numbers of launches before and after them."""
        by_stream: dict[int, tuple[Ints, Ints]] = {}
        streams = self.kernels.stream[self.rows]
        for stream in np.unique(streams).tolist():
            those = np.flatnonzero(streams == stream)
            those = those[np.argsort(self.launch[those], kind="stable")]
            by_stream[stream] = those, self.launch[those]
        for stream, launch, other, record in self.piece.waits:
            if stream in by_stream and other in by_stream:
                later = int(np.searchsorted(by_stream[stream][1], launch, side="right"))
                earlier = int(np.searchsorted(by_stream[other][1], record, side="left")) - 1
                if later < len(by_stream[stream][1]) and earlier >= 0:
                    k, j = int(by_stream[stream][0][later]), int(by_stream[other][0][earlier])
                    if self.end[j] <= self.start[k]:
                        self.waits.setdefault(k, {})[j] = EXACT

    def _turns(self) -> None:
        """Communications on a stream of computations: one waits for the other, in the order of the stream."""
        for queue in [one for one in self.on if one % 2 and one - 1 in self.on]:
            both = np.sort(np.concatenate([self.on[queue], self.on[queue - 1]]))
            for j, k in zip(both[:-1].tolist(), both[1:].tolist(), strict=True):
                if self.moves[j] != self.moves[k]:
                    self.waits.setdefault(k, {})[j] = EXACT

    def _last(self, those: Ints, k: int) -> int:
        """The last of some kernels that was launched before k and ended before it started; -1: none."""
        before = those[: int(np.searchsorted(self.start[those], self.start[k], side="right"))]
        fits = before[(self.launch[before] < self.launch[k]) & (self.end[before] <= self.start[k]) & (before != k)]
        return int(fits[-1]) if len(fits) else -1

    def _behind_idle(self, k: int) -> None:
        """What ended while the stream of k stood idle, if the last of it ended just before k."""
        ended = {}
        for queue, those in self.on.items():
            if queue != self.queue[k] and (queue % 2 or self.queue[k] == self.main or queue == self.main):
                j = self._last(those, k)
                if j >= 0 and self.end[j] > self.free[k]:
                    ended[j] = int(self.end[j])
        if ended and self.start[k] - max(ended.values()) <= SLACK_NS:
            for j in ended:
                self.waits.setdefault(k, {}).setdefault(j, SEEN)

    def _first_of_other_queues(self) -> None:
        """Computations that follow idle time on a side stream start where they did relative to the main one."""
        for queue, those in self.on.items():
            if queue % 2 or queue == self.main:
                continue
            for k in those[self.start[those] > self.free[those]].tolist():
                if k not in self.waits and (j := self._last(self.on[self.main], k)) >= 0:
                    self.waits[k] = {j: SEEN}

    def _needed_by(self, k: int) -> int:
        """The kernel of the main stream that needs the result of a communication; -1: the end of the step.

        An all-gather is needed, at the latest, by what is launched behind the next one of its group (FSDP with
        prefetch); a reduction by the optimizer; a received message or an exchange of tokens by what comes next.
        """
        kind, main = self._word("kind", k), self.on.get(self.main, np.empty(0, np.int64))
        after = self.launch[k]
        if kind == "all_gather":
            same = np.flatnonzero(self.moves & (self.kernels.group[self.rows] == self.kernels.group[self.rows[k]]))
            same = same[(self.kernels.kind[self.rows[same]] == self.kernels.kind[self.rows[k]])]
            following = self.launch[same][self.launch[same] > after]
            if not len(following):
                return -1
            after = following.min()
        elif self._word("group", k).startswith(f"{self.rank} to "):
            return -1
        later = main[(self.launch[main] > after) & (self.start[main] >= self.end[k])]
        if kind in _LATE:
            later = np.array([j for j in later if kind_of_kernel(self._word("name", j)) == OPTIMIZER][:1], np.int64)
        return int(later[0]) if len(later) else -1

    def _word(self, column: str, k: int) -> str:
        return self.kernels.words[int(getattr(self.kernels, column)[self.rows[k]])]

    def _overlap(self, found: TracedStep) -> None:
        """Kernel time of the main stream during communications, and idle time during them that nothing explains."""
        main = self.on.get(self.main, np.empty(0, np.int64))
        begins, ends = union_of(self.start[self.moves], self.end[self.moves])
        found.kernels_ns = int((self.end - self.start)[main].sum())
        found.overlapped_ns = int(covered(begins, ends, self.start[main], self.end[main]).sum())
        idle = main[(self.start[main] > self.free[main]) & np.array([k not in self.waits for k in main.tolist()], bool)]
        found.unexplained_ns = int(covered(begins, ends, self.free[idle], self.start[idle]).sum())

    def _tasks(self, found: TracedStep, until: int) -> None:
        """Joins kernels that run one after another into tasks, cut where something waits or is waited for."""
        waited = {j for those in self.waits.values() for j in those}
        task = [-1] * len(self.start)
        latest: dict[int, int] = {}
        for k in range(len(self.start)):
            queue = int(self.queue[k])
            before = latest.get(queue, -1)
            joins = before >= 0 and not self.moves[k] and k not in self.waits and not self._cut(k, queue, waited)
            busy = self._busy(k)
            if joins:
                found.duration_ns[before] += int(max(self.end[k] - self.free[k], 0))
                products, traffic = found.busy_ns[before]
                found.busy_ns[before] = products + busy[0], traffic + busy[1]
                task[k] = before
                continue
            ready = max([int(self.free[k]), *(int(self.end[j]) for j in self.waits.get(k, ()))])
            task[k] = latest[queue] = len(found.duration_ns)
            found.duration_ns.append(0 if self.moves[k] else int(max(self.end[k] - min(ready, self.start[k]), 0)))
            found.busy_ns.append(busy)
            found.main.append(queue == self.main)
            found.calls.append(self._call(k) if self.moves[k] else None)
            found.assumed += [(task[k], task[j]) for j, how in self.waits.get(k, {}).items() if how == ASSUMED]
            found.waits += [(task[k], one) for one in {before, *(task[j] for j in self.waits.get(k, ()))} - {-1}]
        last = int(self.end.max())
        found.waits += [(len(found.duration_ns), one) for one in latest.values()]
        found.duration_ns.append(max(until - last, 0))
        found.busy_ns.append((0, 0))
        found.main.append(True)
        found.calls.append(None)

    def _busy(self, k: int) -> tuple[int, int]:
        """Time of a kernel that adds to its stream's: of a product, or of another one."""
        kind = kind_of_kernel(self._word("name", k))
        own = 0 if self.moves[k] or kind == COPY else int(max(self.end[k] - max(self.start[k], self.free[k]), 0))
        return (own, 0) if kind in COMPUTE_BOUND else (0, own)

    def _cut(self, k: int, queue: int, waited: set[int]) -> bool:
        those = self.on[queue]
        return int(those[int(np.searchsorted(those, k)) - 1]) in waited

    def _call(self, k: int) -> CommCall:
        size, time = (int(column[self.rows[k]]) for column in (self.kernels.size_bytes, self.kernels.duration_ns))
        return CommCall(self._word("group", k), self._word("kind", k), size, time)


def union_of(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Disjoint intervals that cover the same time, by start; the inputs are sorted by start."""
    if not len(start):
        return start, end
    reach = np.maximum.accumulate(end)
    first = np.concatenate([[True], start[1:] > reach[:-1]])
    return start[first], reach[np.concatenate([first[1:], [True]])]


def covered(begins: Ints, ends: Ints, start: Ints, end: Ints) -> Ints:
    """int64[n], how much of each interval [start, end) disjoint sorted intervals cover."""
    total = np.concatenate([[0], np.cumsum(ends - begins)])

    def until(time: Ints) -> Ints:
        at = np.searchsorted(begins, time, side="right")
        inside = np.minimum(time, np.concatenate([[0], ends])[at]) - np.concatenate([[0], begins])[at]
        return np.where(at > 0, total[np.maximum(at - 1, 0)] + inside, 0)

    return until(end) - until(start)


def spread_of(found: Mapping[int, Mapping[int, TracedStep]], number: int) -> tuple[float, float]:
    """Own time of other steps over that of the chosen one, by rank: the least and the greatest of eight of ten."""
    ratios = [
        one.own_ns / steps[number].own_ns
        for steps in found.values()
        for one in steps.values()
        if steps[number].own_ns > 0
    ]
    low, high = np.percentile(ratios, [10, 90]) if ratios else (1.0, 1.0)
    return float(low), float(high)
