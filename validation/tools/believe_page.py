"""Writes docs/validation/believe.md from the record of model error that the package ships.

python validation/tools/believe_page.py
"""

from __future__ import annotations

import math
import statistics
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from model_errors import recorded

from railyard import catalog
from railyard.measure.model_error import UNKNOWN, judged_software, record
from railyard_validation.bands import forecast_bands, later, later_by
from railyard_validation.collectives import left_out as collectives
from railyard_validation.training.cases import predicted_s, read_cases
from railyard_validation.training.compare import band_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from railyard.measure.model_error import ModelError
    from railyard_validation.bands import Later, Miss

PAGE = Path(__file__).resolve().parents[2] / "docs" / "validation" / "believe.md"
BULLETS = (
    "**Sign on it** (eight of ten within {near}): {sure}.",
    "**Sign after three runs of yours** (then as near): {later}.",
    "**Measure first**: {unsure}.",
    "**Software is known** where the scenario names it (`workload.training.software`) and the model was judged by its"
    " published steps on the same accelerator architecture: {software}. Otherwise a run shows the wider band and says"
    " so.",
    "**A check from outside**: [training runs of strangers](strangers.md), none of which the bands rest on."
    " {known_inside} of {known_all} on known software lie inside their band, and {unknown_inside} of {unknown_all} on"
    " other software. The largest misses are Megatron-Turing NLG 530B, and NeMo AutoModel's 70B models, whose published"
    " batch sizes contradict each other: both took longer than predicted.",
)
STRANGERS = Path(__file__).resolve().parents[1] / "data" / "training" / "strangers.csv"
LOGS = Path(__file__).resolve().parents[1] / "data" / "nccl"
LARGE = "from 64 MiB"
NEWEST = "MLPerf Training, 2026-01"
"""Source and half year of the newest generation of systems."""


@dataclass(frozen=True)
class Forecast:
    """A class of predictions that one believes alike.

    Attributes:
        question: Of their bands.
        asked: What a user asks.
        short: The same in a list.
        holds: Whether a family belongs to it.
    """

    question: str
    asked: str
    short: str
    holds: Callable[[str], bool] = bool


def _one_pool(family: str) -> bool:
    return "one pool" in family


def _split(family: str) -> bool:
    return not _one_pool(family)


FORECASTS = (
    Forecast(
        "step",
        "a training step, tokens/s, $/Mtoken of training; software known",
        "training time and cost of known software",
        lambda family: not family.endswith(UNKNOWN),
    ),
    Forecast(
        "step",
        "a training step, tokens/s, $/Mtoken of training; software not known",
        "training time and cost of software that is not known",
        lambda family: family.endswith(UNKNOWN),
    ),
    *(
        Forecast(question, f"{asked}{pools}", f"{short}{pools}", holds)
        for question, asked, short in (
            ("throughput", "tokens/s of a service, its $/Mtoken", "tokens/s of a service"),
            ("tpot", "time per token (TPOT), median", "time per token"),
            ("ttft", "time to the first token (TTFT), median", "time to the first token"),
        )
        for pools, holds in (("", _one_pool), ("; pools for prompts", _split))
        if question != "throughput" or not pools
    ),
    Forecast("power", "power of the accelerators", "power"),
    Forecast("collective", "one collective below 64 MiB", "collectives below 64 MiB", lambda family: family != LARGE),
    Forecast("collective", "one collective from 64 MiB", "collectives from 64 MiB", lambda family: family == LARGE),
    Forecast(
        "slowed kernels",
        "what kernels lose to an overlapping collective",
        "what kernels lose to overlapping collectives",
    ),
)
NEAR = 0.2
"""How far eight of ten may lie from a figure that one signs on, in its worst family."""
FEWEST = 10
"""Measured rows that a family needs before anybody signs on it."""

