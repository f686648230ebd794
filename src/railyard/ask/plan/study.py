"""A plan as one call: read, work out on all cores, keep what is found, write the folder."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from railyard.ask.plan.planned import begin
from railyard.ask.trials import journal_of
from railyard.kit.files import expect_folder, write_frame, write_text
from railyard.work.scenario.load import dump
from railyard.work.study import folder as folders
from railyard.work.study.provenance import version
from railyard.work.study.workers import workers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from railyard.ask.plan.planned import PlannedDesigns
    from railyard.measure.result.choices import PlanAnswer
    from railyard.work.scenario.load import Draft

    Face = Callable[[PlanAnswer, Path], None]
    from collections.abc import Callable, Iterator

    from railyard.ask.trials import Report
    from railyard.work.scenario.plan_section import PlanSection
    from railyard.work.study.tasks import Workers


POINTS = "points.parquet"


def write(planned: PlannedDesigns, answer: PlanAnswer, draft: Draft, out: Path, faces: Sequence[Face] = ()) -> Path:
    """The folder of a plan, all of it or nothing.

    Raises:
        InputError: It cannot be written.
    """
    name = folders.name_of(dump(draft.scenario), version())
    with folders.replaced(out, name) as folder:
        write_text(folder / "plan.json", answer.text())
        write_frame(folder / POINTS, _points(planned))
        for face in faces:
            face(answer, folder)
    return out / name


def _cells(values: Sequence[object]) -> list[Any]:
    """The values of a key as SQL compares them: numbers and names as they are, anything else and mixtures as JSON."""
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return list(values)
    return [value if isinstance(value, str) else json.dumps(value) for value in values]


def _points(planned: PlannedDesigns) -> Any:
    import polars as pl

    space, rows = planned.space, []
    cells = [_cells([node.plain() for node in nodes]) for nodes in space.values]
    for (point, demand, engine), outcome in sorted(planned.outcomes.items()):
        rows.append(
            {
                "point": point,
                "demand": space.demands[demand].name,
                "engine": engine,
                "error": outcome.error or None,
                **{
                    key: cells[at][value]
                    for at, (key, value) in enumerate(zip(space.keys, space.place(point), strict=True))
                },
                "layout": json.dumps(outcome.layouts[0]) if outcome.layouts and outcome.layouts[0] else None,
                "missed": planned.missed.get(point),
                "step_s": outcome.step_s or None,
                **outcome.figures,
            }
        )
    return pl.DataFrame(rows, infer_schema_length=None)


@dataclass(frozen=True)
class FinishedPlan:
    """A plan that is done.

    Attributes:
        folder: Of its files; None: none were written, for nothing was found or no place was given.
    """

    planned: PlannedDesigns
    answer: PlanAnswer
    folder: Path | None


def plan(
    draft: Draft,
    *,
    out: Path | None = None,
    pool: Callable[[], Workers] = workers,
    faces: Sequence[Face] = (),
    report: Report = lambda _what, _share: None,
    ready: Callable[[], None] = lambda: None,
) -> FinishedPlan:
    """Which cluster to build.

    Args:
        draft: A scenario with `plan.space`.
        out: Where the folder of the plan is put, and what is known meanwhile; None writes nothing.
        pool: Makes what designs are worked out on, closed at the end; this machine's cores where nothing is said.
        faces: Write further files of the answer into the folder.
        report: Called with what is being done and the best design so far, and the share of it from 0 to 1.
        ready: Called once the plan is read; a `KeyboardInterrupt` in it or later ends the plan with what was found.

    Raises:
        InputError: The plan is wrong, nothing keeps its constraints, or `out` is no place for a folder.
    """
    if out is not None:
        expect_folder(out)
    planned = worked_out(draft, out=out, pool=pool, report=report, ready=ready)
    from railyard.ask.plan.answer import answer_of  # with all engines, which a refused plan does not need

    answer = answer_of(planned)
    if out is None or not planned.choices:
        return FinishedPlan(planned, answer, None)
    return FinishedPlan(planned, answer, write(planned, answer, draft, out, faces))


def worked_out(
    draft: Draft,
    *,
    out: Path | None = None,
    pool: Callable[[], Workers] = workers,
    report: Report = lambda _what, _share: None,
    ready: Callable[[], None] = lambda: None,
) -> PlannedDesigns:
    """What a plan finds, without its folder; arguments and errors as of `plan`."""
    planned, section = begin(draft)
    with ending_at_once(planned, section):
        ready()
        from railyard.ask.plan.planning import DesignPlanner  # all engines: longer to import than to be stopped

        journal, several = journal_of(draft, "plan", out), pool()
        try:
            DesignPlanner.of(draft, planned, section, several, journal, report=report).run()
        finally:
            several.close()
            journal.close()
    return planned


@contextmanager
def ending_at_once(planned: PlannedDesigns, section: PlanSection) -> Iterator[None]:
    """A `KeyboardInterrupt` within ends a plan with what was found until then."""
    try:
        yield
    except KeyboardInterrupt:
        planned.stopped = "user"
        if planned.outcomes:
            from railyard.ask.plan.conclusion import conclude_at_once
            from railyard.ask.plan.judgement import sorted_out

            sorted_out(planned)
            conclude_at_once(planned, rivals=section.effort.rivals)
