"""Every variant of a scenario, from its jobs to its figures and files; a run that was killed goes on."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError, Interrupted
from railyard.kit.files import signals_held, write_text
from railyard.measure.result.variants import OperateVariant
from railyard.work.operate import files, saving
from railyard.work.operate.prepare import prepare
from railyard.work.operate.rules import DAY, HOUR
from railyard.work.operate.service import services
from railyard.work.operate.state import FUTURE, STUCK, WAITING
from railyard.work.operate.steady import draw_figures, draw_row, steady
from railyard.work.operate.summary import summary
from railyard.work.scenario.variants import expand, resolved
from railyard.work.study import folder as folders
from railyard.work.study.folder import write_inputs
from railyard.work.study.kind import STOPPED, Failed
from railyard.work.study.provenance import result_of, version

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from railyard.measure.cost.assumptions import Source
    from railyard.measure.result.operate import DrawFigures, DrawRow
    from railyard.measure.result.reading import Result
    from railyard.work.operate.loop import Operation
    from railyard.work.operate.prepare import Prepared
    from railyard.work.operate.steady import Steady
    from railyard.work.scenario.load import Draft

    Face = Callable[[Result, Path], None]

ENGINE = "flow"
"""That finds what neighbours cost; the loop itself has no other."""
STATES = ".states"
"""Folder beside the runs for states of runs that have not ended."""


@dataclass(frozen=True, eq=False)
class Played:
    """A variant that was played.

    Attributes:
        prepared: What was played.
        run: How it ended.
        variant: As it stands in the result.
        sources: Of its prices.
    """

    prepared: Prepared
    run: Operation
    variant: OperateVariant
    sources: tuple[Source, ...]

    @property
    def digest(self) -> str:
        """Fingerprint of every allocation."""
        return self.variant.digest

    @property
    def left_out(self) -> tuple[str, ...]:
        """What the scenario leaves out, and what the model does."""
        section = self.prepared.variant.draft.scenario.operate
        absent = {
            "jobs do not slow one another: the scenario has no `contention`": section.contention is None,
            "nothing breaks by itself: the scenario has no `failures`": section.failures is None,
            "what a job computes is assumed by its class, traces do not say it": section.contention is not None,
        }
        return tuple(words for words, holds in absent.items() if holds)

    @property
    def defaults(self) -> tuple[str, ...]:
        """What was chosen because the document did not say."""
        return self.prepared.defaults


@dataclass(frozen=True)
class Finished:
    """A study that is done.

    Attributes:
        folder: Of its files; None: none were written.
        result: As `result.json`.
        played: The variants.
    """

    folder: Path | None
    result: Result
    played: tuple[Played, ...]


def check_engine(engine: str | None) -> None:
    """Refuses another engine than the one that finds what neighbours cost.

    Raises:
        InputError: It is another.
    """
    if engine not in (None, ENGINE):
        raise InputError("many jobs for months run on one engine", key="engine", found=engine, allowed=ENGINE)


def operate(
    draft: Draft,
    varies: Sequence[str] = (),
    *,
    out: Path | None = None,
    faces: Sequence[Face] = (),
    progress: Callable[[str, float], None] | None = None,
) -> Finished:
    """Plays a scenario with every variant that it compares.

    A signal ends it with the variants that had ended; the first one is measured up to where it had come.

    Args:
        draft: The scenario.
        varies: `key=a,b,c` in place of what it compares.
        out: Where the folder of the run is put, and states meanwhile; None writes nothing.
        faces: Each writes further files (the report) into the folder, given the result.
        progress: Called with what is being done, and its share from 0 to 1.

    Raises:
        InputError: The scenario cannot be played; nothing has been written then.
        Interrupted: A signal stopped it before anything was played.
    """
    notify = progress or (lambda _what, _share: None)
    plain = resolved(draft, varies)
    name = folders.name_of(plain, version())
    variants = expand(draft, varies)
    prepared = [prepare(variant) for variant in variants]
    states = [None if out is None else out / STATES / f"{name}-{number}" for number in range(len(prepared))]
    played, failed = _each(prepared, states, notify)
    result = result_of(draft, plain, ENGINE, played, failed=failed, dated=False)
    if out is None:
        return Finished(None, result, tuple(played))
    with folders.replaced(out, name) as folder:
        write_text(folder / "result.json", result.text())
        write_inputs(folder, plain, variants)
        _write(folder, played)
        for face in faces:
            face(result, folder)
    if not failed and not any(one.variant.stopped for one in played):
        _forget(out / STATES, [f"{name}-{number}" for number in range(len(played))])
    return Finished(out / name, result, tuple(played))


def _each(
    prepared: Sequence[Prepared], states: Sequence[Path | None], notify: Callable[[str, float], None]
) -> tuple[list[Played], list[Failed]]:
    """Every variant; after a signal those that had ended, and the others as failed."""
    played: list[Played] = []
    for number, (one, state) in enumerate(zip(prepared, states, strict=True)):
        try:
            found = _drawn(one, state, partial(_tell, notify, number, len(prepared)))
        except Interrupted:
            if not played:
                raise
            break
        if found.variant.stopped and played:  # what was played in part is not compared
            break
        played.append(found)
        if found.variant.stopped:
            break
    return played, [Failed(one.variant, STOPPED) for one in prepared[len(played) :]]


def _tell(notify: Callable[[str, float], None], number: int, count: int, done: float) -> None:
    notify("playing jobs", (number + done) / count)


def _drawn(prepared: Prepared, states: Path | None, progress: Callable[[float], None]) -> Played:
    """A variant played with every draw of its failures; its figures and files are of the first."""

    def played(draw: int) -> Operation:
        state = None if states is None else states.with_name(f"{states.name}-{draw}.npz")
        return play(prepared, state, partial(_part, progress, draw, prepared.draws), draw)

    first = played(0)
    rows = [_row(prepared, first, 0)]
    while len(rows) < prepared.draws and not first.is_cut:
        other = played(len(rows))
        if other.is_cut:
            break
        rows.append(_row(prepared, other, len(rows)))
    early = _so_far(first) if first.is_cut else ""
    if not early and len(rows) < prepared.draws:
        early = f"after {len(rows)} of {prepared.draws} draws of its failures"
    return measured(prepared, first, draw_figures(rows), early)


def _so_far(run: Operation) -> str:
    days, ended = run.ledger.time_us / DAY, run.ledger.ended
    return f"after {days:,.4g} simulated days, with {ended:,} of {len(run.jobs):,} jobs ended"


def _row(prepared: Prepared, run: Operation, draw: int) -> DrawRow:
    window = _parts(prepared, run).window
    return draw_row(window, prepared.usd_per_h(window)[0].typical, prepared.variant.draft.scenario.seed + draw)


def _part(progress: Callable[[float], None], number: int, count: int, done: float) -> None:
    progress((number + done) / count)


def play(
    prepared: Prepared, state: Path | None, progress: Callable[[float], None] | None = None, draw: int = 0
) -> Operation:
    """Plays a variant to its end, or to where a signal stops it; from where an earlier run of it had come.

    Raises:
        Interrupted: A signal stopped it at its beginning.
    """
    run = prepared.operation(draw)
    section = prepared.variant.draft.scenario.operate
    about = f"{json.dumps(section.model_dump(mode='json'), sort_keys=True)}{version()} {draw}"
    if state is not None:
        saving.load(run, state, about)
    try:
        with signals_held() as asked:
            while not run.run(int(section.save_every), asked):
                if state is not None:
                    saving.save(run, state, about)
                if progress is not None:
                    progress(run.ledger.ended / max(len(run.jobs), 1))
                if asked():
                    break
    except Interrupted:
        if not run.state.now_us:
            raise
        run.cut()
    return run


def measured(prepared: Prepared, run: Operation, draws: DrawFigures | None = None, early: str = "") -> Played:
    """The figures of a run.

    Args:
        prepared: What was played.
        run: How it ended.
        draws: What other draws of its failures gave.
        early: Where a signal stopped it; empty: nowhere.
    """
    parts = _parts(prepared, run)
    served = services(prepared.variant.draft, run)
    figures = summary(run, parts, lambda part: prepared.usd_per_h(part)[0], prepared.modes, served=served, draws=draws)
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
    return Played(prepared, run, variant, prepared.usd_per_h(parts.window)[1])


def _parts(prepared: Prepared, run: Operation) -> Steady:
    """Its steady window; a run that was stopped before the window that is given has none."""
    return steady(run, given=prepared.steady_given and not (run.is_cut and not run.state.marks))


def _digest(run: Operation) -> str:
    rows = json.dumps([run.ledger.allocations, run.ledger.nodes, run.ledger.faults, run.state.spent])
    return hashlib.sha256(rows.encode()).hexdigest()[:16]


def _unserved(run: Operation) -> list[str]:
    """What serving jobs did not serve."""
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


def _stuck(run: Operation) -> list[str]:
    left = [run.jobs.name[job] for job, status in enumerate(run.state.status) if status == STUCK]
    if not left:
        return []
    if len(left) == 1:
        return [f"the queue never drains: job `{left[0]}` waits for ever"]
    return [f"the queue never drains: {len(left)} jobs wait for ever, the first of them `{left[0]}`"]


def _unstarted(run: Operation) -> list[str]:
    """What never started before the end of the run, so that figures of waiting know too little of it."""
    state = run.state
    left = [job for job, status in enumerate(state.status) if status == WAITING and state.first_us[job] < 0]
    if not left:
        return []
    waited = sum(run.ledger.time_us - int(run.jobs.submit_us[job]) for job in left) / len(left) / HOUR
    return [
        f"{len(left):,} of the {sum(status != FUTURE for status in state.status):,} submitted jobs never start before"
        f" the run ends: they have waited {waited:.3g} h on average, and queue and completion times are of the others"
    ]


def _write(folder: Path, played: Sequence[Played]) -> None:
    """Tables and traces of every variant."""
    for number, one in enumerate(played):
        place = folders.of_variant(folder, number, one.prepared.variant.name)
        place.mkdir(parents=True, exist_ok=True)
        files.write(one.run, place)


def _forget(states: Path, names: Sequence[str]) -> None:
    """Removes states of runs that have ended."""
    for name in names:
        for state in (*states.glob(f"{name}-*.npz"), *states.glob(f".{name}-*.tmp")):  # the latter of killed runs
            state.unlink()
    if states.is_dir() and not any(states.iterdir()):
        states.rmdir()