LATER = (
    "Constants and bands of each line come from what was published before it; a run whose software was not yet"
    " read is forecast with the release before. *Width* is from the low to the high end of the band; the *interval"
    " score* adds ten times what a run lies outside, so that no band wins by width alone. The newest generation"
    " errs most: {newest} steps of MLPerf Training v6.0 are {off} off on the mean. The mechanisms were written"
    " with all of these runs known: what nobody has published yet may lie further off."
)

SERVING_LATER = (
    "Figures by generation of accelerator stand on the pages of [time per token](serving-tpot.md), [time to the first"
    " token](serving-ttft.md) and [throughput](serving-throughput.md). A deployment is *new* where nobody had published"
    " its model on that architecture, by that engine and in that precision: its band is wider, as it is where prompts"
    " have pools of their own, whose labels leave out how many workers there are."
)

TEXT = """# How far to believe it

**Of {later_rows} published training steps that came after everything that their forecast rests on, {later_inside} lay
inside their band; the forecasts were {later_mean} off on the mean, {later_median} at the median.** By half year:

| known until | forecast | mean error | median error | inside the band | width of the band | interval score |
|---|---|---|---|---|---|---|
{later_table}

{later_text}

The same forecasts by generation of accelerators; those of Ampere are all of late 2024, and rest on few runs:

| generation | forecast | mean error | median error | inside the band | width of the band | interval score |
|---|---|---|---|---|---|---|
{generation_table}

**Of {collective_rows} published times of collectives, forecast in the same way, {collective_inside} lay inside their
band; the forecasts were {collective_mean} off on the mean, {collective_median} at the median**
([by generation and release](collectives.md)):

| known until | forecast | mean error | median error | inside the band | width of the band | interval score |
|---|---|---|---|---|---|---|
{collective_table}

**Of {serving_rows} published figures of serving that came after everything that their forecast rests on,
{serving_inside} lay inside their band; the time per token was {tpot} off at the median, the time to the first token
{ttft}, tokens/s {throughput}.** By quarter:

| known until | figure | forecast | mean error | median error | inside the band | width of the band | interval score |
|---|---|---|---|---|---|---|---|
{serving_table}

{serving_text}

A prediction here is a figure with a band, which is to hold eight of ten. Each band is read off runs of other people,
predicted as yours would be: by constants that had not seen them. Training steps and collectives are forecast from
earlier half years, figures of serving from earlier quarters.

## In a minute

| you ask | typically off by | eight of ten lay | after three runs of yours |
|---|---|---|---|
{short}

{bullets}
- Which of two is better is surer than how good one is: what they share cancels. Inside the band it is called a *tie*,
  and a tie is no reason to spend.
- Dollars have a second band, of prices: replace the catalogue's by your quotes.

## By kind of work

| question | of what | typical miss | real figures lay | with three runs of yours | variants tie up to | rests on |
|---|---|---|---|---|---|---|
{rows}

- *Typical miss* is the median; *real figures lay* is the band around a prediction: -10 to +20 % means that a
  predicted 10 s were measured as 9 to 12 s.
- **What narrows it: three runs of your own.** Runs of one model on one machine err together. One factor, the median of
  three measured runs, put on the others gives the band in the fifth column; `railyard calibrate runs --table MINE.csv`
  does it with more care ([how](../how-to/calibrate.md), [what it is worth](calibrated.md)). Where the band does not
  narrow, each row errs for a reason of its own: measure the deployment that you mean to buy.
- **Comparisons are surer than single figures**, because what two variants share cancels. The sixth column is for the
  same software, model and accelerator with another layout or other replicas. If only the network
  differs, computation cancels as well, and what is left is the error of the two network taxes: that of a collective on
  all of a tax, and that of slowed kernels on their part of it. A difference that is smaller than this error, or than
  the uncertainty of prices, is called a *tie*; *best* is used only beyond it.
- **Prices are another matter**: dollars carry a band of their own (low, typical, high) as well. Where a service
  gets fewer requests than it could answer, a token's cost depends on the requests and errs less than shown.

Written by `validation/tools/believe_page.py` from every left-out error (`validation/data/left_out.csv`,
`validation/tools/model_errors.py`); kept fresh by continuous integration. No source counts for more than 30 of its
rows; of training steps, collectives and serving, for more than 10 of a half year or quarter. Rows marked *in sample*
were seen by the fit: expect more. A family of services with fewer than nine rows takes the band of new ones. The pages
behind it: [validation](index.md).
"""


