"""Scenario files, and looking at what is being typed."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query

from railyard.face.web.documents import Checked, DraftText, Estimated, FileName, FileRow, FileText, FileToSave, Template
from railyard.face.web.journal import templates
from railyard.face.web.looking import TooSlow
from railyard.face.web.routes.context import Context, RequestContext
from railyard.face.web.shelf import Conflict, Missing
from railyard.work.scenario.model import Scenario

router = APIRouter(tags=["scenarios"])


@router.get("/templates")
def list_templates() -> list[Template]:
    """Scenarios to start from."""
    return templates()


@router.get("/schema")
def schema() -> dict[str, Any]:
    """The JSON schema of a scenario, for completion in editors."""
    return Scenario.model_json_schema()


@router.get("/files")
def list_files(context: Context) -> list[FileRow]:
    """Scenario files of the folder."""
    return context.shelf.files()


@router.get("/file")
def read_file(context: Context, file: Annotated[FileName, Query()]) -> FileText:
    """A scenario file."""
    try:
        return context.shelf.read(file)
    except Missing:
        raise HTTPException(404, f"there is no file `{file}`") from None


@router.put("/file")
def write_file(context: Context, file: Annotated[FileName, Query()], saved: FileToSave) -> FileText:
    """Writes a scenario file; refused where it is not the one that the writer knew."""
    try:
        return context.shelf.write(file, saved.text, saved.version)
    except Conflict:
        raise HTTPException(409, f"`{file}` was changed since it was opened") from None


@router.post("/check")
async def check(context: Context, draft: DraftText) -> Checked:
    """Reads a draft and says what is wrong with it."""
    return Checked.model_validate(await _look(context, "check", draft))


@router.post("/estimate")
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
