"""`railyard accept PLAN --pilot`: what to test on a vendor's pilot pod, and what the results say of the plan."""

from __future__ import annotations

import math
import textwrap
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.accept.planned import WRITE_BYTES, WRITE_LEAST
from railyard.ask.accept.results import collected
from railyard.ask.accept.tests import NCCL, WRITE, ExpectedValue, Test
from railyard.ask.plan.confidence import chances
from railyard.ask.plan.pilot import SIZE_BYTES, best, sheet, typical
from railyard.ask.plan.study import worked_out
from railyard.ask.plan.uncertainty import Uncertainty
from railyard.face import signals
from railyard.face.terminal import Table, emit, say
from railyard.face.verb import RUNS, Reply
from railyard.kit.errors import InputError
from railyard.measure import numbers
from railyard.measure.result.section import EIGHT_OF_TEN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from railyard.ask.plan.pilot import Flip, PilotSheet, PilotTest
    from railyard.ask.plan.planned import PlannedDesigns
    from railyard.work.scenario.load import Draft

WIDTH = 100
"""Width of the output."""

GEMM = "gemm"


def pilot(draft: Draft, servers: int | None, results: Path | None, progress: Callable[[str, float], None]) -> Reply:
    """The tests of a pilot pod, or what results say of the plan.

    Raises:
        InputError: The plan is wrong or was stopped, a pod cannot be so large, or nothing was measured.
    """
    points = RUNS if RUNS.is_dir() else None
    planned = worked_out(draft, out=points, report=progress, ready=lambda: signals.ready(once=True))
    if planned.sure is None:
        raise InputError("the plan was stopped before its chances were drawn", found=draft.title)
    found = sheet(planned, servers, progress)
    checks = _checks(planned)
    plain = _plain(found, checks)
    code = 0
    if results is not None and draft.scenario.plan is not None:
        measured, code = _measured(results, found, checks)
        plain["results"] = _learned(found, measured, draft.scenario.plan.effort.draws, draft.seed)
        plain["answer"] = _changed(planned, plain["results"])
    return Reply(found, lambda: _show(found, plain), lambda: plain, headline=plain["answer"], code=code)


def _checks(planned: PlannedDesigns) -> list[Test]:
    """Tests that show that a pod is sound before its other results count: a link, and a matrix product."""
    cluster = planned.choices[0].hardware[0].cluster
    device = cluster.accelerator
    rate = cluster.plans["back_end"].link_bps * cluster.fabric.payload_efficiency / 1e9
    link = cluster.plans["back_end"].link_bps / 1e9
    flops = device.flops["bf16"] * device.gemm_efficiency / 1e12
    return [
        Test(
            f"write-{cluster.fabric.name}",
            "pair",
            WRITE,
            "",
            2,
            0,
            "Gb/s",
            "",
            (),
            (ExpectedValue(WRITE_BYTES, rate, WRITE_LEAST * rate, link),),
        ),
        Test(
            f"gemm-{device.name}", "node", GEMM, "", 1, 1, "TFLOP/s", "", (), (ExpectedValue(0, flops, 0.0, math.inf),)
        ),
    ]


_RUN = {
    WRITE: f"ib_write_bw -d NIC --report_gbits -F -q 2 -s {WRITE_BYTES} -D 10 SERVER",
    GEMM: (
        "python -c \"import torch as t; n=8192; a=t.randn(n,n,device='cuda',dtype=t.bfloat16);"
        " s,e=(t.cuda.Event(enable_timing=True) for _ in range(2)); [a@a for _ in range(20)]; s.record();"
        " [a@a for _ in range(100)]; e.record(); t.cuda.synchronize();"
        " print(2*n**3*100/s.elapsed_time(e)/1e9, 'TFLOP/s')\""
    ),
}


def _band(found: PilotSheet, trial: PilotTest) -> tuple[float, float, float]:
    """Least, expected and greatest value: eight of ten results lie between the ends."""
    mean, deviation = found.beliefs.spread(trial)
    ends = sorted(trial.value(mean + way * EIGHT_OF_TEN * deviation) for way in (-1, 1))
    return ends[0], trial.value(mean), ends[1]


