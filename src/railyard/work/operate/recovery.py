"""Effects of a failure on jobs and nodes, and recovery: detection, rollback, spares, restart, repair.

A job that loses a node hangs until the loss is detected. Then it rolls back to its last checkpoint. It continues at
once on spares if there are enough, or with fewer nodes if it may; otherwise it leaves its nodes and waits in the queue.

A serving job loses only the replicas that a failure hits. Requests arrive evenly, at `load` times the capacity of all
replicas. Until a loss is detected, the dead replica's share of requests fails; after that the other replicas serve as
many of them as they can. A replica comes back on a spare, or on nodes that are or become free. Requests that are not
served are lost, not late: the job's time keeps running.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.tenancy import NOBODY
from railyard.work.operate.failures.fault import Effect
from railyard.work.operate.free import Event
from railyard.work.operate.rules import PPM
from railyard.work.operate.running import ActiveFault, Away, LeaveReason
from railyard.work.operate.state import ENDED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.operate.failures.fault import NodeFault
    from railyard.work.operate.running import Running
    from railyard.work.operate.state import State


def replicas_struck(run: Running, job: int, nodes: tuple[int, ...], effect: Effect) -> None:
    """A fault hits a serving job: replicas stop before anyone notices; slow and corrupt ones keep answering."""
    if effect in (Effect.OUT, Effect.CRASH):
        run.state.missing[job] += len(_hit(run.state, job, nodes))


def _hit(state: State, job: int, nodes: tuple[int, ...]) -> list[int]:
    each = state.replica[job]
    return sorted({place // each for place in np.flatnonzero(np.isin(state.placed[job], nodes)).tolist()})


def replica_loss_seen(run: Running, job: int, active: ActiveFault) -> None:
    """A serving job's fault is detected: the others take over; the replica moves to spares or waits for nodes."""
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
        run.leave(job, LeaveReason.FAILED)
        run.scheduler.add(job)
        return
    _exchange(run, job, placed[~gone])
    run.freed = True


def _exchange(run: Running, job: int, nodes: np.ndarray[tuple[int], np.dtype[np.int32]]) -> int:
    """Exchanges nodes of a serving job while it keeps serving; returns the time to clear the new nodes."""
    state = run.state
    run.ledger.left(job, LeaveReason.MOVED)
    come = np.setdiff1d(nodes, state.placed[job])
    state.exchange(job, nodes)
    state.begun_us[job] = state.now_us
    run.moved(job)
    run.promise(job)
    return run.cleared_us(job, come) if len(come) else 0


def replicas_back(run: Running, job: int, code: int) -> None:
    """Replicas of a job answer again, unless the job has restarted since."""
    count, attempt = code >> 32, code & 0xFFFFFFFF
    state = run.state
    run.pending -= 1
    if job in state.placed and state.attempts[job] == attempt:
        state.book(job)
        state.missing[job] -= count
        state.known_missing[job] -= count


def regrow_replicas(run: Running) -> None:
    """Gives free nodes to serving jobs that are short of replicas, before the queue."""
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


VAIN = 100
"""Failures without progress after which a job is given up: its checkpoints are too rare for its size."""


def fault_happens(run: Running, fault: NodeFault) -> None:
    """A fault occurs: jobs hang, slow down, stall or continue with wrong results."""
    state = run.state
    nodes = [node for node in fault.nodes if not state.broken[node]]
    jobs = sorted({job for node in nodes for job in state.jobs_of_node[node]})
    if not nodes:
        return
    if fault.effect == Effect.CRASH and len(fault.nodes) == 1:
        jobs = jobs[:1]
    run.ledger.faulted(fault, nodes, [] if fault.effect == Effect.STALL else jobs)
    if fault.effect == Effect.STALL:
        for job in jobs:
            _stall(run, job, fault.stall_us)
        return
    if not jobs and fault.effect != Effect.OUT:
        return
    for job in jobs:
        state.book(job)
    slow_ppm = fault.slow_ppm if fault.effect in (Effect.SLOW, Effect.DRIFT) else PPM
    active = ActiveFault(tuple(nodes), fault.effect, fault.mode, state.now_us, fault.repair_us, slow_ppm)
    active.jobs = [(job, state.attempts[job], state.done_us[job]) for job in jobs]
    if fault.effect == Effect.OUT:
        _break(run, active)
    for job in jobs:
        _impair(run, job, fault)
    number, run.known = run.known, run.known + 1
    run.active[number] = active
    _plan(run, number, fault)


def _plan(run: Running, number: int, fault: NodeFault) -> None:
    """Schedules the fault's detection and, for nodes that are out at once, their repair."""
    now = run.state.now_us
    run.push(now + fault.detect_us, Event.DETECT, number)
    run.pending += 1
    if fault.effect == Effect.OUT:
        # Repairs come before detections of the same moment, and what has not been detected cannot be repaired.
        run.push(now + max(fault.repair_us, fault.detect_us + 1), Event.REPAIR, number)
        run.pending += 1


