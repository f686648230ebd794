"""What a failure does to jobs and nodes, and what is done about it: detection, roll back, spares, restart, repair.

A job of which a node stops hangs until that is seen. Then it goes back to its last checkpoint and goes on at once on
spares where there are enough, else with fewer nodes where it may, else it leaves its nodes and waits in the queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.tenancy import NOBODY
from railyard.work.operate import replicas
from railyard.work.operate.event import Event
from railyard.work.operate.failures.fault import Effect
from railyard.work.operate.ledger import Away, Outcome
from railyard.work.operate.replicas import cleared_us
from railyard.work.operate.rules import PPM
from railyard.work.operate.running import Active
from railyard.work.operate.state import ENDED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.operate.failures.fault import Fault
    from railyard.work.operate.running import Run

VAIN = 100
"""A job that fails so often without getting further is given up: its checkpoints are too far apart for its size."""


def happens(run: Run, fault: Fault) -> None:
    """A fault comes: jobs hang, slow down, stand still or go on with wrong numbers."""
    state = run.state
    nodes = [node for node in fault.nodes if not state.broken[node]]
    jobs = sorted({job for node in nodes for job in state.jobs_of_node[node]})
    if not nodes:
        return
    run.ledger.faulted(fault, nodes, jobs)
    if fault.effect == Effect.STALL:
        for job in jobs:
            _stall(run, job, fault.stall_us)
        return
    if fault.effect == Effect.CRASH and len(fault.nodes) == 1:
        jobs = jobs[:1]
    if not jobs and fault.effect != Effect.OUT:
        return
    for job in jobs:
        state.book(job)
    active = Active(tuple(nodes), fault.effect, fault.mode, state.now_us, fault.repair_us)
    active.jobs = [(job, state.attempts[job], state.done_us[job]) for job in jobs]
    if fault.effect == Effect.OUT:
        _break(run, active)
    for job in jobs:
        _impair(run, job, fault)
    number, run.known = run.known, run.known + 1
    run.active[number] = active
    _plan(run, number, fault)


def _plan(run: Run, number: int, fault: Fault) -> None:
    """Plans when the fault is seen and, of nodes that are out at once, when they are back."""
    now = run.state.now_us
    run.push(now + fault.detect_us, Event.DETECT, number)
    run.pending += 1
    if fault.effect == Effect.OUT:
        # Repairs come before detections of the same moment, and nobody repairs what nobody has seen.
        run.push(now + max(fault.repair_us, fault.detect_us + 1), Event.REPAIR, number)
        run.pending += 1


def _break(run: Run, active: Active) -> None:
    nodes = np.array(active.nodes, np.int32)
    run.state.broken[nodes] = True
    run.state.free.out(nodes)
    run.ledger.shut(active.nodes, Away.BROKEN)


def _impair(run: Run, job: int, fault: Fault) -> None:
    state = run.state
    if state.replica[job]:
        replicas.struck(run, job, fault.nodes, fault.effect)
        return
    if fault.effect in (Effect.OUT, Effect.CRASH):
        state.hung[job] = True
        run.promise(job)
    elif fault.effect == Effect.SLOW:
        state.straggler_ppm[job] = min(state.straggler_ppm[job], fault.slow_ppm)
        run.promise(job)


def _stall(run: Run, job: int, stall_us: int) -> None:
    """A job stands still: its work goes on later."""
    state = run.state
    state.book(job)
    state.ready_us[job] = max(state.ready_us[job], state.now_us) + stall_us
    run.promise(job)


def detected(run: Run, number: int) -> None:
    """A fault is seen: nodes that still run are drained, jobs recover."""
    active, state = run.active[number], run.state
    if active.effect in (Effect.SLOW, Effect.CORRUPT):
        _break(run, active)
        run.push(state.now_us + active.repair_us, Event.REPAIR, number)
        run.pending += 1
    for job, attempt, done_us in active.jobs:
        if job not in state.placed or state.attempts[job] != attempt:
            continue
        if state.replica[job]:
            replicas.seen(run, job, active)
        else:
            _recover(run, job, active, done_us)
    if active.effect == Effect.CRASH:
        del run.active[number]


def _recover(run: Run, job: int, active: Active, done_us: int) -> None:
    state, rules = run.state, run.rules.recovery
    state.book(job)
    state.failed[job] += 1
    kept = rules.kept(state.done_us[job], state.nodes[job])
    if active.effect == Effect.CORRUPT:
        kept = rules.kept(min(done_us, state.done_us[job]), state.nodes[job])
    if active.effect != Effect.CRASH and not rules.survives:
        kept = 0
    if active.effect == Effect.SLOW and rules.grace and not state.hung[job]:
        kept = state.done_us[job]
    state.roll_back(job, kept)
    if _in_vain(run, job, kept):
        run.over(job, ENDED, Outcome.VAIN)
        return
    placed = state.placed[job]
    lost = placed[state.broken[placed]]
    if not _on_spares(run, job, lost) and not _smaller(run, job, lost):
        run.leave(job, Outcome.FAILED)
        run.scheduler.add(job)


def _in_vain(run: Run, job: int, kept_us: int) -> bool:
    state = run.state
    further = kept_us > state.best_us[job]
    state.vain[job] = 0 if further else state.vain[job] + 1
    state.best_us[job] = max(kept_us, state.best_us[job])
    return state.vain[job] >= VAIN


def _on_spares(run: Run, job: int, lost: NDArray[np.int32]) -> bool:
    """Puts spares in the place of lost nodes, in the same ranks; of a crash the job begins again where it is."""
    if len(lost) > len(run.spares):
        return False
    nodes = run.replaced(job, lost)
    _go_on(run, job, nodes, run.rules.recovery.resume_us if len(lost) else run.rules.recovery.restart_us)
    return True


def _smaller(run: Run, job: int, lost: NDArray[np.int32]) -> bool:
    """Goes on without the lost nodes."""
    state = run.state
    nodes = state.placed[job]
    nodes = nodes[~np.isin(nodes, lost)]
    if not run.rules.recovery.elastic or len(nodes) < int(state.jobs.least_nodes[job]):
        return False
    _go_on(run, job, nodes, run.rules.recovery.restart_us)
    return True


def _go_on(run: Run, job: int, nodes: NDArray[np.int32], delay_us: int) -> None:
    state = run.state
    run.ledger.left(job, Outcome.MOVED)
    come = np.setdiff1d(nodes, state.placed[job])
    state.exchange(job, nodes)
    state.clear_us[job] = state.now_us + (cleared_us(state, job, come) if len(come) else 0)
    state.begun_us[job] = state.now_us
    state.attempts[job] += 1
    state.hung[job] = False
    state.straggler_ppm[job] = PPM
    state.ready_us[job] = state.clear_us[job] + delay_us
    run.moved(job)
    run.promise(job)


def repaired(run: Run, number: int) -> None:
    """Nodes come back, as spares while there are too few of those."""
    active, state = run.active.pop(number), run.state
    for node in active.nodes:
        if len(run.spares) < run.rules.recovery.spares and state.surplus(node):
            state.hand_over(np.array([node], np.int32), NOBODY)
            run.spares.append(node)
        else:
            state.broken[node] = False
    run.service(np.array(active.nodes, np.int32))