def line(error: ModelError) -> str:
    """A row of the table."""
    cells = (
        _forecast(error).asked.partition(";")[0],
        error.family,
        f"{100 * error.median:.0f} %",
        _band(error.low, error.high),
        _band(error.calibrated_low, error.calibrated_high),
        f"{100 * error.between:.0f} %",
        f"{error.rows:,} rows, {error.sources} sources{', in sample' if error.held_out == 'nothing' else ''}",
    )
    return "| " + " | ".join(cells) + " |"


def _forecast(error: ModelError) -> Forecast:
    return next(one for one in FORECASTS if one.question == error.question and one.holds(error.family))


def _band(low: float, high: float) -> str:
    return f"{100 * low:+.0f} to {100 * high:+.0f} %"


def _span(low: float, high: float) -> str:
    return f"{100 * low:.0f} %" if round(100 * low) == round(100 * high) else f"{100 * low:.0f} to {100 * high:.0f} %"


@dataclass(frozen=True)
class Judged:
    """A class of predictions and its bands, the widest ends of its families together."""

    forecast: Forecast
    errors: Sequence[ModelError]

    @property
    def before(self) -> tuple[float, float]:
        """Low and high end, as shares."""
        return min(error.low for error in self.errors), max(error.high for error in self.errors)

    @property
    def after(self) -> tuple[float, float]:
        """The same after three runs of one's own."""
        low = min(error.calibrated_low for error in self.errors)
        return low, max(error.calibrated_high for error in self.errors)

    def near(self, ends: tuple[float, float]) -> bool:
        """Whether one signs on such a band."""
        return max(-ends[0], ends[1]) <= NEAR and min(error.rows for error in self.errors) >= FEWEST

    def row(self) -> str:
        """Of the first table."""
        medians = [error.median for error in self.errors]
        cells = (self.forecast.asked, _span(min(medians), max(medians)), _band(*self.before), _band(*self.after))
        return "| " + " | ".join(cells) + " |"


def judged() -> list[Judged]:
    """Every class of predictions, in the order of the page."""
    errors = record().values()
    return [Judged(one, [error for error in errors if _forecast(error) is one]) for one in FORECASTS]


def strangers() -> dict[bool, list[bool]]:
    """Whether the runs of strangers lie inside their bands; those whose software is known, and the others."""
    cases = read_cases(STRANGERS, catalog.load())[0]
    found: dict[bool, list[bool]] = {True: [], False: []}
    for case, predicted in zip(cases, predicted_s(cases), strict=True):
        band = band_of(case)
        found[not band.family.endswith(UNKNOWN)].append(band.low <= case.measured / predicted - 1.0 <= band.high)
    return found


def forecasts_later() -> dict[str, str]:
    """What the opening says: each half year under the constants and bands before, training steps of named software."""
    steps = [miss for miss in recorded() if miss.question == "step" and not miss.family.endswith(UNKNOWN)]
    newest = [abs(math.expm1(-miss.error)) for miss in steps if miss.source == NEWEST]
    text = LATER.format(newest=len(newest), off=f"{100 * statistics.fmean(newest):.0f} %")
    logs = collectives.Logs(LOGS, catalog.load())
    fits = [fit for fit in collectives.read(LOGS / "left_out.csv") if fit.without in logs.cuts]
    judged = [collectives.judge(logs, fit) for fit in fits]
    return {
        **_later("later", steps, later(steps)),
        **_later("collective", list(collectives.misses(judged)), collectives.later(judged)),
        "later_text": textwrap.fill(text, 120, break_long_words=False),
        "generation_table": "\n".join(map(_row, later_by(forecast_bands(steps), lambda miss: miss.generation))),
    }


