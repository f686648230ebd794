"""Many jobs on one cluster for months: a run that resumes from its last saved state, and its figures."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError, Interrupted
from railyard.kit.files import signals_held
from railyard.measure.result.variants import OperateVariant
from railyard.work.operate import files
from railyard.work.operate.prepare import prepare
from railyard.work.operate.rules import DAY, HOUR
from railyard.work.operate.service import services
from railyard.work.operate.state import FUTURE, STUCK, WAITING
from railyard.work.operate.steady import draw_figures, draw_row, steady
from railyard.work.operate.summary import failures_of, summary
from railyard.work.study.kind import MeasuredVariant, StudyKind, kinds
from railyard.work.study.provenance import version

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from railyard.measure.result.operate import DrawFigures, DrawRow
    from railyard.work.operate.loop import ClusterRun
    from railyard.work.operate.prepare import PreparedOperation
    from railyard.work.operate.section import OperateSection
    from railyard.work.operate.steady import RunParts
    from railyard.work.study.tasks import Control


ENGINE = "flow"
"""The engine that computes contention; the event loop itself has only one implementation."""


@dataclass(frozen=True)
class DrawnRun:
    """A variant that has been run with every draw of its failures.

    Attributes:
        run: The first draw, which the figures and files describe.
        draws: How the draws differ; None if there is only one.
        early: Where a signal stopped it; empty: it was not stopped.
    """

    prepared: PreparedOperation
    run: ClusterRun
    draws: DrawFigures | None = None
    early: str = ""


def check_engine(_document: object, engine: str | None) -> None:
    """Rejects any engine but the one that computes contention.

    Raises:
        InputError: Another engine is requested.
    """
    if engine not in (None, ENGINE):
        raise InputError("many jobs for months run on one engine", key="engine", found=engine, allowed=ENGINE)


def simulate(prepared: PreparedOperation, control: Control) -> DrawnRun:
    """Runs a variant with every draw of its failures.

    Raises:
        Interrupted: A signal stopped it; a run of a single variant returns what it has so far instead.
    """

    def drawn(draw: int) -> ClusterRun:
        state = control.state and control.state.with_name(f"{control.state.name}-{draw}.npz")
        run = play(prepared, state, lambda done: control.progress("playing jobs", (draw + done) / prepared.draws), draw)
        if run.is_cut and not control.alone:
            raise Interrupted
        return run

    first = drawn(0)
    rows = [_row(prepared, first, 0)]
    while len(rows) < prepared.draws and not first.is_cut:
        other = drawn(len(rows))
        if other.is_cut:
            break
        rows.append(_row(prepared, other, len(rows)))
    early = _so_far(first) if first.is_cut else ""
    if not early and len(rows) < prepared.draws:
        early = f"after {len(rows)} of {prepared.draws} draws of its failures"
    return DrawnRun(prepared, first, draw_figures(rows), early)


def _so_far(run: ClusterRun) -> str:
    days, ended = run.ledger.time_us / DAY, run.ledger.ended
    return f"after {days:,.4g} simulated days, with {ended:,} of {len(run.jobs):,} jobs ended"


def _row(prepared: PreparedOperation, run: ClusterRun, draw: int) -> DrawRow:
    window = _parts(prepared, run).window
    seed = prepared.variant.draft.scenario.seed + draw
    failures = failures_of(run, window, prepared.modes)
    return draw_row(window, prepared.usd_per_h(window)[0].typical, seed, failures)


def play(
    prepared: PreparedOperation, state: Path | None, progress: Callable[[float], None] | None = None, draw: int = 0
) -> ClusterRun:
    """Runs a variant to its end or until a signal stops it, resuming from a saved state if there is one.

    Raises:
        Interrupted: A signal stopped it before it started.
    """
    run = prepared.operation(draw)
    section = prepared.variant.draft.scenario.operate
    about = f"{json.dumps(section.model_dump(mode='json'), sort_keys=True)}{version()} {draw}"
    if state is not None:
        files.load(run, state, about)
    try:
        with signals_held() as asked:
            while not run.run(int(section.save_every), asked):
                if state is not None:
                    files.save(run, state, about)
                if progress is not None:
                    progress(run.ledger.ended / max(len(run.jobs), 1))
                if asked():
                    break
    except Interrupted:
        if not run.state.now_us:
            raise
        run.cut()
    return run


def _left_out(section: OperateSection) -> tuple[str, ...]:
    """Omissions of the scenario and of the model."""
    absent = {
        "jobs do not slow one another: the scenario has no `contention`": section.contention is None,
        "nothing fails by itself: the scenario has no `failures`": section.failures is None,
        "computation is assumed by class, since traces lack it": section.contention is not None,
    }
    return tuple(words for words, holds in absent.items() if holds)


def measure(found: DrawnRun) -> MeasuredVariant[OperateVariant]:
    """The figures of a run."""
    prepared, run, early = found.prepared, found.run, found.early
    parts = _parts(prepared, run)
    served = services(prepared.variant.draft, run)
    figures = summary(
        run, parts, lambda part: prepared.usd_per_h(part)[0], prepared.modes, served=served, draws=found.draws
    )
    warnings = (*prepared.notes, *parts.notes, *_stuck(run), *_unstarted(run), *_unserved(run))
    variant = OperateVariant(
        name=prepared.variant.name,
        settings=dict(prepared.variant.settings),
        operate=figures,
        warnings=(f"incomplete: stopped {early}", *warnings) if early else warnings,
        digest=_digest(run),
    )
    if early:
        variant = variant.model_copy(update={"stopped": early})
    left_out = _left_out(prepared.variant.draft.scenario.operate)
    return MeasuredVariant(variant, prepared.usd_per_h(parts.window)[1], left_out, prepared.defaults)


def _parts(prepared: PreparedOperation, run: ClusterRun) -> RunParts:
    """The parts of the run; a run that was stopped before the given window has no steady window."""
    return steady(run, given=prepared.steady_given and not (run.is_cut and not run.state.marks))


def _digest(run: ClusterRun) -> str:
    rows = json.dumps([run.ledger.allocations, run.ledger.nodes, run.ledger.faults, run.state.spent])
    return hashlib.sha256(rows.encode()).hexdigest()[:16]


def _unserved(run: ClusterRun) -> list[str]:
    state = run.state
    serving = [job for job, each in enumerate(state.replica) if each]
    asked = sum(state.done_us[job] for job in serving)
    if not asked:
        return []
    lost = sum(state.unserved_us[job] for job in serving) / asked
    hit = sum(state.failed[job] for job in serving)
    return [
        f"{len(serving)} serving jobs lost replicas {hit} times and left {100 * lost:.3f} % of their requests unserved"
    ]


def _stuck(run: ClusterRun) -> list[str]:
    left = [run.jobs.name[job] for job, status in enumerate(run.state.status) if status == STUCK]
    if not left:
        return []
    if len(left) == 1:
        return [f"the queue never drains: job `{left[0]}` waits forever"]
    return [f"the queue never drains: {len(left)} jobs wait forever, the first of them `{left[0]}`"]


def _unstarted(run: ClusterRun) -> list[str]:
    """Jobs that had not started by the end of the run, and so are missing from the waiting times."""
    state = run.state
    left = [job for job, status in enumerate(state.status) if status == WAITING and state.first_us[job] < 0]
    if not left:
        return []
    waited = sum(run.ledger.time_us - int(run.jobs.submit_us[job]) for job in left) / len(left) / HOUR
    return [
        f"{len(left):,} of the {sum(status != FUTURE for status in state.status):,} submitted jobs never start before"
        f" the run ends: they have waited {waited:.3g} h on average, and queue and completion times are of the others"
    ]


OPERATE = kinds.add(
    "operate",
    StudyKind(
        name="operate",
        check=check_engine,
        prepare=lambda variants, _engine: [prepare(variant) for variant in variants],
        engine=lambda _prepared: ENGINE,
        run=simulate,
        measure=measure,
        write=lambda folder, drawn, _played: files.write(drawn.run, folder),
        faulty=True,
        dated=False,
    ),
)
