"""What commands other than `run` keep: the document of their answer, and its page."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from railyard.face.report.html import embedded
from railyard.kit.files import write_text
from railyard.measure.result.answers.answer import NAMES
from railyard.work.study import folder as folders

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.measure.result.answers.answer import Answer

SCENARIO = "scenario.yaml"
"""In the folder of an answer: the cluster that it is about, by which its parts are shown in the hall."""


def answer_html(answer: Answer) -> str:
    """The page of an answer as one HTML document."""
    return embedded("answer.html", answer)


def answer_page(answer: Answer, folder: Path) -> None:
    """Writes the page of an answer into a folder; the file appears whole or not at all."""
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
    text, kind = answer.text(), NAMES[type(answer)]
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    name = f"{kind}-{folders.slug(answer.name)}-{digest}"
    with folders.replaced(out, name) as folder:
        write_text(folder / f"{kind}.json", text)
        if scenario is not None:
            write_text(folder / SCENARIO, scenario)
        answer_page(answer, folder)
    return out / name
