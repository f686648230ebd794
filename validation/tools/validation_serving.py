"""Pages of docs/validation on serving, and their lines on its front page; called by validation_page.py."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import serving_left_out as held_out

from railyard.workload.serving.profiles import free_effects
from railyard_validation import page as validation
from railyard_validation.serving.compare import METRICS, validate_serving
from railyard_validation.serving.left_out import EVERY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from railyard.catalog import Catalog
    from railyard_validation.serving.compare import ServingReport

    Goal = tuple[str, str, str, str, str]
    Errors = Mapping[str, Mapping[str, float]]

TABLE = held_out.TABLE
PAGES = Path(__file__).resolve().parents[2] / "docs" / "validation"
MLPERF, DEEPSEEK = "MLPerf Inference v5.1", "deepseek-ai/open-infra-index day_6"
WRITTEN = """Written by `validation/tools/validation_page.py` from `validation/data/serving/measured.csv`; kept
fresh by continuous integration. Each measurement counts once, however often the tables repeat it."""
STRANGER = """**Without the row's source in the fit: {source}**; without its model {model}; without its device {device}.
One row in {every} is predicted so, each by constants fitted on the others ({coverage} of the rows that publish it are
predicted; those that are not stand below, with the reason). {count} constants are fitted at all (`fitted` in
`src/railyard/workload/serving/data/constants.toml`, by `validation/tools/fit_serving.py`): {names}."""
LEADS = {
    "tpot": f"""{WRITTEN}

{STRANGER}

The table below is of constants that have seen its rows.""",
    "ttft": f"""{WRITTEN}

{STRANGER}

A first token waits in a queue: rows that say their load are run request by request, as their benchmarks send them. The
table below is of constants that have seen its rows.""",
    "throughput": f"""{WRITTEN}

{STRANGER}

No throughput is fitted: it follows from the constants of the time per token and of the first token. Rows of one source
count input tokens, those of another output tokens, each by the accelerators that it names.""",
    "power": f"""{WRITTEN}

{STRANGER}

The law of an accelerator's power was fitted on the ML.ENERGY leaderboard, whose rows carry no licence and are not in
the table; none of the rows below stands in that fit. MLPerf's are wall power of whole servers: 1.30 W at the wall for
each watt of an accelerator, which is what the submissions with B200 draw at full load.""",
    "cost": f"""{WRITTEN}

Nothing is fitted: a million tokens cost the row's own price of an accelerator hour over the predicted tokens of that
hour. Rows that name no price of an hour cannot be predicted.""",
}


def write(known: Catalog) -> list[Goal]:
    """Writes a page for each metric; what they reach of the goals."""
    if not held_out.is_fresh():
        held_out.main()
    apart = held_out.recorded()
    reports = {metric: validate_serving(TABLE, known, metric=metric) for metric in METRICS}
    for metric, report in reports.items():
        page = validation.of_serving(report)
        lead = LEADS[metric].format(**_said(report, apart.get(metric, {})))
        whole = validation.Validation(**{**page.__dict__, "lead": lead})
        validation.write(whole, PAGES / f"serving-{metric}.md")
    return _goals(reports, apart)


def _said(report: ServingReport, apart: Errors) -> dict[str, str]:
    """What a lead is filled with."""
    effects = free_effects()
    return {
        **{name: _median_and_tail(list(errors.values())) for name, errors in apart.items()},
        "every": str(EVERY),
        "coverage": _percent(report.summary()["coverage"]),
        "count": str(len(effects)),
        "names": ", ".join(
            f"`{name}`" + ("" if level == "all" else f" of {level.strip('/')}") for name, level in effects
        ),
    }


def _goals(reports: Mapping[str, ServingReport], apart: Mapping[str, Errors]) -> list[Goal]:
    goals = []
    for metric, text, wanted in (("tpot", "time per token", "12 %"), ("ttft", "time to the first token", "20 %")):
        found = reports[metric].summary()
        seen = f"{_percent(found['median_abs_error'])}, {_percent(found['p90_abs_error'])}"
        without = "; ".join(
            f"{name} {_median_and_tail(list(errors.values()))}" for name, errors in apart[metric].items()
        )
        goals.append(
            (
                f"{text}: median, 90th percentile ({_percent(found['coverage'])} covered)",
                str(found["n"]),
                f"{wanted} without the source",
                seen,
                without,
            )
        )
    power = reports["power"].sources()[MLPERF]
    goals.append(
        (
            "wall power, MLPerf Inference v5.1: median",
            str(power["n"]),
            "8 %",
            _percent(power["median_abs_error"]),
            "its law is of other rows",
        )
    )
    for row in reports["throughput"].rows:
        if row.source.startswith(DEEPSEEK) and row.error is not None:
            text = f"DeepSeek's production unit: {row.metric}"
            goals.append((text, "1", "12 %", f"{100 * row.error:+.1f} %", "no row of it is fitted"))
    for row in reports["cost"].rows:
        if row.source.startswith(DEEPSEEK) and row.error is not None:
            text = f"DeepSeek's day: ${row.measured:.3f} per million tokens, from predicted rates of its units"
            goals.append(
                (text, "1", "12 %", f"${row.predicted:.3f}, {100 * row.error:+.1f} %", "no row of it is fitted")
            )
    return goals


def _median_and_tail(errors: Sequence[float]) -> str:
    sizes = np.abs(errors)
    return f"{_percent(np.median(sizes))} (90th percentile {_percent(np.quantile(sizes, 0.9))})"


def _percent(share: float | None) -> str:
    return "none" if share is None else f"{100 * share:.1f} %"