def _plain(found: PilotSheet, checks: Sequence[Test]) -> dict[str, Any]:
    planned = found.planned
    what = planned.objectives[0]
    plain: dict[str, Any] = {
        "format": "railyard-pilot/1",
        "name": planned.space.base.scenario.name,
        "objective": what.name,
        "recommended": planned.choices[0].name,
        "answer": "",
        "designs": [_design(planned, number) for number in _named(found)],
        "tests": [_row(found, trial, flips) for trial, flips in found.rows],
        "checks": [_check(one) for one in checks],
        "results": None,
    }
    plain["answer"] = _answer(plain)
    return plain


def _named(found: PilotSheet) -> list[int]:
    """Designs that the sheet speaks of, the recommended one first."""
    tested = [trial.choice for trial, _ in found.rows]
    return sorted({0, *tested, *(flip.choice for _, flips in found.rows for flip in flips)})


def _design(planned: PlannedDesigns, number: int) -> dict[str, Any]:
    """A design and by how much it costs more than the recommended one."""
    choice, first, what = planned.choices[number], planned.choices[0], planned.objectives[0]
    value, best_value = choice.figures[what.name], first.figures[what.name]
    return {
        "variant": choice.name,
        "settings": planned.space.settings(choice.point),
        "value": value,
        "behind": what.sign * (value - best_value) / abs(best_value) if best_value else 0.0,
        "capex_usd": choice.figures["capex"],
        "capex_difference_usd": choice.figures["capex"] - first.figures["capex"],
    }


def _row(found: PilotSheet, trial: PilotTest, flips: Sequence[Flip]) -> dict[str, Any]:
    low, expected, high = _band(found, trial)
    return {
        "test": trial.name,
        "kind": trial.kind,
        "design": found.planned.choices[trial.choice].name,
        "servers": trial.servers,
        "accelerators": trial.ranks,
        "command": trial.command,
        "size_bytes": SIZE_BYTES if trial.collective else None,
        "unit": trial.unit,
        "predicted": trial.predicted,
        "expected": expected,
        "low": low,
        "high": high,
        "chance": sum(flip.chance for flip in flips),
        "flips": [_flip(found.planned, flip) for flip in flips],
    }


def _flip(planned: PlannedDesigns, flip: Flip) -> dict[str, Any]:
    other = _design(planned, flip.choice)
    told = {key: other[key] for key in ("variant", "behind", "capex_difference_usd")}
    return {"value": flip.value, "above": flip.above, "chance": flip.chance, **told}


def _check(one: Test) -> dict[str, Any]:
    mark = one.marks[0]
    return {
        "test": one.name,
        "servers": one.servers,
        "command": _RUN[one.method],
        "unit": one.unit,
        "expected": mark.expected,
        "low": mark.low,
        "high": mark.high if math.isfinite(mark.high) else None,
    }


def _answer(plain: dict[str, Any]) -> str:
    best_now = plain["recommended"]
    first = next((row for row in plain["tests"] if row["flips"]), None)
    if first is None:
        return f"Buy {best_now}: no result that a pilot pod is likely to show changes that."
    flip = first["flips"][0]
    words = "more" if flip["above"] else "less"
    return (
        f"Buy {best_now}, unless {first['test']} shows {words} than {flip['value']:.4g} {first['unit']}"
        f" ({first['expected']:.4g} expected, chance {numbers.percent(flip['chance'])}): then {flip['variant']}."
    )


def _changed(planned: PlannedDesigns, results: dict[str, Any]) -> str:
    words = numbers.counted(len(results["measured"]), "result")
    if not results["changed"]:
        return f"Buy {results['after']} as before: {words} do not change the recommendation."
    what = planned.objectives[0].name
    gain = next(row["gain"] for row in results["designs"] if row["variant"] == results["after"])
    return (
        f"Buy {results['after']}, not {results['before']}: after {words} its {what} is {numbers.percent(gain)} better."
    )


