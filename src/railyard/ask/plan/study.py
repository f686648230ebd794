"""A plan as one call: read, work out on all cores, keep what is found, write the folder."""

from __future__ import annotations

import json
import math
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.plan.judgement import able, best_bound, best_by_axis, dominator, ended, products
from railyard.ask.plan.objectives import measured_by
from railyard.ask.plan.planned import begin
from railyard.ask.trials import journal_of
from railyard.kit.files import expect_folder, write_frame, write_text
from railyard.measure.numbers import finite_or_null
from railyard.measure.result.choices import PlanAnswer
from railyard.work.scenario.load import dump
from railyard.work.study import folder as folders
from railyard.work.study.provenance import version
from railyard.work.study.workers import workers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from railyard.ask.plan.planned import PlannedDesigns
    from railyard.ask.trials import Report
    from railyard.work.scenario.load import Draft
    from railyard.work.scenario.plan_section import PlanSection
    from railyard.work.study.tasks import Workers

    Face = Callable[[PlanAnswer, Path], None]


_SHOWN = 24
"""Designs whose job dies that are listed."""

_POINTS = 2000
"""Points of the picture, but for those that were looked at closely; the table of points has all."""


def answer_of(planned: PlannedDesigns) -> PlanAnswer:
    """Everything that a plan found."""
    return PlanAnswer.model_validate_json(json.dumps(_plain_answer(planned), ensure_ascii=False, allow_nan=False))


def _plain_answer(planned: PlannedDesigns) -> dict[str, Any]:
    space = planned.space
    rows = [_row(planned, at) for at in range(len(planned.choices))]
    return {
        "format": "railyard-plan/1",
        "name": space.base.scenario.name,
        "version": version(),
        "seed": space.base.scenario.seed,
        "objectives": [
            {"name": one.name, "unit": one.unit, "better": "large" if one.large else "small", "words": one.words}
            for one in planned.objectives
        ],
        "best": rows[0]["variant"] if rows else None,
        "bound": _bound(planned),
        "front": [row for row in rows if row["front"]],
        "runners_up": [row for row in rows if not row["front"]],
        "axes": _axes(planned),
        "constraints": _constraints(planned),
        "tornado": [one.plain() for one in (planned.sure.tornado if planned.sure else ())[:20]],
        "measure_first": [one.plain() for one in (planned.sure.measure if planned.sure else ())[:10]],
        "break_even": [one.plain() for one in planned.even[:20]],
        "port_prices": [one.plain() for one in planned.ports[:20]],
        "looked_at": _looked_at(planned),
        "failed": _failed(planned),
        "ended": _ended(planned),
        "points": _answer_points(planned),
        "verified": None if planned.verified is None else planned.verified.plain(),
        "unverified": [one.plain() for one in planned.unverified],
        "stopped": bool(planned.stopped),
        **_remarks(planned),
    }


def _remarks(planned: PlannedDesigns) -> dict[str, list[str]]:
    """The remarks on the machines of the best design, each once; empty without any."""
    machines = planned.choices[0].hardware if planned.choices else ()
    found = dict.fromkeys(line for one in machines for line in one.cluster.remarks)
    return {"remarks": list(found)} if found else {}


def _row(planned: PlannedDesigns, at: int) -> dict[str, Any]:
    from railyard.ask.plan.conclusion import why  # with all engines, which a refused plan does not need

    choice, sure = planned.choices[at], planned.sure
    names = [one.name for one in planned.objectives]
    first = names[0]
    chances = {} if sure is None else {name: float(sure.best[name][at]) for name in names}
    bands = {} if sure is None else {name: _band(sure.bands[name][at]) for name in names}
    reason = "" if at == 0 else why(planned.choices[0], choice, planned.objectives, planned.shares)
    beaten = None if planned.on_front[at] else _beaten_by(planned, at)
    demands = planned.space.demands
    packets = [planned.outcomes.get((choice.point, demand, "packet")) for demand in range(len(demands))]
    tails = [one.tail for one in packets if one is not None and not one.error]
    return {
        "variant": choice.name,
        "settings": planned.space.settings(choice.point),
        "same": [planned.space.settings(point) for point in planned.twins.get(choice.point, ())],
        "front": planned.on_front[at],
        "engine": choice.engine,
        "outcome": "died" if ended(planned, choice.point) else "finished",
        "layouts": dict(zip((demand.name for demand in demands), choice.layouts, strict=True)),
        "objectives": {name: choice.figures[name] for name in names},
        "bands": bands,
        "expected_regret": None if sure is None else float(sure.regret[at]),
        "within": None if sure is None else float(sure.within[at]),
        "probability_best": chances.get(first),
        "probability_best_by": chances,
        "figures": finite_or_null(dict(choice.figures)),
        "by_demand": {
            demand.name: finite_or_null({name: outcome.figures[name] for name in names if name in outcome.figures})
            for demand, outcome in zip(demands, choice.outcomes, strict=True)
        },
        "tail": max(tails) if tails else None,
        "why_not": reason,
        "beaten_by": beaten,
    }


def _axes(planned: PlannedDesigns) -> list[dict[str, Any]]:
    """The best design with each value of each axis, and why it is behind the best of all."""
    from railyard.ask.plan.conclusion import reason_behind  # with all engines, which a refused plan does not need

    if not planned.choices:
        return []
    what = planned.objectives[0]
    return [
        {
            "axis": axis,
            "value": value,
            "variant": planned.name(point),
            "engine": planned.engine if planned.ran(point) else "analytic",
            "objective": finite_or_null((planned.figures(point) or {})[what.name]),
            "why_not": reason_behind(planned, point),
        }
        for axis, value, point in best_by_axis(planned)
    ]


