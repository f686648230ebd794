"""Puts a result into the front-end bundle."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from importlib.resources import files
from typing import TYPE_CHECKING

from railyard.face.report.decision import decision, decision_of
from railyard.kit.files import write_text
from railyard.work.study import folder as folders

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from railyard.measure.result.answers import Answer
    from railyard.measure.result.reading import Result


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