def _measured(path: Path, found: PilotSheet, checks: Sequence[Test]) -> tuple[dict[str, float], int]:
    """The median of what was measured, by test; and the exit code."""
    tests = [*checks]
    for trial, _ in found.rows:
        low, expected, high = _band(found, trial)
        mark = ExpectedValue(SIZE_BYTES if trial.collective else 0, expected, low, high)
        method = NCCL if trial.collective else trial.kind
        scope, servers, ranks = "pilot", trial.servers, trial.ranks
        tests.append(Test(trial.name, scope, method, trial.collective, servers, ranks, trial.unit, "", (), (mark,)))
    read = collected(path, tests)
    marks = {one.name: one.marks[0].size_bytes for one in tests}
    values = {name: median(each) for (name, size), each in read.values.items() if size == marks[name]}
    wrong = [name for name, value in values.items() if not 0 < value < math.inf]
    if wrong:
        raise InputError("a result must be more than zero", file=path, key=wrong[0], found=values[wrong[0]])
    if not values:
        raise InputError.many(read.problems) if read.problems else InputError("there is no result", file=path)
    for problem in read.problems:
        say(problem.render())
    return values, InputError.exit_code if read.problems else 0


def _learned(found: PilotSheet, values: dict[str, float], draws: int, seed: int) -> dict[str, Any]:
    """Effect of results on the plan: the recommendation before and after, and bands of its designs."""
    planned, what = found.planned, found.planned.objectives[0]
    trials = [trial for trial, _ in found.rows if trial.name in values]
    errors = [trial.error(values[trial.name]) for trial in trials]
    doubts = Uncertainty.of(planned.choices, planned.closed_form[:2])
    before = doubts.sampled(draws, seed)
    after, moved = before, dict[str, float]()
    if trials:
        moved = found.beliefs.moved(trials, errors)
        after = found.beliefs.redrawn(before, trials, errors)
    costs = typical(planned, {name: _column(value) for name, value in moved.items()})[:, 0]
    sides = [chances(planned.choices, drawn, planned.objectives, planned.shares) for drawn in (before, after)]
    told = found.beliefs.given(trials, errors) if trials else found.beliefs
    chosen = int(best(planned, {name: _column(value) for name, value in moved.items()})[0])
    rows = []
    for number in dict.fromkeys([chosen, *_named(found)]):
        bands = [_percentiles(side[1][what.name][number]) for side in sides]
        rows.append(
            {
                "variant": planned.choices[number].name,
                "before": bands[0],
                "after": bands[1],
                "chance_before": float(sides[0][0][what.name][number]),
                "chance_after": float(sides[1][0][what.name][number]),
                "gain": float((costs[0] - costs[number]) / abs(costs[0])),
            }
        )
    return {
        "before": planned.choices[0].name,
        "after": planned.choices[chosen].name,
        "changed": chosen != 0,
        "measured": [{"test": name, "value": value} for name, value in values.items()],
        "designs": rows,
        "factors": [
            {
                "factor": name,
                "moved": moved.get(name, 0.0),
                "spread_before": math.sqrt(found.beliefs.covariance[at, at]),
                "spread_after": math.sqrt(max(told.covariance[at, at], 0.0)),
            }
            for at, name in enumerate(found.beliefs.names)
        ],
    }


def _percentiles(values: Any) -> dict[str, float]:
    return dict(zip(("p10", "p50", "p90"), map(float, values), strict=True))


def _show(found: PilotSheet, plain: dict[str, Any]) -> None:
    """The designs, their tests by how likely they change the choice, and the commands to run."""
    letters = {row["variant"]: _letter(at) for at, row in enumerate(plain["designs"])}
    if plain["results"] is not None:
        _show_results(found, plain, letters)
        emit("")
    _designs(found.planned, plain, letters)
    emit("")
    _tests(plain, letters)
    for row in (*plain["tests"], *plain["checks"]):
        emit("")
        emit(f"{row['test']}:")
        lines = textwrap.wrap(row["command"], WIDTH - 6, break_long_words=False, break_on_hyphens=False)
        emit("    " + " \\\n    ".join(lines))


