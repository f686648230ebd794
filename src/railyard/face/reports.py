"""The HTML report of a run, and the page of an answer: a front-end bundle with the result inside, one file, offline."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from railyard.ask.plan.memo import memo_of_plan
from railyard.face.memo import lists
from railyard.kit.files import write_text
from railyard.measure.result.choices import PlanAnswer
from railyard.work.study import believed
from railyard.work.study import folder as folders
from railyard.work.study.presentation import presentation_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Any

    from railyard.measure.result.answers import Answer
    from railyard.measure.result.reading import Result
    from railyard.measure.result.section import KeyFigure
    from railyard.work.study.memo import LossChart


def report_html(result: Result) -> str:
    """The report as one HTML document.

    Args:
        result: Embedded in the page in the format of `result.json` (railyard/result-1), next to its first screen.
    """
    return embedded("report.html", RESULT=result.plain(), DECISION=decision(result))


def embedded(page: str, **documents: dict[str, Any]) -> str:
    """A page of the bundle with documents in it.

    Args:
        page: File of the bundle.
        documents: What the page shows; the page has a seat `@@RAILYARD_NAME@@` for each.
    """
    text = files("railyard.face.web").joinpath("static", page).read_text(encoding="utf-8")
    for seat, document in documents.items():
        # mtime 0 keeps the bytes the same from run to run; base64 cannot contain "</script>".
        packed = gzip.compress(json.dumps(document, allow_nan=False, separators=(",", ":")).encode(), mtime=0)
        text = text.replace(f"@@RAILYARD_{seat}@@", base64.b64encode(packed).decode("ascii"))
    return text


def write_report(result: Result, path: Path) -> None:
    """Writes the report; the file appears whole or not at all."""
    write_text(path, report_html(result))


SCENARIO = "scenario.yaml"
"""File in the folder of an answer: the cluster that it is about, which places its parts in the hall."""


def answer_html(answer: Answer) -> str:
    """The page of an answer as one HTML document."""
    return embedded("answer.html", RESULT=answer.plain(), DECISION=decision_of(answer))


def answer_page(answer: Answer, folder: Path) -> None:
    """Writes the page of an answer into a folder; the file appears whole or not at all."""
    from railyard.measure.result.answers import NAMES

    write_text(folder / f"{NAMES[type(answer)]}.html", answer_html(answer))


def keep_answer(answer: Answer, out: Path, scenario: str | None = None) -> Path:
    """The folder of an answer: its document and its page, all of it or nothing.

    Args:
        answer: What was found.
        out: Where folders of runs are put.
        scenario: Text of the scenario whose cluster it is about.

    Raises:
        InputError: It cannot be written.
    """
    from railyard.measure.result.answers import NAMES

    text, kind = answer.text(), NAMES[type(answer)]
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    name = f"{kind}-{folders.slug(answer.name)}-{digest}"
    with folders.replaced(out, name) as folder:
        write_text(folder / f"{kind}.json", text)
        if scenario is not None:
            write_text(folder / SCENARIO, scenario)
        answer_page(answer, folder)
    return out / name


def decision(result: Result) -> dict[str, Any]:
    """Verdict and reasons; figures, chart and lists where the kind of work has a memo.

    Returns:
        The fields of `railyard.face.web.documents.Decision`.
    """
    shown = presentation_of(result)
    memo = None if shown.memo is None else shown.memo(result)
    missing = [*believed.left_out(result), *believed.without_figures(result)]
    listed = [*([] if memo is None else lists(memo)), *([("Left out", missing)] if missing else [])]
    said = {line for _, lines in listed for line in lines}
    why = [line for line in shown.why(result) if not line.startswith(tuple(said))]
    if memo is None:
        return _document(shown.verdict(result), why, (), listed, None)
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
