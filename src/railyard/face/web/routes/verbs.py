"""Verbs other than runs, and their input files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, HTTPException, Query, Request
from starlette.requests import ClientDisconnect

from railyard.face.verb import on_page
from railyard.face.web.documents import FileName, FileRow, InputRow, InputSpec, OptionSpec, VerbSpec
from railyard.face.web.routes.asking import Asked
from railyard.kit.files import appearing

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.face.verb import Page, Verb
    from railyard.face.web.settings import WorkLimits
    from railyard.face.web.shelf import Shelf

router = APIRouter(tags=["verbs"])


@router.get("/verbs")
def list_verbs() -> list[VerbSpec]:
    """Everything that can be asked for, and what each is given."""
    return [_spec(name, verb, page) for name, (verb, page) in on_page().items()]


@router.get("/inputs")
def list_inputs(asked: Asked) -> list[InputRow]:
    """Files and folders that can be given to a verb, the latest first."""
    return asked.shelf.inputs()


_RAW = {"requestBody": {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}}


@router.put("/uploads", openapi_extra=_RAW)
async def upload(asked: Asked, request: Request, file: Annotated[FileName, Query()]) -> FileRow:
    """Puts the body under `uploads/`; the file appears whole or not at all, in place of one of the same name."""
    shelf, limits = asked.shelf, asked.house.settings.limits
    path = shelf.upload_to(file)
    _refuse_more(shelf, limits)
    size = await _stored(request, path)
    name = path.relative_to(shelf.folder).as_posix()
    return FileRow(file=name, bytes=size, changed=path.stat().st_mtime)


@router.delete("/uploads", status_code=204)
def remove_upload(asked: Asked, file: Annotated[FileName, Query()]) -> None:
    """Removes a file that was uploaded."""
    path = asked.shelf.upload_to(file)
    if path.is_symlink() or not path.is_file():
        raise HTTPException(404, f"there is no upload `{file[:80]}`")
    path.unlink()


async def _stored(request: Request, path: Path) -> int:
    """Bytes that arrived; the guard ends what grows too large."""
    size = 0
    try:
        with appearing(path) as unfinished, unfinished.open("wb") as out:
            async for chunk in request.stream():
                size += out.write(chunk)
    except ClientDisconnect:
        raise HTTPException(413, "the file arrived incomplete, or is too large") from None
    return size


def _refuse_more(shelf: Shelf, limits: WorkLimits) -> None:
    count, size = shelf.uploaded()
    if count >= limits.uploads or size >= limits.uploads_bytes:
        raise HTTPException(
            413, f"{count} uploads of {size >> 20} MiB are there already: remove some, in the folder `uploads`"
        )


def _spec(name: str, verb: Verb, page: Page) -> VerbSpec:
    return VerbSpec(
        name=name,
        title=page.title,
        about=page.about,
        scenario="scenario" in verb.parts,
        engine="engine" in verb.parts,
        vary="vary" in verb.parts,
        inputs=[InputSpec(**{key: vars(one)[key] for key in InputSpec.model_fields}) for one in verb.inputs],
        options=[OptionSpec(**{**vars(one), "allowed": list(one.allowed())}) for one in verb.choices],
    )
