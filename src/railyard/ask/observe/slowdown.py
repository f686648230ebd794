"""Cost of stragglers, and which they are: S, S_t, S_w, M_W and M_S.

    T            step time of the replay with durations as they were measured
    T_ideal      the same with every duration the mean of its kind of operation (of communications: the median)
    S            T / T_ideal
    S_t, S_dp,   T with all durations ideal except those of one kind of operation, of one data-parallel rank, of one
    S_stage      pipeline stage, / T_ideal
    S_w          of a worker: the smaller of those of its data-parallel rank and its stage
    M_W          share of T - T_ideal that goes when the slowest 3 % of workers (at least one) are made ideal
    M_S          share that goes when the last stage is made ideal

Equations 1 to 5 of "Understanding Stragglers in Large Model Training Using What-if Analysis" (OSDI 2025). Step times
are means over the steps of the trace. What passes between the end of all that an operation waits for and its start (the
host, the data loader) is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.observe import operations as ops
from railyard.ask.observe.operations import Dependencies, OperationGroup, replay
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from railyard.ask.observe.operations import Operations


STAMP_ERROR_S = np.float32(5e-5)
"""What clocks of ranks may differ by where the order of two of their moments is asked for."""

_TOWARD = {"forward-send": 1, "forward-recv": -1, "backward-send": -1, "backward-recv": 1}
"""Distance to the peer of a transfer, in stages."""

_PEER = {
    "forward-send": "forward-recv",
    "forward-recv": "forward-send",
    "backward-send": "backward-recv",
    "backward-recv": "backward-send",
}


def dependencies(found: Operations) -> Dependencies:
    """Dependencies of operations.

    Raises:
        InputError: The operations are not those of a pipeline: a transfer has no peer.
    """
    builder = _Builder(found)
    for stage in range(found.stages):
        builder.computations(stage)
        builder.transfers(stage)
        builder.first_backward(stage)
        builder.parameters(stage)
        builder.after_backward(stage)
    return Dependencies(builder.waits, builder.groups())


class _Builder:
    """Dependencies while they are gathered; moments are those of the first step of data-parallel rank 0."""

    def __init__(self, found: Operations) -> None:
        self.found = found
        self.number = {operation: number for number, operation in enumerate(found.operations)}
        self.start = found.start[:, 0, 0]
        self.end = found.end[:, 0, 0]
        self.waits: list[list[int]] = [[] for _ in found.operations]
        self.carried: dict[int, bool] = {}
        kinds = {operation.kind for operation in found.operations}
        self.parallel = found.data_parallel > 1 or bool(kinds & set(ops.DATA_PARALLEL))
        self.overlapped = ops.SEPARATE in kinds

    def of(self, stage: int, *kinds: str) -> list[int]:
        every = self.found.operations
        mine = [number for number, one in enumerate(every) if one.stage == stage and one.kind in kinds]
        return sorted(mine, key=lambda number: (self.start[number], every[number].number, every[number].kind))

    def chain(self, numbers: Iterable[int]) -> None:
        before = -1
        for number in numbers:
            if before >= 0:
                self.waits[number].append(before)
            before = number

    def computations(self, stage: int) -> None:
        self.chain(self.of(stage, ops.FORWARD, ops.BACKWARD))

    def transfers(self, stage: int) -> None:
        """Orders transfers of each kind, and around the computations that they belong to."""
        for kind in ops.POINT_TO_POINT:
            mine = self.of(stage, kind)
            self.chain(mine)
            computed = self.of(stage, f"{kind.split('-')[0]}-compute")
            launched = [number for number in mine if self._launched(kind, number, computed)]
            skipped = len(computed) - len(launched)
            if launched and (skipped < 0 or skipped > 1):
                raise InputError(
                    f"{len(launched)} operations `{kind}` of stage {stage} do not fit its computations",
                    found=len(launched),
                    allowed=f"{len(computed)}, or one fewer",
                )
            first = skipped if kind in ops.RECEIVES else 0
            for place, number in enumerate(launched):
                self._around(kind, number, stage, place + first)

    def _launched(self, kind: str, number: int, computed: list[int]) -> bool:
        """Whether it lies where data could move: profilers also note transfers that never ran."""
        if not computed:
            return False
        if kind in ops.RECEIVES:
            return bool(self.start[number] <= max(self.start[one] for one in computed) + STAMP_ERROR_S)
        return bool(self.end[number] >= min(self.end[one] for one in computed) - STAMP_ERROR_S)

    def _around(self, kind: str, number: int, stage: int, place: int) -> None:
        """A send after its computation; a receive before its own and after the one before."""
        computation = f"{kind.split('-', maxsplit=1)[0]}-compute"
        own = self.number.get(ops.PipelineOperation(computation, place, stage))
        if own is None:
            raise InputError(f"`{kind}` of stage {stage} has no computation {place}")
        chunk = self.found.model_chunk[own] + _TOWARD[kind]
        chunks = (max(self.found.chunk) + 1) * self.found.stages
        self.carried[number] = 0 <= chunk < chunks
        if kind in ops.SENDS:
            self.waits[number].append(own)
            return
        self.waits[own].append(number)
        before = self.number.get(ops.PipelineOperation(computation, place - 1, stage))
        if before is not None:
            self.waits[number].append(before)

    def first_backward(self, stage: int) -> None:
        """Backward transfers begin no earlier than the last forward pass but one before the first backward pass."""
        order = self.of(stage, ops.FORWARD, ops.BACKWARD)
        kinds = [self.found.operations[number].kind for number in order]
        first = kinds.index(ops.BACKWARD) if ops.BACKWARD in kinds else 0
        if first < 2:
            return
        for kind in ("backward-recv", "backward-send"):
            number = self.number.get(ops.PipelineOperation(kind, 0, stage))
            if number is not None:
                self.waits[number].append(order[first - 2])

    def parameters(self, stage: int) -> None:
        """Data-parallel collectives one after another; a chunk computes when its parameters are there."""
        if not self.parallel:
            return
        self.chain(self.of(stage, ops.GATHER, ops.SCATTER))
        order = self.of(stage, ops.FORWARD, ops.BACKWARD)
        last = {self.found.chunk[number]: number for number in self._counted(stage, ops.GATHER)}
        for chunk, number in last.items():
            passes = [one for one in order if self._is(one, ops.FORWARD, chunk)]
            if passes:
                self.waits[min(passes, key=lambda one: self.start[one])].append(number)
        if self.overlapped:
            self._reductions(stage, order)

    def _reductions(self, stage: int, order: list[int]) -> None:
        first: dict[int, int] = {}
        for number in self._counted(stage, ops.SCATTER):
            first.setdefault(self.found.chunk[number], number)
        for chunk, number in first.items():
            passes = [one for one in order if self._is(one, ops.BACKWARD, chunk)]
            if passes:
                self.waits[number].append(max(passes, key=lambda one: self.end[one]))

    def _is(self, number: int, kind: str, chunk: int) -> bool:
        return self.found.operations[number].kind == kind and self.found.chunk[number] == chunk

    def _counted(self, stage: int, kind: str) -> list[int]:
        found = [n for n, one in enumerate(self.found.operations) if (one.stage, one.kind) == (stage, kind)]
        return sorted(found, key=lambda number: self.found.operations[number].number)

    def after_backward(self, stage: int) -> None:
        order = self.of(stage, ops.FORWARD, ops.BACKWARD)
        if not order:
            raise InputError(f"stage {stage} computes nothing")
        collector = self._counted(stage, ops.COLLECTOR)[:1]
        last = max(order, key=lambda number: self.end[number])
        for number in collector:
            self.waits[number].append(last)
        before = collector or [last]
        scatters = self._counted(stage, ops.SCATTER)
        edge = stage in (0, self.found.stages - 1)
        tail = self._counted(stage, ops.NORM)[:1] + (self._counted(stage, ops.EMBEDDING)[:1] if edge else [])
        if self.overlapped:
            before = [*scatters[-1:], *before]
            tail += self._counted(stage, ops.SEPARATE)[:1]
        elif self.parallel:
            tail += scatters
        tail += self._counted(stage, ops.CLIP)[:1] + self._counted(stage, ops.OPTIMIZER)[:1]
        if tail:
            self.waits[tail[0]].extend(before)
        self.chain(tail)

    def groups(self) -> list[OperationGroup]:
        """Operations that wait for each other: transfers, data-parallel collectives, both embeddings, all that clip."""
        every = self.found.operations
        groups = self._pairs()
        if self.parallel:
            groups += [OperationGroup((n,), True, True) for n, one in enumerate(every) if one.kind in ops.DATA_PARALLEL]
        edges = {0, self.found.stages - 1}
        embedding = tuple(n for n, one in enumerate(every) if one.kind == ops.EMBEDDING and one.stage in edges)
        clip = tuple(n for n, one in enumerate(every) if one.kind == ops.CLIP)
        groups += [OperationGroup(embedding, True, False)] if embedding else []
        groups += [OperationGroup(clip, True, True)] if clip else []
        known = {member for group in groups for member in group.members}
        return groups + [OperationGroup((n,), False, False) for n in range(len(every)) if n not in known]

    def _pairs(self) -> list[OperationGroup]:
        place = {
            number: (kind, stage, index)
            for kind in ops.POINT_TO_POINT
            for stage in range(self.found.stages)
            for index, number in enumerate(n for n in self.of(stage, kind) if self.carried.get(n, False))
        }
        number_at = {where: number for number, where in place.items()}
        groups = []
        for number, (kind, stage, index) in place.items():
            peer = number_at.get((_PEER[kind], (stage + _TOWARD[kind]) % self.found.stages, index))
            if peer is None:
                raise InputError(f"`{kind}` {index} of stage {stage} has no peer in the trace")
            if number < peer:
                groups.append(OperationGroup((number, peer), True, False))
        alone = [n for n, one in enumerate(self.found.operations) if one.kind in ops.POINT_TO_POINT and n not in place]
        return groups + [OperationGroup((number,), True, False) for number in alone]


SLOWEST_SHARE_PERCENT = 3
"""Workers that M_W makes ideal, of all, rounded up."""

CLOCK_OFFSET_S = np.float32(1e-2)
"""A transfer that ends so much before its group has started had wrong clocks: it counts as 0 s."""

_TOGETHER = {
    "forward-send": "forward-pp-comm",
    "forward-recv": "forward-pp-comm",
    "backward-send": "backward-pp-comm",
    "backward-recv": "backward-pp-comm",
}
"""Kinds that S_t counts as one."""


@dataclass(frozen=True)
class Slowdown:
    """Cost of stragglers.

    Attributes:
        workers: M_W; nan where T is T_ideal.
        last_stage: M_S; nan where T is T_ideal.
    """

    step_s: float
    replayed_s: float
    ideal_s: float
    by_kind: dict[str, float]
    by_data_parallel: tuple[float, ...]
    by_stage: tuple[float, ...]
    by_worker: dict[int, float]
    workers: float
    last_stage: float

    @property
    def slowdown(self) -> float:
        """S."""
        return self.replayed_s / self.ideal_s


def slowdown(found: Operations) -> Slowdown:
    """Cost of the stragglers of a trace.

    Raises:
        InputError: The operations do not fit together.
    """
    return _Study(found).slowdown()


class _Study:
    def __init__(self, found: Operations) -> None:
        waiting = dependencies(found)
        self.found = found
        self.order, self.waits = waiting.ordered(), waiting.waits
        self.kind = np.array([one.kind for one in found.operations])
        self.stage = np.array([one.stage for one in found.operations])
        self.moves = np.zeros(len(found.operations), np.bool_)
        self.moves[[member for group in waiting.groups if group.moves for member in group.members]] = True
        self.measured = measured(found, waiting).astype(np.float64)
        self.ideal = self._ideal()

    def _ideal(self) -> NDArray[np.float64]:
        typical = np.empty_like(self.measured)
        for kind in np.unique(self.kind):
            mine = self.kind == kind
            values = self.measured[mine]
            value = np.median(values) if kind in ops.COMMUNICATION else values.mean()
            # times of transfers are differences in single precision, and so is the published typical one
            typical[mine] = np.float32(value) if self.moves[mine].all() else value
        return typical

    def _step_s(self, duration: NDArray[np.float64]) -> float:
        return float(replay(self.order, self.waits, duration).step_s.mean())

    def _with_measured(self, chosen: NDArray[np.bool_]) -> float:
        return self._step_s(np.where(chosen, self.measured, self.ideal))

    def slowdown(self) -> Slowdown:
        replayed, ideal = self._step_s(self.measured), self._step_s(self.ideal)
        shape = self.measured.shape
        merged = np.array([_TOGETHER.get(kind, kind) for kind in self.kind])
        kinds = {str(kind): np.broadcast_to((merged == kind)[:, None, None], shape) for kind in np.unique(merged)}
        members = np.arange(shape[2])
        by_member = [
            self._with_measured(np.broadcast_to(members == member, shape)) / ideal for member in range(shape[2])
        ]
        stages = [np.broadcast_to((self.stage == stage)[:, None, None], shape) for stage in range(self.found.stages)]
        by_stage = [self._with_measured(chosen) / ideal for chosen in stages]
        worker = np.minimum(np.array(by_stage)[:, None], np.array(by_member)[None, :])
        return Slowdown(
            step_s=float(
                (self.found.end.max(axis=(0, 2)) - self.found.start.min(axis=(0, 2))).astype(np.float64).mean()
            ),
            replayed_s=replayed,
            ideal_s=ideal,
            by_kind={kind: self._with_measured(chosen) / ideal for kind, chosen in kinds.items()},
            by_data_parallel=tuple(by_member),
            by_stage=tuple(by_stage),
            by_worker=dict(sorted(zip(self.found.rank.ravel().tolist(), worker.ravel().tolist(), strict=True))),
            workers=self._explained(self._slowest(worker), replayed, ideal),
            last_stage=self._explained(stages[-1], replayed, ideal),
        )

    def _slowest(self, worker: NDArray[np.float64]) -> NDArray[np.bool_]:
        """bool[operations, steps, data-parallel ranks], operations of the slowest workers."""
        count = -(-worker.size * SLOWEST_SHARE_PERCENT // 100)
        order = np.lexsort((self.found.rank.ravel(), -worker.ravel()))[:count]
        chosen = np.zeros(worker.size, np.bool_)
        chosen[order] = True
        mine = chosen.reshape(worker.shape)[self.stage]
        return np.broadcast_to(mine[:, None, :], self.measured.shape)

    def _explained(self, chosen: NDArray[np.bool_], replayed: float, ideal: float) -> float:
        without = self._step_s(np.where(chosen, self.ideal, self.measured))
        return (replayed - without) / (replayed - ideal) if replayed != ideal else float("nan")


def measured(found: Operations, waiting: Dependencies) -> NDArray[np.float32]:
    """Durations for the replay: of a communication what passes from the start of its group's last member to its end."""
    duration = found.duration.copy()
    for group in waiting.groups:
        if not group.moves:
            continue
        members = list(group.members)
        begins = found.start[members].max(axis=0)
        if group.across:
            begins = begins.max(axis=1, keepdims=True)
        transfer = found.end[members] - begins
        duration[members] = np.where(transfer <= -CLOCK_OFFSET_S, np.float32(0), transfer)
    return duration