def _break(run: Running, active: ActiveFault) -> None:
    nodes = np.array(active.nodes, np.int32)
    run.state.broken[nodes] = True
    run.state.free.out(nodes)
    run.ledger.shut(active.nodes, Away.BROKEN)


def _impair(run: Running, job: int, fault: NodeFault) -> None:
    state = run.state
    if state.replica[job]:
        replicas_struck(run, job, fault.nodes, fault.effect)
        return
    if fault.effect in (Effect.OUT, Effect.CRASH):
        state.hung[job] = True
        run.promise(job)
    elif fault.effect in (Effect.SLOW, Effect.DRIFT):
        state.straggler_ppm[job] = min(state.straggler_ppm[job], fault.slow_ppm)
        run.promise(job)


def _stall(run: Running, job: int, stall_us: int) -> None:
    """Stalls a job: its work resumes later."""
    state = run.state
    state.book(job)
    state.ready_us[job] = max(state.ready_us[job], state.now_us) + stall_us
    run.promise(job)


def fault_detected(run: Running, number: int, _version: int) -> None:
    """A fault is detected: nodes that still run are drained, and jobs recover."""
    run.pending -= 1
    active, state = run.active[number], run.state
    if active.effect in (Effect.SLOW, Effect.CORRUPT, Effect.DRIFT):
        _break(run, active)
        run.push(state.now_us + active.repair_us, Event.REPAIR, number)
        run.pending += 1
        active.jobs, active.slow_ppm = _still_there(run, active), PPM
    for job, attempt, done_us in active.jobs:
        if job not in state.placed or state.attempts[job] != attempt:
            continue
        if state.replica[job]:
            replica_loss_seen(run, job, active)
        else:
            _recover(run, job, active, done_us)
    if active.effect == Effect.CRASH:
        del run.active[number]


def _still_there(run: Running, active: ActiveFault) -> list[tuple[int, int, int]]:
    """Jobs on nodes that are drained now, restarted or not since the fault, and their work that it left intact.

    Of a job that came to such a node later, what it did there is lost too if it is wrong.
    """
    state = run.state
    before = {job: done_us for job, _, done_us in active.jobs}
    found = []
    for job in sorted({job for node in active.nodes for job in state.jobs_of_node[node]}):
        state.book(job)
        there_us = state.now_us - max(state.ready_us[job], state.begun_us[job])
        intact_us = before.get(job, max(state.done_us[job] - max(there_us, 0), 0))
        found.append((job, state.attempts[job], intact_us))
    return found


def _recover(run: Running, job: int, active: ActiveFault, done_us: int) -> None:
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
        run.over(job, ENDED, LeaveReason.VAIN)
        return
    placed = state.placed[job]
    lost = placed[state.broken[placed]]
    if not _on_spares(run, job, lost) and not _smaller(run, job, lost):
        run.leave(job, LeaveReason.FAILED)
        run.scheduler.add(job)


def _in_vain(run: Running, job: int, kept_us: int) -> bool:
    state = run.state
    further = kept_us > state.best_us[job]
    state.vain[job] = 0 if further else state.vain[job] + 1
    state.best_us[job] = max(kept_us, state.best_us[job])
    return state.vain[job] >= VAIN


def _on_spares(run: Running, job: int, lost: NDArray[np.int32]) -> bool:
    """Puts spares in place of lost nodes, at the same ranks; after a crash the job restarts on its own nodes."""
    if len(lost) > len(run.spares):
        return False
    nodes = run.replaced(job, lost)
    _go_on(run, job, nodes, run.rules.recovery.resume_us if len(lost) else run.rules.recovery.restart_us)
    return True


def _smaller(run: Running, job: int, lost: NDArray[np.int32]) -> bool:
    state = run.state
    nodes = state.placed[job]
    nodes = nodes[~np.isin(nodes, lost)]
    if not run.rules.recovery.elastic or len(nodes) < int(state.jobs.least_nodes[job]):
        return False
    _go_on(run, job, nodes, run.rules.recovery.restart_us)
    return True


def _go_on(run: Running, job: int, nodes: NDArray[np.int32], delay_us: int) -> None:
    state = run.state
    run.ledger.left(job, LeaveReason.MOVED)
    come = np.setdiff1d(nodes, state.placed[job])
    state.exchange(job, nodes)
    state.clear_us[job] = state.now_us + (run.cleared_us(job, come) if len(come) else 0)
    state.begun_us[job] = state.now_us
    state.attempts[job] += 1
    state.hung[job] = False
    state.straggler_ppm[job] = run.slowest_ppm(nodes)
    state.ready_us[job] = state.clear_us[job] + delay_us
    run.moved(job)
    run.promise(job)


def fault_repaired(run: Running, number: int, _version: int) -> None:
    """Nodes return to service, as spares while there are too few of those."""
    run.pending -= 1
    active, state = run.active.pop(number), run.state
    for node in active.nodes:
        if len(run.spares) < run.rules.recovery.spares and state.surplus(node):
            state.hand_over(np.array([node], np.int32), NOBODY)
            run.spares.append(node)
        else:
            state.broken[node] = False
    run.service(np.array(active.nodes, np.int32))
