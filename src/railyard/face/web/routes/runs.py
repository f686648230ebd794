"""Scenario files and what is being typed; runs that are done, whoever ran them, and answers of other commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, HTTPException, Query
from fastapi.responses import FileResponse, Response

from railyard.face.reports import decision, decision_of
from railyard.face.web.documents import (
    AnswerRow,
    Checked,
    Decision,
    DraftText,
    Estimated,
    FileName,
    FileRow,
    FileText,
    FileToSave,
    PageRow,
    RunRow,
    Template,
)
from railyard.face.web.journal import templates
from railyard.face.web.looking import TooSlow
from railyard.face.web.routes.context import Context, RequestContext, or_404
from railyard.face.web.shelf import RESULT, Conflict, Missing
from railyard.kit.files import read_text
from railyard.measure.result.answers import answer_from
from railyard.work.scenario.model import Scenario
from railyard.work.study.folder import read_all, read_result
from railyard.work.study.joined import joined

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.measure.result.reading import Result


router = APIRouter(tags=["runs"])

_DRAWS_ONLY = (
    "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline';"
    " img-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
"""Content security policy of pages in a folder, whose contents are untrusted."""


@router.get("/runs")
def list_runs(
    context: Context,
    offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
    most: Annotated[int, Query(ge=1, le=500)] = 100,
) -> list[RunRow]:
    """Runs, latest first."""
    return context.shelf.runs(offset=offset, most=most)


@router.get("/comparison")
def compare_runs(context: Context, run: Annotated[list[str], Query(min_length=2, max_length=20)]) -> dict[str, Any]:
    """Several runs as one result, format railyard/result-1, with what can be said of their order."""
    return _joined(context, run).plain()


@router.get("/decision")
def decide(context: Context, run: Annotated[list[str], Query(min_length=1, max_length=20)]) -> Decision:
    """What a run says, or several compared: verdict, three figures, losses by cause, what would change the choice."""
    result = read_result(_file(context, run[0], RESULT)) if len(run) == 1 else _joined(context, run)
    return Decision.model_validate(decision(result))


@router.get("/pages")
def list_pages(context: Context) -> list[PageRow]:
    """Pages that commands wrote: of plans, deployments, acceptance; the latest first."""
    return context.shelf.pages()


@router.get("/page", response_class=FileResponse)
def page(context: Context, file: Annotated[str, Query(max_length=400)]) -> FileResponse:
    """One of these pages, which may draw and nothing else: it has no origin, no network and no parent."""
    with or_404(f"there is no page `{file[:80]}`"):
        path = context.shelf.page(file)
    return FileResponse(path, media_type="text/html", headers={"content-security-policy": _DRAWS_ONLY})


@router.get("/runs/{run}/result", response_class=Response)
def result(context: Context, run: str) -> Response:
    """The result, format railyard/result-1, also of a run that an earlier version kept."""
    return Response(read_result(_file(context, run, RESULT)).text(), media_type="application/json")


@router.get("/runs/{run}/scenario", response_class=FileResponse)
def scenario(context: Context, run: str) -> FileResponse:
    """The scenario with its defaults written out; it gives the same run again."""
    return FileResponse(_file(context, run, "scenario.yaml"), media_type="text/plain; charset=utf-8")


@router.get("/runs/{run}/report", response_class=FileResponse)
def report(context: Context, run: str) -> FileResponse:
    """The report as one file to keep and to pass on."""
    return FileResponse(_file(context, run, "report.html"), media_type="text/html", filename=f"{run}.html")


def _joined(context: Context, runs: list[str]) -> Result:
    return joined(read_all([_file(context, one, RESULT) for one in runs]))


def _file(context: Context, run: str, name: str) -> Path:
    with or_404(f"there is no file `{name[:80]}` of a run `{run[:80]}`"):
        context.shelf.run(run)
        return context.shelf.file_of_run(run, name)


answers = APIRouter(tags=["answers"])


@answers.get("/answers")
def list_answers(context: Context) -> list[AnswerRow]:
    """Answers, latest first."""
    return context.shelf.answers()


@answers.get("/answers/{answer}", response_class=FileResponse)
def answer_document(context: Context, answer: str) -> FileResponse:
    """The answer, of the format that its `format` names."""
    return FileResponse(_document(context, answer), media_type="application/json")


@answers.get("/answers/{answer}/decision")
def answer_decision(context: Context, answer: str) -> Decision:
    """What the answer says: verdict, figures, and what to do first."""
    return Decision.model_validate(decision_of(answer_from(read_text(_document(context, answer)))))


@answers.get("/answers/{answer}/page", response_class=FileResponse)
def answer_as_page(context: Context, answer: str) -> FileResponse:
    """Its page as one file to keep and to pass on."""
    page = _document(context, answer).with_suffix(".html")
    if not page.is_file():
        raise HTTPException(404, f"the answer `{answer[:80]}` has no page")
    return FileResponse(page, media_type="text/html", filename=f"{answer}.html")


def _document(context: Context, answer: str) -> Path:
    with or_404(f"there is no answer `{answer[:80]}`"):
        return context.shelf.answer(answer)


scenarios = APIRouter(tags=["scenarios"])


@scenarios.get("/templates")
def list_templates() -> list[Template]:
    """Scenarios to start from."""
    return templates()


@scenarios.get("/schema")
def schema() -> dict[str, Any]:
    """The JSON schema of a scenario, for completion in editors."""
    return Scenario.model_json_schema()


@scenarios.get("/files")
def list_files(context: Context) -> list[FileRow]:
    """Scenario files of the folder."""
    return context.shelf.files()


@scenarios.get("/file")
def read_file(context: Context, file: Annotated[FileName, Query()]) -> FileText:
    """A scenario file."""
    try:
        return context.shelf.read(file)
    except Missing:
        raise HTTPException(404, f"there is no file `{file}`") from None


@scenarios.put("/file")
def write_file(context: Context, file: Annotated[FileName, Query()], saved: FileToSave) -> FileText:
    """Writes a scenario file; refused where it is not the one that the writer knew."""
    try:
        return context.shelf.write(file, saved.text, saved.version)
    except Conflict:
        raise HTTPException(409, f"`{file}` was changed since it was opened") from None


@scenarios.post("/check")
async def check(context: Context, draft: DraftText) -> Checked:
    """Reads a draft and says what is wrong with it."""
    return Checked.model_validate(await _look(context, "check", draft))


@scenarios.post("/estimate")
async def estimate(context: Context, draft: DraftText) -> Estimated:
    """A rough answer to a draft of a training: its first variant, in closed form."""
    return Estimated.model_validate(await _look(context, "estimate", draft))


async def _look(context: RequestContext, verb: str, draft: DraftText) -> dict[str, Any]:
    try:
        return await context.server.looking.ask(context.person, verb, {"text": draft.text, "file": draft.file})
    except TooSlow:
        seconds = context.server.settings.limits.preview_s
        raise HTTPException(
            422, f"this takes more than {seconds:g} s, or too much memory, to look at: run it"
        ) from None
