"""First screen of a report: what a result or an answer says, as a document that the page draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.ask.plan.memo import memo_of_plan
from railyard.face.memo import lists
from railyard.measure.result.choices import PlanAnswer
from railyard.work.study.presentation import presentation_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.measure.result.answers import Answer
    from railyard.measure.result.reading import Result
    from railyard.measure.result.section import KeyFigure
    from railyard.work.study.memo import LossChart


def decision(result: Result) -> dict[str, Any]:
    """Verdict and reasons; figures, chart and lists where the kind of work has a memo.

    Returns:
        The fields of `railyard.face.web.documents.Decision`.
    """
    shown = presentation_of(result)
    memo = None if shown.memo is None else shown.memo(result)
    listed = [] if memo is None else lists(memo)
    said = {line for _, lines in listed for line in lines}
    why = [line for line in shown.why(result) if not line.startswith(tuple(said))]
    if memo is None:
        return _document(shown.verdict(result), why, (), (), None)
    return _document(shown.verdict(result), why, memo.figures, listed, memo.chart)


def decision_of(answer: Answer) -> dict[str, Any]:
    """Verdict, figures and lists of an answer; its chart is drawn by the answer's own view.

    Returns:
        The fields of `railyard.face.web.documents.Decision`.
    """
    if isinstance(answer, PlanAnswer) and answer.best is not None:
        memo = memo_of_plan(answer)
        return _document(memo.recommendation, (), memo.figures, lists(memo), None)
    return _document(answer.sentence(), (), answer.key_figures(), answer.lists(), None)


def _document(
    verdict: str,
    why: Sequence[str],
    figures: Sequence[KeyFigure],
    listed: Sequence[tuple[str, Sequence[str]]],
    chart: LossChart | None,
) -> dict[str, Any]:
    return {
        "verdict": verdict,
        "why": list(why),
        "figures": [vars(figure) for figure in figures],
        "chart": None if chart is None else _drawn(chart),
        "lists": [{"title": title, "lines": list(lines)} for title, lines in listed],
    }


def _drawn(chart: LossChart) -> dict[str, Any]:
    """The chart with lengths from 0 to 1, and its amounts in words."""
    bars = [
        {
            "name": name,
            "total": chart.amount(sum(bar.values())),
            "parts": [
                {"part": number, "length": bar[part] / chart.top, "amount": chart.amount(bar[part])}
                for number, part in enumerate(chart.parts)
                if bar.get(part, 0.0) > 0.0
            ],
        }
        for name, bar in chart.bars.items()
    ]
    bound = None if chart.bound is None else chart.bound / chart.top
    return {
        "title": chart.title,
        "parts": list(chart.parts),
        "bars": bars,
        "bound": bound,
        "bound_name": chart.bound_name,
    }
