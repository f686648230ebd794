"""Puts a result into the front-end bundle."""

from __future__ import annotations

import base64
import gzip
import json
from importlib.resources import files
from typing import TYPE_CHECKING

from railyard.kit.files import write_text

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.measure.result.reading import Result
    from railyard.measure.result.section import Figures

_SEAT = "@@RAILYARD_RESULT@@"


def report_html(result: Result) -> str:
    """The report as one HTML document.

    Args:
        result: It is put into the page as it stands in `result.json` (format railyard/result-1).
    """
    return embedded("report.html", result)


def embedded(page: str, document: Figures) -> str:
    """A page of the bundle with a document in it.

    Args:
        page: File of the bundle.
        document: What the page shows.
    """
    text = files("railyard.face.web").joinpath("static", page).read_text(encoding="utf-8")
    # mtime 0 keeps the bytes the same from run to run; base64 cannot contain "</script>".
    packed = gzip.compress(json.dumps(document.plain(), allow_nan=False, separators=(",", ":")).encode(), mtime=0)
    return text.replace(_SEAT, base64.b64encode(packed).decode("ascii"))


def write_report(result: Result, path: Path) -> None:
    """Writes the report; the file appears whole or not at all."""
    write_text(path, report_html(result))
