"""Pages of docs/validation on serving, and their lines on its front page; called by validation_page.py."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import serving_left_out as held_out
from model_errors import serving_misses

from railyard.work.serving.software import free_effects
from railyard_validation import page as validation
from railyard_validation.bands import forecast_bands, later_by
from railyard_validation.serving.cases import Case, case_of, drawn
from railyard_validation.serving.compare import family, validate_serving
from railyard_validation.serving.left_out import EVERY, source_of
from railyard_validation.serving.metrics import measured
from railyard_validation.serving.noise import label_noise
from railyard_validation.serving.settings import cold
from railyard_validation.serving.table import read, same_measurement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from railyard.catalog import Catalog
    from railyard_validation.bands import Later, Miss
    from railyard_validation.serving.compare import ServingResult
    from railyard_validation.serving.table import Row

    Goal = tuple[str, str, str, str, str]
    Errors = Mapping[str, Mapping[str, float]]

TABLE = held_out.TABLE
PAGES = Path(__file__).resolve().parents[2] / "docs" / "validation"
MLPERF, DEEPSEEK = "MLPerf Inference v5.1", "deepseek-ai/open-infra-index day_6"
WRITTEN = """Written by `validation/tools/validation_page.py` from `validation/data/serving/measured.csv`; kept
fresh by continuous integration. Each measurement counts once, however often the tables repeat it."""
STRANGER = """**Without the row's source in the fit: {source}**; without its model {model}; its device {device};
fitted on what was published before the row's quarter alone: {time}.
One row in {every} is predicted so, by constants that have not seen its source: so are the figure and the
tables below. {coverage} of the rows that publish it can be predicted; the others are listed with the reason.
{count} constants are fitted at all (`fitted` in `src/railyard/work/serving/data/constants.toml`, by
`validation/tools/fit_serving.py`): {names}."""
LATER = """
## Forecast from what was published before

Constants and bands of each line come from earlier quarters; *width* and *interval score* as in [how far to believe
it](believe.md).

| published | forecast | mean error | median error | inside the band | width of the band | interval score |
|---|---|---|---|---|---|---|
{lines}
"""
BY_KIND = """**Without the source, one server: {one}; pools of their own for prompts: {split}.**
Two measurements under one label and one version of the engine differ by {one_noise}, and where prompts have pools
of their own by {split_noise}: those labels leave out how many workers there are and whether tokens are drafted,
which no law can know."""
TITLES = {
    "tpot": "time per token",
    "ttft": "time to the first token",
    "throughput": "throughput",
    "power": "power",
}
WANTED = (("tpot", "time per token", "12 %"), ("ttft", "time to the first token", "18 %"))
LEADS = {
    "tpot": f"""{WRITTEN}

{STRANGER}

{BY_KIND}""",
    "ttft": f"""{WRITTEN}

{STRANGER}

{BY_KIND}

A first token waits in a queue: rows that say their load are run request by request, as their benchmarks send them.
InferenceX on one server:

- its client warmed the engine up (from 21 January 2026): {{warm}};
- it did not, and the first users waited until kernels were compiled, for a time that nobody published: {{cold}}.

With pools for prompts the goal of 30 % is missed. Labels leave out the number of workers, and no source says how long
its router holds a request before a pool takes it.""",
    "throughput": f"""{WRITTEN}

{STRANGER}

No throughput is fitted: it follows from the constants of the time per token and of the first token. Rows of one source
count input tokens, those of another output tokens, each by the accelerators that it names.

DeepSeek published two rates of the same unit for prompts: 7,839 computed tokens/s an accelerator in its profile, whose
batches are always full and whose routing is even, and 4,026 in the mean of a day, where prompts come as users send them
and must start soon. A prediction here is of a unit that is always full: it meets the profile within 5 % and is too high
for the day. Size a service for the load of each hour, as `railyard operate` does, not by the full rate.""",
    "power": f"""{WRITTEN}