def _later(name: str, misses: Sequence[Miss], found: Sequence[Later]) -> dict[str, str]:
    """The figures of one question, each under `name` and what it is."""
    rows = sum(one.rows for one in found)
    cuts = {one.part for one in found}
    off = [abs(math.expm1(-miss.error)) for miss in misses if miss.source.rsplit(", ", 1)[1] in cuts]
    return {
        f"{name}_rows": f"{rows:,}",
        f"{name}_inside": f"{round(sum(one.rows * one.inside for one in found)):,}",
        f"{name}_mean": f"{100 * statistics.fmean(off):.0f} %",
        f"{name}_median": f"{100 * statistics.median(off):.0f} %",
        f"{name}_table": "\n".join(_row(one) for one in found),
    }


def _row(one: Later) -> str:
    return "| " + " | ".join((one.part, *_cells(one))) + " |"


def _cells(one: Later) -> tuple[str, ...]:
    return (
        *(str(one.rows), f"{100 * one.mean:.0f} %", f"{100 * one.median:.0f} %"),
        *(f"{100 * one.inside:.0f} %", f"{100 * one.width:.0f} %", f"{100 * one.score:.0f} %"),
    )


def serving_later() -> dict[str, str]:
    """The same of serving, each quarter under the constants and bands before."""
    misses, lines, facts, rows, inside = recorded(), [], {}, 0, 0.0
    for question, name in (("tpot", "time per token"), ("ttft", "time to the first token"), ("throughput", "tokens/s")):
        known = forecast_bands([miss for miss in misses if miss.question == question])
        (whole,) = later_by(known, lambda _: "all")
        rows, inside = rows + whole.rows, inside + whole.rows * whole.inside
        facts[question] = f"{100 * whole.median:.0f} %"
        quarters = later_by(known, lambda miss: miss.source.rsplit(", ", 1)[1])
        lines += ["| " + " | ".join((one.part, name, *_cells(one))) + " |" for one in quarters]
    return {
        **facts,
        "serving_rows": f"{rows:,}",
        "serving_inside": str(round(inside)),
        "serving_table": "\n".join(sorted(lines)),
        "serving_text": textwrap.fill(SERVING_LATER, 120, break_long_words=False, break_on_hyphens=False),
    }


def page() -> str:
    """All of it."""
    classes, outside = judged(), strangers()
    sure = [one for one in classes if one.near(one.before)]
    soon = [one for one in classes if one.near(one.after) and one not in sure]
    facts = {
        "near": f"{100 * NEAR:.0f} %",
        "sure": _named((one.forecast.short, one.before) for one in sure),
        "later": _named((one.forecast.short, one.after) for one in soon),
        "unsure": ", ".join(one.forecast.short for one in classes if one not in sure and one not in soon),
        "software": ", ".join(dict.fromkeys(f"`{key.partition('/')[0]}`" for key in judged_software())),
        "known_all": len(outside[True]),
        "known_inside": sum(outside[True]),
        "unknown_all": len(outside[False]),
        "unknown_inside": sum(outside[False]),
    }
    return TEXT.format(
        **forecasts_later(),
        **serving_later(),
        rows="\n".join(line(error) for one in classes for error in one.errors),
        short="\n".join(one.row() for one in classes),
        bullets="\n".join(_bullet(text.format(**facts)) for text in BULLETS),
    )


def _bullet(text: str) -> str:
    return textwrap.fill(
        text, 120, initial_indent="- ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def _named(bands: Iterable[tuple[str, tuple[float, float]]]) -> str:
    return ", ".join(f"{name} ({_band(*ends)})" for name, ends in bands) or "nothing"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
