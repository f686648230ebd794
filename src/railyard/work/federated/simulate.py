"""Simulates rounds: available clients, selection, and the engine's results."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.edge.transport import transfer_s, transports
from railyard.engine import rounds
from railyard.kit.errors import SimulationError
from railyard.work.federated.algorithm import Candidates
from railyard.work.federated.known import Known, cohort, drawn, expected_s, together
from railyard.work.federated.messages import PARTS, RoundLog
from railyard.work.federated.updates import STREAM_FLOP_PER_BYTE
from railyard.work.study.distributed import HOUR_S, Began, Shared, added_s, shared_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.cluster.edge.clients import Clients
    from railyard.engine.rounds import ClosedRound, Cohort, ServerSteps
    from railyard.work.federated.known import Drawn
    from railyard.work.federated.messages import Learning
    from railyard.work.study.tasks import Control


_AT_ONCE = 0.25
"""Maximum share of the available clients to draw without replacement at a time."""


class _Drawing:
    """Clients in the order in which places take them; each is drawn from those available at the start."""

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
        """All drawn clients."""
        return together([rows for rows, _ in self.batches])

    def _more(self, count: int) -> None:
        clients, number = self.job.clients, len(self.batches)
        most = max(int(_AT_ONCE * clients.count * clients.share_there(self.now)), 1)
        who = clients.draw(min(most, count), self.now, number)
        if not len(who):
            raise SimulationError(f"no client is present at {self.now / HOUR_S:g} o'clock UTC, when the first is asked")
        rows = drawn(self.job, clients, who, self.now)
        part = cohort(self.job, clients, rows, number)
        deadline = self.job.section.round.deadline
        if deadline is not None:  # its place goes to another then
            part = replace(part, leave_s=np.minimum(part.leave_s, deadline))
        self.batches.append((rows, part))
        self.count += len(rows)


def run(job: Learning, log: RoundLog) -> None:
    """Runs all steps.

    Raises:
        SimulationError: No client is available at the start.
    """
    drawing = _Drawing(job)
    steps = rounds.run(drawing, job.section.round.concurrency or 1, job.scheme.algorithm.buffer, job.section.rounds)
    rows = drawing.rows()
    parts = _parts(steps)
    _time(job, log, steps, parts)
    _waitless_count(log, rows, steps)
    _sharing(job, log, drawing, steps, parts)
    log.busy += np.bincount(rows.device[steps.row], parts[2], len(log.busy))
    log.radio += np.bincount(rows.link[steps.row], parts[1] + parts[4], len(log.radio))
    log.down_bytes = job.sent.down_bytes * log.selected
    log.up_bytes = job.sent.up_bytes * len(steps.row)
    log.wasted_bytes = job.sent.down_bytes * steps.wasted
    log.server_s = len(steps.row) * job.sent.server_flop / job.section.server.flops


def _parts(steps: ServerSteps) -> NDArray[np.float64]:
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


def _time(job: Learning, log: RoundLog, steps: ServerSteps, parts: NDArray[np.float64]) -> None:
    """Time of each step, and the activity of the places until the last."""
    count, concurrency = len(steps.at_s), job.section.round.concurrency or 1
    began = np.concatenate([[0.0], steps.at_s[:-1]])
    log.at_s, log.took_s = began.tolist(), (steps.at_s - began).tolist()
    log.used, log.ok = [job.scheme.algorithm.buffer] * count, [True] * count
    went = np.searchsorted(steps.at_s, steps.visits.end_s[np.asarray(steps.visits.left, np.int64)])
    log.left = np.bincount(np.minimum(went, count - 1), minlength=count).tolist()
    log.staleness = steps.staleness
    log.there = job.clients.share_there(job.section.start * HOUR_S) * count
    for name, column in zip(PARTS, parts, strict=True):
        log.cause(name, float(column.sum()) / concurrency)
    log.cause("clients that left, and the start", float(steps.at_s[-1]) - float(parts.sum()) / concurrency)


def _waitless_count(log: RoundLog, rows: Drawn, steps: ServerSteps) -> None:
    log.selected = len(steps.row) + steps.wasted
    for of, column in (("device", rows.device), ("link", rows.link), ("region", rows.region)):
        log.counts[of] += np.bincount(column[steps.row], minlength=log.counts[of].shape[1])


def _sharing(job: Learning, log: RoundLog, drawing: _Drawing, steps: ServerSteps, parts: NDArray[np.float64]) -> None:
    """Extra time from sharing per update, in total and by tier."""
    part, row, visits, count = steps.cohort, steps.row, steps.visits, len(steps.at_s)
    alone = part.down_bits / part.down_bps + part.down_lag_s + part.up_bits / part.up_bps + part.up_lag_s
    log.queue_s = float((parts[1] + parts[4] - alone[row]).mean()) * count
    if job.clients.network.shares and drawing.shared is not None:
        counted = np.zeros(len(part), np.bool_)
        counted[row] = True
        stop_s = np.where(counted, np.inf, visits.end_s)
        log.add_shared(added_s(part, drawing.shared, Began(visits.down_s, visits.up_s, stop_s, counted)), count)


_LOOK_S = 300.0
"""Interval of checks whether enough clients are available."""
_MOST_WAIT_S = 14 * 24 * HOUR_S


def simulate(job: Learning, control: Control) -> RoundLog:
    """The figures of all rounds.

    Raises:
        SimulationError: Too few clients are available for two weeks.
    """
    log, clients = RoundLog(), job.clients
    log.busy, log.radio = np.zeros(len(clients.devices)), np.zeros(len(clients.links))
    log.counts = {
        of: np.zeros((2, size), np.int64)
        for of, size in (
            ("device", len(clients.devices)),
            ("link", len(clients.links)),
            ("region", len(clients.regions)),
        )
    }
    if job.scheme.algorithm.buffer:
        run(job, log)
    else:
        _waited(job, log, control)
    return log


def _waited(job: Learning, log: RoundLog, control: Control) -> None:
    now = job.section.start * HOUR_S
    edges = bool(job.scheme.algorithm.edge_rounds)
    servers = _edges(job) if edges else [RoundServer(job.clients, job.goal, Known(job, job.clients))]
    for number in range(job.section.rounds):
        begun = now
        now = _over_edges(job, servers, log, now, number) if edges else _one(job, servers[0], log, now, number)
        log.at_s.append(begun - job.section.start * HOUR_S)
        log.took_s.append(now - begun)
        now += job.section.round.pause
        if number % 16 == 0:
            control.progress(f"round {number + 1}", number / job.section.rounds)


@dataclass(frozen=True, eq=False)
class RoundServer:
    """A server with the clients whose updates it sums.

    Attributes:
        goal: Updates that it waits for.
        known: Its clients, cached over rounds.
        region: Index of their first region.
    """

    clients: Clients
    goal: int
    known: Known
    region: int = 0


def _one(job: Learning, server: RoundServer, log: RoundLog, now: float, number: int) -> float:
    """A round with a synchronous server; returns its end."""
    clients, goal = server.clients, server.goal
    rows, began = _gathered(job, server, log, now, number)
    section = job.section
    shared = shared_of(clients, rows, section.server.line)
    part = server.known.cohort(rows, number, (shared.down, shared.up))
    rule = rounds.RoundEnd(
        goal=goal,
        least=max(math.ceil(goal * section.round.least - 1e-9), 1),
        deadline_s=math.inf if section.round.deadline is None else section.round.deadline,
        stay_share=1.0 if job.scheme.secrecy is None else job.scheme.secrecy.threshold_share,
    )
    closed = rounds.close(part, rule)
    server_s = _server_s(job, closed, len(rows))
    _count(log, rows, closed, server.region)
    _spent(log, rows, part, closed)
    _bytes(job, log, rows, closed)
    _causes(log, closed)
    if clients.network.shares:
        parts = closed.parts_s
        sent = Began(parts[0], parts[:4].sum(axis=0), part.leave_s, np.all(np.isfinite(parts), axis=0))
        log.add_shared(added_s(part, shared, sent))
    log.cause("server", server_s)
    log.server_s += server_s + int(closed.used.sum()) * job.sent.server_flop / section.server.flops
    log.there += clients.share_there(began) / max(job.scheme.algorithm.edge_rounds * len(job.clients.regions), 1)
    return began + closed.took_s + server_s


def _gathered(job: Learning, server: RoundServer, log: RoundLog, now: float, number: int) -> tuple[Drawn, float]:
    """Participants of a round, and the time at which enough of them were available."""
    clients, goal = server.clients, server.goal
    wanted = math.ceil(goal * (1.0 + job.section.round.over_selection) - 1e-9)
    least = max(math.ceil(goal * job.section.round.least - 1e-9), 1)
    pool = math.ceil(wanted * job.selection.candidates)
    waited = 0.0
    while True:
        who = clients.draw(pool, now + waited, number)
        if len(who) >= least:
            break
        waited += _LOOK_S
        if waited > _MOST_WAIT_S:
            raise SimulationError(f"a round needs {least:,} clients, and fewer were there for two weeks")
    log.cause("waiting for clients to be there", waited)
    rows = server.known.drawn(who, now + waited)
    deadline = job.section.round.deadline
    candidates = Candidates(
        expected_s(job, rows) if job.selection.by_time else np.zeros(len(rows)),
        rows.samples,
        rows.device,
        wanted,
        math.inf if deadline is None else deadline,
    )
    chosen = job.selection.choose(candidates)
    return (rows if len(chosen) == len(rows) and not job.selection.by_time else rows.take(chosen)), now + waited


def _server_s(job: Learning, closed: ClosedRound, participants: int) -> float:
    """Server time after the last update: masks of clients that left, and noise; sums are computed before."""
    gone = participants - int(closed.used.sum()) if job.scheme.secrecy is not None else 0
    work = gone * job.sent.unmask_bytes * STREAM_FLOP_PER_BYTE + job.sent.server_flop_a_round
    return work / job.section.server.flops


def _count(log: RoundLog, rows: Drawn, closed: ClosedRound, region: int) -> None:
    """Counts the selected and the received clients of one closed round."""
    used = closed.used
    log.used.append(int(used.sum()))
    log.left.append(int(closed.gone.sum()))
    log.ok.append(closed.ok)
    log.selected += len(rows)
    log.late += int((~used & ~closed.gone).sum())
    log.queue_s += closed.queue_s
    for of, column in (("device", rows.device), ("link", rows.link), ("region", rows.region + region)):
        log.counts[of][0] += np.bincount(column, minlength=log.counts[of].shape[1])
        log.counts[of][1] += np.bincount(column[used], minlength=log.counts[of].shape[1])


def _spent(log: RoundLog, rows: Drawn, part: Cohort, closed: ClosedRound) -> None:
    """Seconds of computation and of the radio; clients that leave or are late stop where they are."""
    stop = np.minimum(np.where(closed.gone, part.leave_s, np.inf), closed.took_s)
    begin = np.where(np.isfinite(closed.parts_s[0]), closed.parts_s[0], closed.took_s)
    got = np.where(np.isfinite(closed.parts_s[1]), begin + closed.parts_s[1], stop)
    worked = got + part.compute_s
    log.busy += np.bincount(rows.device, np.clip(stop - got, 0.0, part.compute_s), len(log.busy))
    sent = np.nan_to_num(closed.parts_s[4], posinf=0.0) + part.crossing_s
    radio = np.clip(stop - begin, 0.0, got - begin) + np.clip(stop - worked, 0.0, sent)
    log.radio += np.bincount(rows.link, radio, len(log.radio))


def _bytes(job: Learning, log: RoundLog, rows: Drawn, closed: ClosedRound) -> None:
    """Bytes of a round: downloads of all that started, uploads of those that did not leave."""
    stages = (*job.sent.before, *job.sent.after)
    crossing = rows.samples * job.section.round.epochs * job.sent.crossing_bytes
    down = np.isfinite(closed.parts_s[0]) * job.sent.down_bytes + sum(stage.down_bytes for stage in stages) + crossing
    sent = np.isfinite(closed.parts_s[4]) & ~closed.gone
    up = np.where(sent, job.sent.up_bytes, 0.0) + sum(stage.up_bytes for stage in stages) + crossing
    log.down_bytes += float(down.sum())
    log.up_bytes += float(up.sum())
    wasted = ~closed.used if closed.ok else np.ones(len(rows), np.bool_)
    log.wasted_bytes += float((down + up)[wasted].sum())


def _causes(log: RoundLog, closed: ClosedRound) -> None:
    """Splits the duration of a round: mean of the received updates, excess of the last one, and the time after it."""
    used = np.flatnonzero(closed.used)
    if not len(used):
        log.cause("waiting for updates that never came", closed.took_s)
        return
    last = closed.critical
    if last < 0:
        last = int(used[np.argmax(closed.parts_s.sum(axis=0)[used])])
    means = [float(part[used].mean()) for part in closed.parts_s]
    for number, name in enumerate(PARTS):
        log.cause(name, means[number])
        log.cause(f"stragglers: {name}", float(closed.parts_s[number, last] - means[number]))
    rest = closed.took_s - float(closed.parts_s[:, last].sum())
    staged = min(max(closed.stages_s - float(closed.parts_s[0].min()), 0.0), max(rest, 0.0))
    log.cause(PARTS[0], staged)
    log.cause("waiting until the deadline" if closed.by_deadline else "waiting for clients that left", rest - staged)


def _edges(job: Learning) -> list[RoundServer]:
    """An edge server in every region, with its share of the clients."""
    total, found = sum(region.share for region in job.clients.regions), []
    for index, region in enumerate(job.clients.regions):
        share = region.share / total
        here = replace(
            job.clients,
            count=max(round(job.clients.count * share), 1),
            regions=(replace(region, far_s=0.0, loss=0.0),),
            network=replace(job.clients.network, backbones=()),
            seed=job.clients.seed + 7919 * (index + 1),
        )
        found.append(RoundServer(here, max(round(job.goal * share), 1), Known(job, here), index))
    return found


def _over_edges(job: Learning, servers: Sequence[RoundServer], log: RoundLog, now: float, number: int) -> float:
    """A synchronization of edge servers in the cloud after the rounds at each edge; returns its end."""
    algorithm = job.scheme.algorithm
    ends, books = [], []
    for index, server in enumerate(servers):
        book = RoundLog(busy=log.busy, radio=log.radio, counts=log.counts)
        at = now
        for edge_round in range(algorithm.edge_rounds):
            at = _one(job, server, book, at, number * algorithm.edge_rounds + edge_round)
        to_cloud = _to_cloud_s(job, index)
        book.cause("edge to cloud and back", to_cloud)
        ends.append(at + to_cloud)
        books.append(book)
    slowest = int(np.argmax(ends))
    for name, seconds in books[slowest].causes.items():
        log.cause(name, seconds)
    log.used.append(sum(sum(book.used) for book in books))
    log.left.append(sum(sum(book.left) for book in books))
    log.ok.append(all(all(book.ok) for book in books))
    closed = len(books) * algorithm.edge_rounds
    log.queue_s += sum(book.queue_s for book in books) / closed
    for tier in dict.fromkeys(tier for book in books for tier in book.shared):
        seconds = sum(book.shared.get(tier, 0.0) for book in books) / closed
        log.shared[tier] = log.shared.get(tier, 0.0) + seconds
    for name in ("selected", "late", "server_s", "there", "down_bytes", "up_bytes", "wasted_bytes"):
        setattr(log, name, getattr(log, name) + sum(getattr(book, name) for book in books))
    return ends[slowest]


def _to_cloud_s(job: Learning, index: int) -> float:
    """A region's model to the cloud and back, over the edge server's line and the region's backbone."""
    region, backbones = job.clients.regions[index], job.clients.network.backbones
    backbone = backbones[index] if backbones else None
    line = float(job.scheme.algorithm.backbone_bps)  # type: ignore[attr-defined]
    size = job.model.parameters * job.model.bits / 8.0
    rates = (line, line) if backbone is None else (min(line, backbone.up_bps), min(line, backbone.down_bps))
    far = (region.far_s + 1e-3, region.loss)
    return sum(float(transfer_s(transports.get("bbr"), size, rate, *far, warm=True)) for rate in rates)
