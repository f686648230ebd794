"""Files that verbs wrote: those of one folder of runs or deployments, one by one or all as one archive.

Links are left out and none is followed, so nothing outside of the folder is read; files that begin with a dot are
unfinished, and left out too, as is a name that is not UTF-8: neither JSON nor an archive can hold it.
"""

from __future__ import annotations

import io
import os
import re
import stat
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, HTTPException, Query
from fastapi.responses import FileResponse, StreamingResponse

from railyard.face.verb import DEPLOYMENTS
from railyard.face.web.documents import OutputRow
from railyard.face.web.routes.context import Context, RequestContext, or_404
from railyard.face.web.shelf import RUNS, Missing

if TYPE_CHECKING:
    from collections.abc import Iterator
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
def list_outputs(context: Context, folder: Folder) -> list[OutputRow]:
    """Files of the folder, by name."""
    return [file.row() for file in files_of(_folder(context, folder))]


@router.get(
    "/outputs/file", response_class=FileResponse, responses={200: {"content": {"application/octet-stream": {}}}}
)
def output_file(
    context: Context, folder: Folder, name: Annotated[str, Query(min_length=1, max_length=1000)]
) -> FileResponse:
    """One of them, such as `timeline.parquet`."""
    with or_404(f"there is no file `{name[:80]}` in `{folder[:80]}`"):
        path = file_of(_folder(context, folder), name)
    return FileResponse(path, media_type="application/octet-stream", filename=path.name, headers=_SAVED)


@router.get("/outputs/archive", response_class=StreamingResponse, responses={200: {"content": {"application/zip": {}}}})
def output_archive(context: Context, folder: Folder) -> StreamingResponse:
    """All of them in one ZIP archive, below a folder of the same name."""
    path = _folder(context, folder)
    files = files_of(path)
    most = context.server.settings.limits.archive_bytes
    size = sum(file.bytes for file in files)
    if size > most:
        raise HTTPException(413, f"`{folder[:80]}` has {size >> 20:,} MiB, an archive at most {most >> 20:,}")
    headers = {**_AS_IT_IS, "content-disposition": f'attachment; filename="{_UNSAFE.sub("_", path.name)}.zip"'}
    return StreamingResponse(archived(path, files), media_type="application/zip", headers=headers)


def _folder(context: RequestContext, name: str) -> Path:
    with or_404(f"there is no folder `{name[:80]}` of a run or a deployment"):
        return folder_of(context.shelf.folder, name)


MOST_FILES = 50_000
_CHUNK_BYTES = 1 << 18
_LEVEL = 1
"""Level of deflate: text shrinks to a fifth already, at a disk's pace."""
_PACKED = frozenset({".gz", ".npz", ".parquet", ".png", ".svgz", ".zip", ".zst"})
"""Endings of files that are compressed already."""
_DATES_S = (315_532_800, 4_354_819_198)
"""Seconds from 1970 until the first and the last date that an archive knows: 1980-01-01, 2107-12-31 23:59:58."""


@dataclass(frozen=True)
class OutputFile:
    """A file of a folder.

    Attributes:
        name: Relative to the folder, `/` between parts.
        changed: Seconds since 1970.
    """

    path: Path
    name: str
    bytes: int
    changed: float

    def row(self) -> OutputRow:
        """The file as the API lists it."""
        return OutputRow(name=self.name, bytes=self.bytes, changed=self.changed)


def folder_of(person: Path, name: str) -> Path:
    """The folder of an output.

    Args:
        person: Folder of whoever asks.
        name: `runs/NAME` or `deployments/NAME`.

    Raises:
        Missing: There is none of that name.
    """
    parts = name.split("/")
    if len(parts) != 2 or parts[0] not in {RUNS, DEPLOYMENTS} or not parts[1] or parts[1].startswith("."):
        raise Missing(name)
    path = person.resolve() / parts[0] / parts[1]
    if "\0" in name or not path.is_dir() or path.resolve() != path:
        raise Missing(name)
    return path


def files_of(folder: Path) -> list[OutputFile]:
    """Its files by name, at any depth.

    Raises:
        HTTPException: There are more than `MOST_FILES`.
    """
    found: list[OutputFile] = []
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in names:
            file = None if name.startswith(".") else _file(folder, Path(here) / name)
            if file is None:
                continue
            if len(found) >= MOST_FILES:
                shown = f"{folder.parent.name}/{folder.name}"
                raise HTTPException(413, f"`{shown[:80]}` has more than {MOST_FILES:,} files")
            found.append(file)
    return sorted(found, key=lambda file: file.name)


def _file(folder: Path, path: Path) -> OutputFile | None:
    name = path.relative_to(folder).as_posix()
    try:
        name.encode()
        state = path.lstat()
    except (UnicodeEncodeError, OSError):
        return None  # a run in progress may take a file away after it was listed
    return OutputFile(path, name, state.st_size, state.st_mtime) if stat.S_ISREG(state.st_mode) else None


def file_of(folder: Path, name: str) -> Path:
    """One of `files_of`.

    Raises:
        Missing: There is none of that name.
    """
    parts = PurePosixPath(name).parts
    if not parts or "\0" in name or any(part.startswith(".") for part in parts):
        raise Missing(name)
    path = folder.joinpath(*parts)  # an absolute name leads elsewhere
    if not path.is_relative_to(folder) or path.resolve() != path or not path.is_file():
        raise Missing(name)
    return path


def archived(folder: Path, files: list[OutputFile]) -> Iterator[bytes]:
    """A ZIP archive of files of a folder, piece by piece as it is read: nothing of it is kept."""
    pipe = _Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as archive:
        for file in files:
            yield from _member(archive, pipe, f"{folder.name}/{file.name}", file)
    yield pipe.taken()


def _member(archive: zipfile.ZipFile, pipe: _Pipe, name: str, file: OutputFile) -> Iterator[bytes]:
    first, last = _DATES_S
    about = zipfile.ZipInfo(name, time.gmtime(min(max(file.changed, first), last))[:6])
    about.compress_type = zipfile.ZIP_STORED if file.path.suffix in _PACKED else zipfile.ZIP_DEFLATED
    about.external_attr = 0o644 << 16
    about.file_size = file.bytes
    try:
        source = os.fdopen(os.open(file.path, os.O_RDONLY | os.O_NOFOLLOW), "rb")
    except OSError:
        return  # a run that was begun again has replaced its folder: what is gone is left out
    with source, archive.open(about, "w") as member:
        left = file.bytes
        while chunk := source.read(min(_CHUNK_BYTES, left)):
            left -= len(chunk)
            member.write(chunk)
            yield pipe.taken()


class _Pipe(io.RawIOBase):
    """Buffer of bytes that were written and not yet taken."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: bytes, /) -> int:  # type: ignore[override]
        self._parts.append(bytes(data))
        return len(data)

    def taken(self) -> bytes:
        """Everything written since the last call."""
        data = b"".join(self._parts)
        self._parts.clear()
        return data