{STRANGER}

The law of an accelerator's power was fitted on the ML.ENERGY leaderboard, whose rows carry no licence and are not in
the table; none of the rows below is in that fit. MLPerf's are wall power of whole servers: 1.30 W at the wall for
each watt of an accelerator, which is what the submissions with B200 draw at full load.""",
    "cost": f"""{WRITTEN}

Nothing is fitted: a million tokens cost the row's own price of an accelerator hour over the predicted tokens of that
hour. Rows that name no price of an hour cannot be predicted.""",
}


def write(known: Catalog) -> list[Goal]:
    """Writes a page for each metric; what they reach of the goals."""
    if not held_out.is_fresh():
        held_out.main()
    apart, rows = held_out.recorded(), _standing()
    for metric, errors in apart.items():
        cases = [(row, case_of(row, known)) for row in rows]
        page = _left_out_page(metric, errors["source"], cases)
        said = _said(errors, page) | _by_kind(metric, errors["source"], [one for _, one in cases])
        whole = replace(page, lead=LEADS[metric].format(**said), sections=_later(metric, known))
        validation.write(whole, PAGES / f"serving-{metric}.md")
    cost = validate_serving(TABLE, known, metric="cost")
    validation.write(replace(validation.of_serving(cost), lead=LEADS["cost"]), PAGES / "serving-cost.md")
    own = {row.id for row in rows if row.get("framework").startswith("DeepSeek")}
    units = [row for row in validate_serving(TABLE, known, metric="throughput").rows if row.id in own]
    return _goals(apart, [*units, *(row for row in cost.rows if row.id in own)])


def _later(metric: str, known: Catalog) -> str:
    """Forecasts of a metric by half year and by generation, under the bands of what was published before."""
    pairs = [(miss, case) for miss, case in serving_misses(known) if miss.question == metric]
    case_of_miss = {id(miss): case for miss, case in pairs}
    rows = forecast_bands([miss for miss, _ in pairs])

    def half(miss: Miss) -> str:
        year, month = case_of_miss[id(miss)].row.get("published").split("-")
        return f"{year}, {'first' if int(month) <= 6 else 'second'} half"

    by = [half, lambda miss: case_of_miss[id(miss)].device.architecture, lambda miss: miss.family]
    found = [one for part in by for one in later_by(rows, part)]
    return LATER.format(lines="\n".join(_line(one) for one in found)) if found else ""


def _line(one: Later) -> str:
    shares = (one.mean, one.median, one.inside, one.width, one.score)
    return "| " + " | ".join((one.part, str(one.rows), *(f"{100 * share:.0f} %" for share in shares))) + " |"


def _standing() -> list[Row]:
    """Rows of the table, each measurement once."""
    rows = read(TABLE)
    stands = same_measurement(rows)
    return [row for row in rows if stands[row.line] == row.line]


def _left_out_page(
    metric: str, errors: Mapping[str, float], rows: list[tuple[Row, Case | str]]
) -> validation.Validation:
    """The page of one metric: predictions without the row's source, and how much of each source can be predicted."""
    told = [(row, case, measured(row, metric)) for row, case in rows]
    known = [(row, case, value) for row, case, value in told if value is not None]
    refused = [(row, case) for row, case, _ in known if isinstance(case, str)]
    points = [
        validation.Point(
            row.id,
            source_of(case),
            value[1],
            value[1] * (1.0 + errors[row.id]),
            errors[row.id],
            "; ".join(case.defaults),
        )
        for row, case, value in known
        if isinstance(case, Case) and row.id in errors
    ]
    every = Counter(source_of(case) for _, case, _ in known if isinstance(case, Case))
    lost = Counter(family(row.get("source")).split(",")[0] for row, _ in refused)
    covered = {name: f"{100 * count / (count + lost[name]):.0f} %" for name, count in every.items()}
    covered["all"] = f"{100 * every.total() / (every.total() + len(refused)):.1f} %"
    return validation.Validation(
        title=f"Serving against what was measured: {TITLES[metric]}",
        lead="",
        quantity=known[0][2][0].replace("_s", ", seconds"),
        points=points,
        skipped=[f"line {row.line}: {reason}" for row, reason in refused],
        columns={"of the source covered": covered},
    )


