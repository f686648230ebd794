"""Folders that verbs wrote, of runs, answers and deployments: their files to be saved, never to be shown here."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, HTTPException, Query
from fastapi.responses import FileResponse, StreamingResponse

from railyard.face.web import outputs
from railyard.face.web.documents import OutputRow
from railyard.face.web.routes.asking import Asked, Asking
from railyard.face.web.shelf import Missing

if TYPE_CHECKING:
    from pathlib import Path

router = APIRouter(tags=["outputs"])

Folder = Annotated[str, Query(min_length=1, max_length=400, description="`runs/NAME` or `deployments/NAME`.")]
_SAVED = {"content-security-policy": "sandbox; default-src 'none'", "x-content-type-options": "nosniff"}
"""A browser that opens a file never runs its contents."""
_AS_IT_IS = {**_SAVED, "content-encoding": "identity"}
"""An archive is packed already."""
_UNSAFE = re.compile(r"[^ !#-.0-\[\]-~]")
"""Characters that a name in a header cannot have: control characters, quotes, slashes, everything beyond ASCII."""


@router.get("/outputs")
def list_outputs(asked: Asked, folder: Folder) -> list[OutputRow]:
    """Files of the folder, by name."""
    return [file.row() for file in _files(_folder(asked, folder), folder)]


@router.get(
    "/outputs/file", response_class=FileResponse, responses={200: {"content": {"application/octet-stream": {}}}}
)
def output_file(
    asked: Asked, folder: Folder, name: Annotated[str, Query(min_length=1, max_length=1000)]
) -> FileResponse:
    """One of them, such as `timeline.parquet`."""
    try:
        path = outputs.file_of(_folder(asked, folder), name)
    except (Missing, ValueError, OSError):
        raise HTTPException(404, f"there is no file `{name[:80]}` in `{folder[:80]}`") from None
    return FileResponse(path, media_type="application/octet-stream", filename=path.name, headers=_SAVED)


@router.get("/outputs/archive", response_class=StreamingResponse, responses={200: {"content": {"application/zip": {}}}})
def output_archive(asked: Asked, folder: Folder) -> StreamingResponse:
    """All of them in one ZIP archive, below a folder of the same name."""
    path = _folder(asked, folder)
    files = _files(path, folder)
    most = asked.house.settings.limits.archive_bytes
    size = sum(file.bytes for file in files)
    if size > most:
        raise HTTPException(413, f"`{folder[:80]}` has {size >> 20:,} MiB, an archive at most {most >> 20:,}")
    headers = {**_AS_IT_IS, "content-disposition": f'attachment; filename="{_UNSAFE.sub("_", path.name)}.zip"'}
    return StreamingResponse(outputs.archived(path, files), media_type="application/zip", headers=headers)


def _folder(asked: Asking, name: str) -> Path:
    try:
        return outputs.folder_of(asked.shelf.folder, name)
    except (Missing, ValueError, OSError):
        raise HTTPException(404, f"there is no folder `{name[:80]}` of a run or a deployment") from None


def _files(path: Path, name: str) -> list[outputs.OutputFile]:
    try:
        return outputs.files_of(path)
    except outputs.TooMany:
        raise HTTPException(413, f"`{name[:80]}` has more than {outputs.MOST_FILES:,} files") from None
