"""Serving jobs: replicas that answer side by side. One that is lost takes its requests with it, the others go on.

Requests come evenly, `load` of what all replicas can serve. Until a loss is seen its share of them goes to the dead
replica and fails; after that the others take it as far as they can, and a replica comes back on a spare, or on nodes
that are or become free. What nobody serves is lost, not late: the job's time runs on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.work.operate.event import Event
from railyard.work.operate.failures.fault import Effect
from railyard.work.operate.ledger import Outcome

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.operate.running import Active, Run
    from railyard.work.operate.state import State


def cleared_us(state: State, job: int, nodes: NDArray[np.int32]) -> int:
    """Notes that a job takes nodes over.

    Args:
        state: Of the run.
        job: Who takes them.
        nodes: int32[n], those that it did not have until now.

    Returns:
        How long clearing them takes, microseconds.
    """
    rules = state.rules.turnaround
    user = job if rules.between == "jobs" else state.tenant[job]
    before = state.used_by[nodes]
    foreign = int(((before >= 0) & (before != user)).sum())
    state.used_by[nodes] = user
    erased = foreign > 0 and rules.erase_us > 0
    state.erased += foreign if erased else 0
    return (rules.erase_us if erased else 0) + rules.attested_us(len(nodes) * state.each[job])


def struck(run: Run, job: int, nodes: tuple[int, ...], effect: Effect) -> None:
    """A fault hits a serving job: replicas stop, nobody knows yet; slow and wrong ones answer on."""
    if effect in (Effect.OUT, Effect.CRASH):
        run.state.missing[job] += len(_hit(run.state, job, nodes))


def _hit(state: State, job: int, nodes: tuple[int, ...]) -> list[int]:
    """Replicas, by number, that have one of some nodes."""
    each = state.replica[job]
    return sorted({place // each for place in np.flatnonzero(np.isin(state.placed[job], nodes)).tolist()})


def seen(run: Run, job: int, active: Active) -> None:
    """A fault of a serving job is known: the others take over; the replica moves to spares, or waits for nodes."""
    state, rules = run.state, run.rules.recovery
    state.book(job)
    state.failed[job] += 1
    hit = _hit(state, job, active.nodes)
    placed = state.placed[job]
    lost = placed[state.broken[placed]]
    if active.effect not in (Effect.OUT, Effect.CRASH):
        state.missing[job] += len(hit)
    if len(lost) <= len(run.spares):
        nodes = run.replaced(job, lost)
        cleared = _exchange(run, job, nodes)
        state.known_missing[job] += len(hit)
        delay = rules.resume_us if len(lost) else rules.restart_us
        run.push(state.now_us + cleared + delay, Event.REPLICA, job, len(hit) << 32 | state.attempts[job])
        run.pending += 1
        return
    each = state.replica[job]
    gone = np.isin(np.arange(len(placed)) // each, hit)
    state.missing[job] -= len(hit)
    if gone.all():
        run.leave(job, Outcome.FAILED)
        run.scheduler.add(job)
        return
    _exchange(run, job, placed[~gone])
    run.freed()


def _exchange(run: Run, job: int, nodes: np.ndarray[tuple[int], np.dtype[np.int32]]) -> int:
    """Gives a serving job other nodes while it answers on; returns how long it takes to clear those that are new."""
    state = run.state
    run.ledger.left(job, Outcome.MOVED)
    come = np.setdiff1d(nodes, state.placed[job])
    state.exchange(job, nodes)
    state.begun_us[job] = state.now_us
    run.moved(job)
    run.promise(job)
    return cleared_us(state, job, come) if len(come) else 0


def back(run: Run, job: int, code: int) -> None:
    """Replicas of a job answer again, unless it has begun anew since."""
    count, attempt = code >> 32, code & 0xFFFFFFFF
    state = run.state
    run.pending -= 1
    if job in state.placed and state.attempts[job] == attempt:
        state.book(job)
        state.missing[job] -= count
        state.known_missing[job] -= count


def regrow(run: Run) -> None:
    """Gives serving jobs that are short of replicas nodes that are free, before those who wait."""
    state = run.state
    for job in sorted(state.short()):
        each = state.replica[job]
        while len(state.placed[job]) + each <= state.nodes[job]:
            nodes = run.scheduler.policy.place(state.request(job, each), state.free_of(job))
            if nodes is None:
                break
            state.book(job)
            cleared = _exchange(run, job, np.concatenate([state.placed[job], nodes]))
            state.missing[job] += 1
            state.known_missing[job] += 1
            code = 1 << 32 | state.attempts[job]
            run.push(state.now_us + cleared + run.rules.recovery.restart_us, Event.REPLICA, job, code)
            run.pending += 1