def _band(values: Any) -> dict[str, float]:
    low, middle, high = (float(value) for value in values)
    return {"p10": low, "p50": middle, "p90": high}


def _beaten_by(planned: PlannedDesigns, at: int) -> str | None:
    table = np.array([[one.sign * row.figures[one.name] for one in planned.objectives] for row in planned.choices])
    found = dominator(table, at)
    return None if found is None else planned.choices[found].name


def _bound(planned: PlannedDesigns) -> dict[str, Any] | None:
    """What no product reaches, and by how much it is better than the best that one does."""
    point = best_bound(planned)
    if point is None or not planned.choices:
        return None
    what, figures = measured_by(planned.objectives), planned.figures(point) or {}
    best = planned.choices[0].figures[what.name]
    return {
        "variant": planned.name(point),
        "engine": planned.engine if planned.ran(point) else "analytic",
        "objective": what.name,
        "value": figures[what.name],
        "ahead": what.sign * (best - figures[what.name]) / abs(best) if best else 0.0,
    }


def _constraints(planned: PlannedDesigns) -> list[dict[str, Any]]:
    gains = {row.name: row for row in planned.relaxed}
    found = []
    for one in planned.constraints:
        row = gains.get(one.name)
        found.append(
            {
                "name": one.name,
                "limit": sorted(one.names) if one.names else one.limit,
                "missed_by": sum(text.split(" by ")[0] == one.name for text in planned.missed.values()),
                "gain_without": None if row is None else row.gain,
                "gain_a_tenth_looser": None if row is None else row.gain_tenth,
                "best_without": None if row is None else row.best,
            }
        )
    return sorted(found, key=lambda row: -(row["gain_without"] or 0.0))


def _looked_at(planned: PlannedDesigns) -> dict[str, Any]:
    engines = [outcome.engine for outcome in planned.outcomes.values() if not outcome.error]
    return {
        "designs": planned.space.size,
        "in_closed_form": len(planned.points),
        "demands": len(planned.space.demands),
        "layouts": planned.layouts,
        **{name: engines.count(name) for name in ("analytic", "flow", "serving", "packet")},
        "failed": len(planned.failed),
        "missed": len(planned.missed),
        "same": len(planned.twin_of),
        "closed_form": {
            "mean": math.expm1(planned.closed_form[0]),
            "spread": planned.closed_form[1],
            "of": planned.closed_form[2],
        },
    }


def _failed(planned: PlannedDesigns) -> list[dict[str, Any]]:
    """Why points cannot be, and of how many that holds; then what engines refused."""
    reasons: dict[tuple[str, str], list[int]] = {}
    for point, text in planned.failed.items():
        reasons.setdefault(("analytic", text), []).append(point)
    for (point, _, engine), outcome in planned.outcomes.items():
        if engine != "analytic" and outcome.error:
            reasons.setdefault((engine, outcome.error), []).append(point)
    rows = [
        {"engine": engine, "error": text, "designs": len(points), "such_as": planned.name(min(points))}
        for (engine, text), points in reasons.items()
    ]
    return sorted(rows, key=lambda row: (-int(str(row["designs"])), str(row["error"])))


def _ended(planned: PlannedDesigns) -> list[dict[str, Any]]:
    """Products whose job a fault ends, those first that would cost least with what they lose."""
    what = measured_by(planned.objectives)
    points = [point for point in products(planned, able(planned)) if ended(planned, point)]
    rows = []
    for point in points:
        seen = [planned.seen(point, demand) for demand in range(len(planned.space.demands))]
        value = (planned.figures(point) or {})[what.name]
        rows.append(
            {
                "variant": planned.name(point),
                "settings": planned.space.settings(point),
                "fault": ended(planned, point),
                "lost_s": max(one.lost_s for one in seen if one is not None),
                "engine": planned.engine if planned.ran(point) else "analytic",
                "objective": what.name,
                "value": finite_or_null(value),
            }
        )
    return sorted(rows, key=lambda row: what.sign * (row["value"] or math.inf))[:_SHOWN]


def _answer_points(planned: PlannedDesigns) -> list[dict[str, Any]]:
    """Every point that can be, thinned: objectives, and what became of it."""
    points = products(
        planned,
        [point for point in planned.points if point not in planned.twin_of and planned.figures(point) is not None],
    )
    step = max(1, -(-len(points) // _POINTS))
    close = {choice.point for choice in planned.choices}
    kept = [point for number, point in enumerate(points) if number % step == 0 or point in close]
    rows = []
    for point in kept:
        figures = planned.figures(point) or {}
        values = [finite_or_null(figures.get(one.name)) for one in planned.objectives]
        state = "missed" if point in planned.missed else "run" if planned.ran(point) else "closed form"
        rows.append({"name": planned.name(point), "values": values, "state": state})
    return rows


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
    """Finds which cluster to build.

    Args:
        draft: A scenario with `plan.space`.
        out: Where the folder of the plan is put, and what is known meanwhile; None writes nothing.
        pool: Makes what designs are worked out on, closed at the end; this machine's cores by default.
        faces: Write further files of the answer into the folder.
        report: Called with what is being done and the best design so far, and the share of it from 0 to 1.
        ready: Called once the plan is read; a `KeyboardInterrupt` in it or later ends the plan with what was found.

    Raises:
        InputError: The plan is wrong, nothing keeps its constraints, or `out` is no place for a folder.
    """
    if out is not None:
        expect_folder(out)
    planned = worked_out(draft, out=out, pool=pool, report=report, ready=ready)
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
    """Computes a plan, without its folder; arguments and errors as of `plan`."""
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