def _said(apart: Mapping[str, Mapping[str, float]], page: validation.Validation) -> dict[str, str]:
    """What a lead is filled with."""
    effects = free_effects()
    return {
        **{name: _median_and_tail(list(errors.values())) for name, errors in apart.items()},
        "every": str(EVERY),
        "coverage": page.columns["of the source covered"]["all"],
        "count": str(len(effects)),
        "names": ", ".join(
            f"`{name}`" + ("" if level == "all" else f" of {level.strip('/')}") for name, level in effects
        ),
    }


def _by_kind(metric: str, errors: Mapping[str, float], cases: Sequence[Case | str]) -> dict[str, str]:
    """Errors and noise of deployments on one server, and of those with pools of their own for prompts."""
    found = {}
    for name, split in (("one", False), ("split", True)):
        those = [case for case in cases if isinstance(case, Case) and (case.prefill is not None) == split]
        apart = [errors[case.row.id] for case in those if case.row.id in errors]
        noise = label_noise(those, metric)
        found[name] = f"{_median_and_tail(apart)}, {len(apart)} rows" if apart else "none"
        found[f"{name}_noise"] = (
            f"{_percent(noise.median)} in the median of {noise.pairs} pairs" if noise else "nothing"
        )
    sent = [case for case in cases if isinstance(case, Case) and case.row.id in errors and case.prefill is None]
    for name, without in (("warm", False), ("cold", True)):
        started = [errors[case.row.id] for case in sent if drawn(case.row) and cold(case.row) == without]
        found[name] = f"{_median_and_tail(started)}, {len(started)} rows" if started else "none"
    return found


def _goals(apart: Mapping[str, Mapping[str, Mapping[str, float]]], services: Sequence[ServingResult]) -> list[Goal]:
    goals = []
    for metric, text, wanted in WANTED:
        parts = {name: _median_and_tail(list(errors.values())) for name, errors in apart[metric].items()}
        others = f"its model left out: {parts['model']}; its device: {parts['device']}; its time: {parts['time']}"
        count = str(len(apart[metric]["source"]))
        goals.append((f"{text}: median without the source", count, wanted, parts["source"], others))
    power = [error for row, error in apart["power"]["source"].items() if row in _ids(MLPERF)]
    reached = _percent(np.median(np.abs(power))) if power else "none in the sample"
    goals.append((f"wall power, {MLPERF}: median", str(len(power)), "8 %", reached, "its law is of other rows"))
    for row in services:
        if row.error is None or row.predicted is None or row.measured is None:
            continue
        unit = "production unit, mean of a day" if row.source.startswith(DEEPSEEK) else "profiled unit, always busy"
        text, reached = f"DeepSeek's {unit}: {row.metric}", f"{100 * row.error:+.1f} %"
        if "usd" in row.metric:
            text = f"DeepSeek's day: ${row.measured:.3f} per million tokens, from predicted rates of its units"
            reached = f"${row.predicted:.3f}, {reached}"
        goals.append((text, "1", "15 %", reached, "no row of it is fitted"))
    return goals


def _ids(source: str) -> set[str]:
    return {row.id for row in _standing() if row.get("source").startswith(source)}


def _median_and_tail(errors: Sequence[float]) -> str:
    sizes = np.abs(errors)
    return f"{_percent(np.median(sizes))} (90th percentile {_percent(np.quantile(sizes, 0.9))})"


def _percent(share: float | None) -> str:
    return "none" if share is None else f"{100 * share:.1f} %"
