"""Tables and text for jobs that share a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.kit.prose import quoted
from railyard.measure import numbers
from railyard.measure.result.variants import JobsVariant, ServingFigure
from railyard.work.study.presentation import Presentation, Sheet, presentations

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from railyard.measure.result.reading import Result
    from railyard.measure.result.variants import JobRow, SteppedFigure


HEADINGS = ("variant", "job", "GPUs", "measure", "alone", "shared", "slowdown", "network tax")
_MONEY = ("variant", "job", "placement", "slowed by", "$/Mtoken")
_VISIBLE = 5e-4


def rows(variant: JobsVariant) -> Iterator[list[str]]:
    """One variant's cells under `HEADINGS`, a row per job."""
    for job in variant.jobs:
        yield [
            variant.name,
            job.name,
            str(job.accelerators),
            "TTFT p50" if isinstance(job.alone, ServingFigure) else "step",
            _measure(job.alone),
            _measure(job.together),
            f"{job.slowdown:.3f}",
            _tax(job),
        ]


def _card(result: Result, report: Path | None) -> str:
    """One line per job, and the path of the report."""
    lines = [f"{result.name}: jobs that share a cluster, engine {result.provenance.engine}"]
    for variant in result.of(JobsVariant):
        lines += ["  ".join(cells) for cells in rows(variant)]
    return "\n".join([*lines, f"report      {report if report is not None else 'not written'}"])


def _verdict(result: Result) -> str:
    """The job that loses most to the others, over all variants."""
    every = result.of(JobsVariant)
    variant, worst = max(((one, job) for one in every for job in one.jobs), key=lambda pair: pair[1].slowdown)
    of = "" if len(every) == 1 else f" on {quoted(variant.name)}"
    if abs(worst.slowdown - 1) < _VISIBLE:
        return "No job slows another by an amount that shows."
    share = numbers.percent(worst.slowdown - 1)
    return f"{quoted(worst.name)} loses most to other jobs{of}: it takes {share} longer than alone ({_costs(worst)})."


def _why(result: Result) -> list[str]:
    """What the network takes of each job, a sentence per variant."""
    found = []
    for variant in result.of(JobsVariant):
        lost = ", ".join(f"{_tax(job)} of the tokens of {quoted(job.name)}" for job in variant.jobs if _tax(job))
        if lost:
            found.append(f"{quoted(variant.name)}: the scale-out network costs {lost}.")
    return found


def _tax(job: JobRow) -> str:
    """`4.1 % (2.0 % alone)`; empty for a serving job."""
    if isinstance(job.together, ServingFigure) or isinstance(job.alone, ServingFigure):
        return ""
    together, alone = (numbers.percent(figure.tax.tokens_lost) for figure in (job.together, job.alone))
    return together if together == alone else f"{together} ({alone} alone)"


def _explain(result: Result) -> str:
    """Notes below the table: transfers of serving jobs, and whether serving and fabric converged."""
    return "\n".join(line for variant in result.of(JobsVariant) for line in _notes(variant))


def _notes(variant: JobsVariant) -> Iterator[str]:
    for job in variant.jobs:
        figure = job.together
        if isinstance(figure, ServingFigure) and figure.transfers:
            yield (
                f"{variant.name}: transfers of {job.name} take {figure.transfer_slowdown:.2f} times as long"
                f" ({figure.transfers} of them, {numbers.seconds(figure.transfer_s)} on average)"
            )
    rounds = variant.rounds
    if rounds.count > 1:
        yield (
            f"{variant.name}: serving and fabric took {rounds.count} rounds; the last changed no figure by more than"
            f" {numbers.percent(rounds.moved)}"
        )
    yield from variant.warnings


def _measure(figure: SteppedFigure | ServingFigure) -> str:
    return numbers.seconds(figure.ttft_s.p50 if isinstance(figure, ServingFigure) else figure.step_s)


def _costs(job: JobRow) -> str:
    found = [f"{cost.job} {100 * cost.share:+.1f} %" for cost in job.costs if abs(cost.share) >= _VISIBLE]
    return ", ".join(found) or "none"


def _money(job: JobRow) -> str:
    prices = [figure.usd_per_mtoken for figure in (job.alone, job.together)]
    known = [f"${price.typical:.3g}" for price in prices if price is not None]
    return " → ".join(known) if len(known) == len(prices) else numbers.NOT_APPLICABLE


def _sheets(result: Result) -> Iterator[Sheet]:
    """The comparison, a row per job."""
    cells = [cells for variant in result.of(JobsVariant) for cells in rows(variant)]
    yield Sheet(HEADINGS, cells, right=(2, 4, 5, 6, 7))


def _details(result: Result) -> Iterator[Sheet]:
    """Placement, which jobs slow it, and cost, a row per job."""
    yield Sheet(
        _MONEY,
        [
            (variant.name, job.name, job.placement.policy, _costs(job), _money(job))
            for variant in result.of(JobsVariant)
            for job in variant.jobs
        ],
        right=(4,),
    )


presentations.add(
    "jobs", Presentation(_verdict, _sheets, _why, _card, _explain, details=_details, notes=lambda _result: [])
)
