"""Steps of a server that waits for nobody: clients one after the other, over links that all under way share."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.engine.rounds import buffered
from railyard.kit.errors import SimulationError
from railyard.work.federated.participants import cohort, drawn, together
from railyard.work.federated.told import PARTS
from railyard.work.study.shared import Began, Shared, added_s, shared_of
from railyard.work.study.wide import HOUR_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.engine.rounds.buffered import Steps
    from railyard.engine.rounds.waiting import Cohort
    from railyard.work.federated.learning import Learning
    from railyard.work.federated.participants import Drawn
    from railyard.work.federated.told import Told

_AT_ONCE = 0.25
"""Of those there, at most so many are drawn without replacement at a time."""


class _Drawing:
    """Clients in the order in which places take them; each is drawn among those there at the start."""

    def __init__(self, job: Learning) -> None:
        self.job, self.now = job, job.section.start * HOUR_S
        self.batches: list[tuple[Drawn, Cohort]] = []
        self.count = 0
        self.shared: Shared | None = None

    def __call__(self, count: int) -> Cohort:
        while self.count < count:
            self._more(count - self.count)
        rows = self.rows()
        self.shared = shared_of(self.job.clients, rows, self.job.section.server.line)
        part = together([part for _, part in self.batches])
        return replace(part, down=self.shared.down, up=self.shared.up)

    def rows(self) -> Drawn:
        """All that were drawn."""
        return together([rows for rows, _ in self.batches])

    def _more(self, count: int) -> None:
        clients, number = self.job.clients, len(self.batches)
        most = max(int(_AT_ONCE * clients.count * clients.share_there(self.now)), 1)
        who = clients.draw(min(most, count), self.now, number)
        if not len(who):
            raise SimulationError(
                f"not one client is there at {self.now / HOUR_S:g} o'clock UTC, when the first is asked"
            )
        rows = drawn(self.job, clients, who, self.now)
        part = cohort(self.job, clients, rows, number)
        deadline = self.job.section.round.deadline
        if deadline is not None:  # its place goes to another then
            part = replace(part, leave_s=np.minimum(part.leave_s, deadline))
        self.batches.append((rows, part))
        self.count += len(rows)


def run(job: Learning, told: Told) -> None:
    """Runs all steps.

    Raises:
        SimulationError: Nobody is there at the start.
    """
    drawing = _Drawing(job)
    steps = buffered.run(drawing, job.section.round.concurrency or 1, job.scheme.algorithm.buffer, job.section.rounds)
    rows = drawing.rows()
    parts = _parts(steps)
    _time(job, told, steps, parts)
    _count(told, rows, steps)
    _sharing(job, told, drawing, steps, parts)
    told.busy += np.bincount(rows.device[steps.row], parts[2], len(told.busy))
    told.radio += np.bincount(rows.link[steps.row], parts[1] + parts[4], len(told.radio))
    told.down_bytes = job.sent.down_bytes * told.selected
    told.up_bytes = job.sent.up_bytes * len(steps.row)
    told.wasted_bytes = job.sent.down_bytes * steps.wasted
    told.server_s = len(steps.row) * job.sent.server_flop / job.section.server.flops


def _parts(steps: Steps) -> NDArray[np.float64]:
    """float64[5, updates], seconds of each of `PARTS`, sharing in them."""
    part, visits, row = steps.cohort, steps.visits, steps.row
    return np.stack(
        [
            part.delay_s[row],
            visits.got_s[row] - visits.down_s[row] + part.down_lag_s[row],
            part.compute_s[row],
            part.crossing_s[row],
            visits.end_s[row] - visits.up_s[row],
        ]
    )


def _time(job: Learning, told: Told, steps: Steps, parts: NDArray[np.float64]) -> None:
    """When each step came, and what the places did until the last."""
    count, concurrency = len(steps.at_s), job.section.round.concurrency or 1
    began = np.concatenate([[0.0], steps.at_s[:-1]])
    told.at_s, told.took_s = began.tolist(), (steps.at_s - began).tolist()
    told.used, told.ok = [job.scheme.algorithm.buffer] * count, [True] * count
    went = np.searchsorted(steps.at_s, steps.visits.end_s[np.asarray(steps.visits.left, np.int64)])
    told.left = np.bincount(np.minimum(went, count - 1), minlength=count).tolist()
    told.staleness = steps.staleness
    told.there = job.clients.share_there(job.section.start * HOUR_S) * count
    for name, column in zip(PARTS, parts, strict=True):
        told.cause(name, float(column.sum()) / concurrency)
    told.cause("clients that left, and the start", float(steps.at_s[-1]) - float(parts.sum()) / concurrency)


def _count(told: Told, rows: Drawn, steps: Steps) -> None:
    told.selected = len(steps.row) + steps.wasted
    for of, column in (("device", rows.device), ("link", rows.link), ("region", rows.region)):
        told.counts[of] += np.bincount(column[steps.row], minlength=told.counts[of].shape[1])


def _sharing(job: Learning, told: Told, drawing: _Drawing, steps: Steps, parts: NDArray[np.float64]) -> None:
    """What sharing adds to an update, in all and by tier."""
    part, row, visits, count = steps.cohort, steps.row, steps.visits, len(steps.at_s)
    alone = part.down_bits / part.down_bps + part.down_lag_s + part.up_bits / part.up_bps + part.up_lag_s
    told.queue_s = float((parts[1] + parts[4] - alone[row]).mean()) * count
    if job.clients.network.shares and drawing.shared is not None:
        counted = np.zeros(len(part), np.bool_)
        counted[row] = True
        stop_s = np.where(counted, np.inf, visits.end_s)
        told.add_shared(added_s(part, drawing.shared, Began(visits.down_s, visits.up_s, stop_s, counted)), count)
