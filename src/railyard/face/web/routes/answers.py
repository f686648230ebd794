"""Answers of commands other than `run`: plans, diagnoses, tunings, audits; the folders of the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, HTTPException
from fastapi.responses import FileResponse

from railyard.face.report.decision import decision_of
from railyard.face.web.documents import AnswerRow, Decision
from railyard.face.web.routes.asking import Asked
from railyard.face.web.shelf import Missing
from railyard.kit.files import read_text
from railyard.measure.result.answers import answer_from

if TYPE_CHECKING:
    from pathlib import Path

router = APIRouter(tags=["answers"])


@router.get("/answers")
def list_answers(asked: Asked) -> list[AnswerRow]:
    """Answers, latest first."""
    return asked.shelf.answers()


@router.get("/answers/{answer}", response_class=FileResponse)
def answer_document(asked: Asked, answer: str) -> FileResponse:
    """The answer, of the format that its `format` names."""
    return FileResponse(_document(asked, answer), media_type="application/json")


@router.get("/answers/{answer}/decision")
def answer_decision(asked: Asked, answer: str) -> Decision:
    """What the answer says: verdict, figures, and what to do first."""
    return Decision.model_validate(decision_of(answer_from(read_text(_document(asked, answer)))))


@router.get("/answers/{answer}/page", response_class=FileResponse)
def answer_as_page(asked: Asked, answer: str) -> FileResponse:
    """Its page as one file to keep and to pass on."""
    page = _document(asked, answer).with_suffix(".html")
    if not page.is_file():
        raise HTTPException(404, f"the answer `{answer[:80]}` has no page")
    return FileResponse(page, media_type="text/html", filename=f"{answer}.html")


def _document(asked: Asked, answer: str) -> Path:
    try:
        return asked.shelf.answer(answer)
    except (Missing, ValueError, OSError):
        raise HTTPException(404, f"there is no answer `{answer[:80]}`") from None
