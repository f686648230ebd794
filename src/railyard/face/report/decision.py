"""First screen of a report: the decision memo of a result as a document that the page draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.face.memo import lists
from railyard.work.study.presentation import presentation_of

if TYPE_CHECKING:
    from railyard.measure.result.reading import Result
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
    return {
        "verdict": shown.verdict(result),
        "why": [line for line in shown.why(result) if line not in said],
        "figures": [] if memo is None else [vars(figure) for figure in memo.figures],
        "chart": None if memo is None else _drawn(memo.chart),
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
