"""Writes docs/validation/believe.md from the record of model error that the package ships.

python validation/tools/believe_page.py
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from railyard.measure.model_error import record

if TYPE_CHECKING:
    from collections.abc import Iterable

    from railyard.measure.model_error import ModelError

PAGE = Path(__file__).resolve().parents[2] / "docs" / "validation" / "believe.md"
QUESTIONS = {
    "step": "a training step, tokens/s, $/Mtoken of training",
    "throughput": "tokens/s of a service, its $/Mtoken",
    "tpot": "time per token (TPOT), median",
    "ttft": "time to the first token (TTFT), median",
    "power": "power of the accelerators",
    "collective": "one collective",
    "slowed kernels": "what kernels lose beside a collective",
}
SHORT = {
    "step": "training time and cost",
    "throughput": "tokens/s of a service",
    "tpot": "time per token",
    "ttft": "time to the first token",
    "power": "power",
    "collective": "collectives",
    "slowed kernels": "slowed kernels",
}
NEAR = 0.2
"""How far eight of ten may lie from a figure that one signs on, in its worst family."""
FEWEST = 10
"""Rows below which nobody signs, however near they lie."""

TEXT = """# How far to believe it

A prediction here is a figure with a band: **of ten measurements that no constant was fitted to, eight lay inside.**
Each band is read off runs of other people, predicted as yours would be: by constants that had not seen them.

## In a minute

| you ask | typically off by | eight of ten lay | after three runs of yours |
|---|---|---|---|
{short}

- **Sign on it** (eight of ten within {near}): {sure}.
- **After three runs of yours** (as near then): {later}.
- **Measure first**: {unsure}.
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
  narrow, a row's error is of that row: measure the deployment that you mean to buy.
- **Comparisons are surer than single figures**, for what two variants share cancels: same software, model and
  accelerator, other layout or replicas: the sixth column. If only the network differs, computation cancels as well,
  and what is left is the error of the two network taxes: that of a collective on all of a tax, and that of what kernels
  lose beside a collective on the part that is slowed kernels. A difference inside that and inside what prices are known
  is called a *tie*; *best* is said only outside.
- **Prices are another matter**: dollars carry a band of their own (low, typical, high) beside this one. Of a service
  that gets fewer requests than it could answer, a token's cost depends on the requests and errs less than shown.

Written by `validation/tools/believe_page.py` from every left-out error (`validation/data/left_out.csv`,
`validation/tools/model_errors.py`); kept fresh by continuous integration. No source counts for more than 30 of its
rows. Rows marked *in sample* were seen by the fit: expect more. The pages behind it: [validation](index.md).
"""


def line(error: ModelError) -> str:
    """A row of the table."""
    cells = (
        QUESTIONS[error.question],
        error.family,
        f"{100 * error.median:.0f} %",
        f"{100 * error.low:+.0f} to {100 * error.high:+.0f} %",
        f"{100 * error.calibrated_low:+.0f} to {100 * error.calibrated_high:+.0f} %",
        f"{100 * error.between:.0f} %",
        f"{error.rows:,} rows, {error.sources} sources{', in sample' if error.held_out == 'nothing' else ''}",
    )
    return "| " + " | ".join(cells) + " |"


def _span(low: float, high: float) -> str:
    return f"{100 * low:.0f} %" if round(100 * low) == round(100 * high) else f"{100 * low:.0f} to {100 * high:.0f} %"


def short(question: str, errors: list[ModelError]) -> str:
    """A row of the first table: the families of a question together, the widest band of them."""
    medians = [error.median for error in errors]
    band = (min(error.low for error in errors), max(error.high for error in errors))
    after = (min(error.calibrated_low for error in errors), max(error.calibrated_high for error in errors))
    words = [f"{100 * low:+.0f} to {100 * high:+.0f} %" for low, high in (band, after)]
    return "| " + " | ".join((QUESTIONS[question], _span(min(medians), max(medians)), *words)) + " |"


def page() -> str:
    """All of it."""
    order = list(QUESTIONS)
    errors = sorted(record().values(), key=lambda error: order.index(error.question))
    by_question = {question: [error for error in errors if error.question == question] for question in order}
    known = {question: some for question, some in by_question.items() if min(one.rows for one in some) >= FEWEST}
    sure = [question for question, some in known.items() if _widest(some, "low", "high") <= NEAR]
    near = [question for question, some in known.items() if _widest(some, "calibrated_low", "calibrated_high") <= NEAR]
    return TEXT.format(
        rows="\n".join(map(line, errors)),
        short="\n".join(short(question, some) for question, some in by_question.items()),
        near=f"{100 * NEAR:.0f} %",
        sure=_named(sure),
        later=_named(question for question in near if question not in sure),
        unsure=_named(question for question in order if question not in {*sure, *near}),
    )


def _widest(errors: list[ModelError], low: str, high: str) -> float:
    return max(max(-float(getattr(error, low)), float(getattr(error, high))) for error in errors)


def _named(questions: Iterable[str]) -> str:
    return ", ".join(SHORT[question] for question in questions) or "nothing"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