def _letter(at: int) -> str:
    """A, B, ... Z, then numbers."""
    return chr(ord("A") + at) if at < 26 else str(at + 1)


def _designs(planned: PlannedDesigns, plain: dict[str, Any], letters: dict[str, str]) -> None:
    what = planned.objectives[0]
    table = Table(("", what.name, "worse than A", "capital", "more than A", "design"), (1, 2, 3, 4))
    for row in plain["designs"]:
        figures = (numbers.dollars(row["capex_usd"]), numbers.signed_dollars(row["capex_difference_usd"]))
        name, *more = textwrap.wrap(row["variant"], WIDTH - 45) or [""]
        table.add(
            letters[row["variant"]], numbers.of_unit(row["value"], what.unit), f"{row['behind']:+.2%}", *figures, name
        )
        for line in more:
            table.add("", "", "", "", "", line)
    table.print()


def _tests(plain: dict[str, Any], letters: dict[str, str]) -> None:
    heads = ("test", "of", "servers", "expected", "80 % interval", "changes at", "to", "chance")
    table = Table(heads, (2, 3, 4, 5, 7))
    for row in plain["tests"]:
        cells = (letters[row["design"]], str(row["servers"]), f"{row['expected']:.4g} {row['unit']}", _ends(row))
        turns = [
            (f"{'>' if flip['above'] else '<'} {flip['value']:.4g}", letters[flip["variant"]], _share(flip["chance"]))
            for flip in row["flips"]
        ]
        table.add(row["test"], *cells, *(turns[0] if turns else ("never", "", "")))
        for turn in turns[1:]:
            table.add("", "", "", "", "", *turn)
    for row in plain["checks"]:
        ends = _ends(row) if row["high"] is not None else ""
        table.add(row["test"], "A", str(row["servers"]), f"{row['expected']:.4g} {row['unit']}", ends, "check", "", "")
    table.print()


def _ends(row: dict[str, Any]) -> str:
    return f"{row['low']:.3g} to {row['high']:.3g}"


def _share(chance: float) -> str:
    return "< 0.1 %" if chance < 0.001 else numbers.percent(chance)


def _show_results(found: PilotSheet, plain: dict[str, Any], letters: dict[str, str]) -> None:
    what, results = found.planned.objectives[0], plain["results"]
    rows = {row["test"]: row for row in (*plain["tests"], *plain["checks"])}
    table = Table(("measured", "value", "expected", "80 % interval", ""), (1, 2, 3))
    for one in results["measured"]:
        row = rows[one["test"]]
        high = math.inf if row["high"] is None else row["high"]
        words = "" if row["low"] <= one["value"] <= high else "outside"
        ends = "" if row["high"] is None else _ends(row)
        table.add(one["test"], f"{one['value']:.4g} {row['unit']}", f"{row['expected']:.4g}", ends, words)
    table.print()
    emit("")
    table = Table(("", f"{what.name}, 80 % before", "after", "best before", "after"), (1, 2, 3, 4))
    for row in results["designs"]:
        bands = [
            f"{numbers.of_unit(row[side]['p10'], what.unit)} to {numbers.of_unit(row[side]['p90'], what.unit)}"
            for side in ("before", "after")
        ]
        table.add(letters[row["variant"]], *bands, _share(row["chance_before"]), _share(row["chance_after"]))
    table.print()
    narrowed = [row for row in results["factors"] if row["spread_after"] < (1 - 1e-9) * row["spread_before"]]
    if narrowed:
        emit("")
        table = Table(("80 % interval before", "after", "moved by", "of the model's error"), (0, 1, 2))
        for row in narrowed:
            widths = [f"{math.expm1(EIGHT_OF_TEN * row[side]):.1%}" for side in ("spread_before", "spread_after")]
            table.add(*widths, f"{math.expm1(row['moved']):+.1%}", row["factor"])
        table.print()


def _column(value: float) -> Any:
    return np.array([value])
