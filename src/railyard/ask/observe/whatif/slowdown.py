"""How much stragglers cost, and which: S, S_t, S_w, M_W and M_S.

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

from railyard.ask.observe.whatif import operations as ops
from railyard.ask.observe.whatif.dependencies import dependencies
from railyard.ask.observe.whatif.operations import replay

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.ask.observe.whatif.operations import Dependencies, Operations

SLOWEST_SHARE_PERCENT = 3
"""Workers that M_W makes ideal, of all, rounded up."""

CLOCK_S = np.float32(1e-2)
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
    """What stragglers cost.

    Attributes:
        step_s: Mean measured step, s.
        replayed_s: Mean of the replay with measured durations, s.
        ideal_s: Mean of the replay with typical durations, s.
        by_kind: S_t by kind of operation.
        by_data_parallel: S of each data-parallel rank.
        by_stage: S of each stage.
        by_worker: S_w by rank.
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
    """What stragglers of a trace cost.

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
        """Typical durations: of every kind of operation one."""
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
        duration[members] = np.where(transfer <= -CLOCK_S, np.float32(0), transfer)
    return duration
