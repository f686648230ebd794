"""Files of verbs: those of one folder of runs or deployments, one by one or all as one archive.

Links are left out and none is followed, so nothing outside of the folder is read; files that begin with a dot are
unfinished, and left out too, as is a name that is not UTF-8: neither JSON nor an archive can hold it.
"""

from __future__ import annotations

import io
import os
import stat
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from railyard.face.verb import DEPLOYMENTS
from railyard.face.web.documents import OutputRow
from railyard.face.web.shelf import RUNS, Missing

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_FILES = 50_000
_CHUNK_BYTES = 1 << 18
_LEVEL = 1
"""Level of deflate: text shrinks to a fifth already, at a disk's pace."""
_PACKED = frozenset({".gz", ".npz", ".parquet", ".png", ".svgz", ".zip", ".zst"})
"""Endings of files that are compressed already."""
_DATES_S = (315_532_800, 4_354_819_198)
"""Seconds from 1970 until the first and the last date that an archive knows: 1980-01-01, 2107-12-31 23:59:58."""


class TooMany(Exception):
    """The folder has more files than are listed or archived."""


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
        TooMany: There are more than `MOST_FILES`.
    """
    found: list[OutputFile] = []
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in names:
            file = None if name.startswith(".") else _file(folder, Path(here) / name)
            if file is None:
                continue
            if len(found) >= MOST_FILES:
                raise TooMany
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
        """All of it, once."""
        data = b"".join(self._parts)
        self._parts.clear()
        return data
