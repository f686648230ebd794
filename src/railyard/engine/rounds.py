"""Rounds of learning over links, in seconds: exact order statistics of the clients that were drawn."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import railyard._core as _core
from railyard.kit.errors import SimulationError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Links = NDArray[np.int32]
    from collections.abc import Callable


@dataclass(frozen=True, eq=False)
class ClientTree:
    """Links that several clients share on their way to the server, parents first; the last on every way has none.

    Attributes:
        capacity_bps: float64[links], ONE WAY, more than zero; inf: never short.
        parent: int32[links], the next link on the way, before its children; -1: there is none.
        first: int32[clients], the first shared link on each client's way; -1: there is none.
    """

    capacity_bps: Floats
    parent: Links
    first: Links

    @staticmethod
    def line(bps: float, clients: int) -> ClientTree:
        """One line, shared by all."""
        none = np.full(1, -1, np.int32)
        return ClientTree(np.array([bps]), none, np.zeros(clients, np.int32))


def finish_s(
    start_s: Floats, size_bits: Floats, own_bps: Floats, tree: ClientTree, stop_s: Floats | None = None
) -> Floats:
    """End of each transfer; inf where it is given up before.

    Between two starts or ends rates are constant: the least of a transfer's limit and the levels of the links on its
    way. Where all limits together fit every link, nobody is slowed and the answer is immediate.

    Args:
        start_s: float64[transfers]; inf for one that never starts.
        size_bits: float64[transfers].
        own_bps: float64[transfers], limit of each, more than zero.
        tree: Shared links.
        stop_s: float64[transfers], when each is given up; inf, or None for all: never.
    """
    stop_s = np.full(len(start_s), np.inf) if stop_s is None else stop_s
    start, stop, bits, own = (
        np.ascontiguousarray(column, np.float64) for column in (start_s, stop_s, size_bits, own_bps)
    )
    out = np.empty(len(start))
    _core.rounds_shared_ends(start, stop, bits, own, tree.first, tree.capacity_bps, tree.parent, out)
    return out


@dataclass(frozen=True, eq=False)
class Cohort:
    """Participants of a round, all selected at time 0; float64[participants] each.

    Attributes:
        delay_s: Until a participant hears that it is selected.
        down_lag_s: What a download takes in addition to its bits: setup, slow start, propagation.
        crossing_s: Activations and gradients over a cut during that work; 0 without.
        up_lag_s: The same for an upload.
        before_s: float64[stages, participants], each stage before the download.
        after_s: float64[stages, participants], each stage behind the upload.
        leave_s: When each goes, seconds from its selection; inf: never.
        down: Links that downloads share, the server's line among them; None: none is ever short.
        up: Links that uploads share.
    """

    delay_s: Floats
    down_bits: Floats
    down_bps: Floats
    down_lag_s: Floats
    compute_s: Floats
    crossing_s: Floats
    up_bits: Floats
    up_bps: Floats
    up_lag_s: Floats
    before_s: Floats
    after_s: Floats
    leave_s: Floats
    down: ClientTree | None = None
    up: ClientTree | None = None

    def __len__(self) -> int:
        return len(self.compute_s)


@dataclass(frozen=True)
class RoundEnd:
    """End of a round.

    Attributes:
        goal: Updates that are waited for.
        least: Updates without which a round is discarded.
        deadline_s: After which nobody is waited for; inf: never.
        stay_share: Share of the updates' clients that the stages behind the upload need.
    """

    goal: int
    least: int
    deadline_s: float = math.inf
    stay_share: float = 1.0


@dataclass(frozen=True, eq=False)
class ClosedRound:
    """A round that ended.

    Attributes:
        took_s: From the selection to the last message.
        ok: Whether the server could step.
        by_deadline: Whether the deadline ended it.
        used: bool[participants], whose update counts.
        gone: bool[participants], who left before its update was there.
        critical: Participant whose update ended the round; -1 where the deadline or a dropout did.
        parts_s: float64[5, participants]: selection and stages, download, computation, crossing, upload.
        queue_s: Mean seconds that sharing links added to an update.
    """

    took_s: float
    ok: bool
    by_deadline: bool
    used: NDArray[np.bool_]
    gone: NDArray[np.bool_]
    critical: int
    parts_s: Floats
    stages_s: float
    queue_s: float


def close(cohort: Cohort, rule: RoundEnd) -> ClosedRound:
    """Runs a round to its end."""
    staged, stages_s = _barriers(cohort.before_s, cohort.leave_s, len(cohort), 0.0)
    with np.errstate(invalid="ignore"):
        begin = np.where(staged, stages_s, np.inf) + cohort.delay_s
        got = _finish_s(cohort, begin, cohort.down_bits, cohort.down_bps, cohort.down) + cohort.down_lag_s
        ready = got + cohort.compute_s + cohort.crossing_s
        sent = _finish_s(cohort, ready, cohort.up_bits, cohort.up_bps, cohort.up) + cohort.up_lag_s
        parts = np.stack([begin, got - begin, cohort.compute_s, cohort.crossing_s, sent - ready])
    gone = cohort.leave_s < np.where(staged, sent, stages_s)
    finish = np.where(gone, np.inf, sent)
    end_s, by_deadline, used = _end(finish, cohort.leave_s, rule)
    ok, after_s = _unmasked(cohort, used, end_s, rule)
    return ClosedRound(
        took_s=end_s + after_s,
        ok=ok,
        by_deadline=by_deadline,
        used=used,
        gone=gone,
        critical=_critical(finish, used, end_s),
        parts_s=parts,
        stages_s=stages_s + after_s,
        queue_s=_queued(cohort, parts),
    )


def _finish_s(cohort: Cohort, start_s: Floats, bits: Floats, bps: Floats, tree: ClientTree | None) -> Floats:
    """Ends of transfers; those that leave early take nothing from the others any more."""
    if tree is None:
        return start_s + bits / bps
    return finish_s(start_s, bits, bps, tree, cohort.leave_s)


def _unmasked(cohort: Cohort, used: NDArray[np.bool_], end_s: float, rule: RoundEnd) -> tuple[bool, float]:
    """Whether enough came and stayed through the stages behind the upload, and how long these take."""
    came = int(used.sum())
    if came < rule.least or came == 0:
        return False, 0.0
    if not len(cohort.after_s):
        return True, 0.0
    needed = max(math.ceil(rule.stay_share * came), 1)
    there, after_s = _barriers(cohort.after_s[:, used], cohort.leave_s[used], needed, end_s)
    return int(there.sum()) >= needed, after_s


def _barriers(stages_s: Floats, leave_s: Floats, needed: int, from_s: float) -> tuple[NDArray[np.bool_], float]:
    """Clients that pass all stages, of which each waits for `needed` clients, and the time of the stages.

    Where fewer are left, the server waits for all of them; who is slower than those waited for is out.
    """
    there = leave_s > from_s
    total = 0.0
    for stage in stages_s:
        done = from_s + total + stage
        alive = there & (leave_s >= done)
        if not alive.any():
            return alive, total
        ends = np.sort(done[alive])
        end = float(ends[min(needed, len(ends)) - 1])
        there = alive & (done <= end)
        total = end - from_s
    return there, total


def _end(finish: Floats, leave_s: Floats, rule: RoundEnd) -> tuple[float, bool, NDArray[np.bool_]]:
    """The end of the wait for updates, whether the deadline set it, and the clients whose update counts."""
    known = np.sort(finish[np.isfinite(finish)])
    if len(known) >= rule.goal:
        end = float(known[rule.goal - 1])
    else:  # the server waits until each has come or gone
        gone = leave_s[~np.isfinite(finish) & np.isfinite(leave_s)]
        end = float(max(known.max(initial=0.0), gone.max(initial=0.0)))
        if len(known) + len(gone) < len(finish) and np.isfinite(rule.deadline_s):
            end = rule.deadline_s
    by_deadline = end > rule.deadline_s
    end = min(end, rule.deadline_s)
    used = finish <= end
    if int(used.sum()) > rule.goal:  # ties: the first ones
        used &= np.cumsum(used) <= rule.goal
    return end, by_deadline, used


def _critical(finish: Floats, used: NDArray[np.bool_], end_s: float) -> int:
    """The client whose update ended the round; -1 if none did."""
    if not used.any() or float(finish[used].max()) < end_s:
        return -1
    return int(np.flatnonzero(used)[np.argmax(finish[used])])


def _queued(cohort: Cohort, parts: Floats) -> float:
    """Mean seconds that sharing links added to an update that was sent."""
    sent = np.isfinite(parts).all(axis=0)
    if not sent.any():
        return 0.0
    alone = cohort.down_bits / cohort.down_bps + cohort.down_lag_s + cohort.up_bits / cohort.up_bps + cohort.up_lag_s
    return float((parts[1] + parts[4] - alone)[sent].mean())


_MOST_IN_VAIN = 1000
"""Clients that begin for one that comes back, beyond which nobody is waited for."""
_SPARE = 1.1
"""Clients drawn beyond those that are expected to come and to be at work at the end."""


@dataclass(frozen=True, eq=False)
class ServerSteps:
    """Steps of the server.

    Attributes:
        at_s: float64[steps], when each came.
        row: int64[steps * buffer], the updates in the order in which they came, as rows of what was drawn.
        staleness: float64[steps * buffer], steps that the server took while the update was made.
        wasted: Updates that were begun and given up before the last step.
        visits: When each row began, got, sent and ended.
    """

    at_s: Floats
    row: NDArray[np.int64]
    staleness: Floats
    wasted: int
    visits: _core.Visits
    cohort: Cohort


def run(draw: Callable[[int], Cohort], concurrency: int, buffer: int, steps: int) -> ServerSteps:
    """Runs to a number of steps.

    Each of `concurrency` places takes one client after another, as each comes back or leaves. Transfers share the
    cohort's links with whatever is under way at that time, the server's line among them.

    Args:
        draw: Given how many, so many clients in the order in which places take them; the first of more are the same.
        concurrency: Clients at work at any time.
        buffer: Updates of a step.
        steps: Of the server.

    Raises:
        SimulationError: Next to nobody comes back.
    """
    wanted = steps * buffer
    count = math.ceil(_SPARE * (wanted + concurrency))
    while True:
        cohort = draw(count)
        visits = _visits(cohort, concurrency, wanted)
        if len(visits.came) == wanted:
            break
        if count > _MOST_IN_VAIN * (len(visits.came) + concurrency):
            found = f"of {count:,} clients that began {len(visits.came):,} came back"
            raise SimulationError(f"{found}: they leave, or a deadline ends, too early")
        count = math.ceil(_SPARE * count * wanted / max(len(visits.came), wanted / 4))
    rows = np.asarray(visits.came, np.int64)
    at_s = visits.end_s[rows][buffer - 1 :: buffer]
    version = np.searchsorted(at_s, visits.begun_s[rows], side="right")
    now = np.arange(wanted) // buffer
    return ServerSteps(at_s, rows, (now - version).astype(np.float64), len(visits.left), visits, cohort)


def _visits(cohort: Cohort, places: int, updates: int) -> _core.Visits:
    return _core.rounds_visits(
        delay_s=_column(cohort.delay_s),
        work_s=_column(cohort.down_lag_s + cohort.compute_s + cohort.crossing_s),
        lag_s=_column(cohort.up_lag_s),
        leave_s=_column(cohort.leave_s),
        down_bits=_column(cohort.down_bits),
        down_bps=_column(cohort.down_bps),
        up_bits=_column(cohort.up_bits),
        up_bps=_column(cohort.up_bps),
        down=_links(cohort.down, len(cohort)),
        up=_links(cohort.up, len(cohort)),
        places=places,
        updates=updates,
    )


def _column(values: Floats) -> Floats:
    return np.ascontiguousarray(values, np.float64)


def _links(tree: ClientTree | None, clients: int) -> _core.SharedLinks:
    known = ClientTree.line(np.inf, clients) if tree is None else tree
    return _core.SharedLinks(first=known.first, capacity_bps=known.capacity_bps, parent=known.parent)
