"""What lies at a path: a file, the files of a folder, the members of an archive; compressed ones are opened."""

from __future__ import annotations

import gzip
import tarfile
import zipfile
import zlib
from codecs import BOM_UTF8
from dataclasses import dataclass
from functools import partial
from typing import IO, TYPE_CHECKING, Any, cast

from railyard.kit.errors import InputError
from railyard.kit.files import opened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

GZIP = b"\x1f\x8b"
MOST_BYTES = 1 << 30
"""Largest file that is read at once; traces of events are streamed and may be larger."""

MOST_MEMBERS = 20_000
"""Files in an archive; it is read one member after another, and files of a folder on all cores."""

DAMAGED = (OSError, EOFError, zlib.error, zipfile.BadZipFile, tarfile.TarError)
"""What opening and reading a damaged file or archive raises."""


@dataclass(frozen=True)
class Source:
    """Something to read.

    Attributes:
        name: For people: the path, with the member of an archive behind a colon.
        opened: A new stream of its bytes, as they lie there.
        size_bytes: Of a file that other processes can open too; 0 of a member of an archive.
    """

    name: str
    opened: Callable[[], IO[bytes]]
    size_bytes: int = 0

    def stream(self) -> IO[bytes]:
        """Its bytes, decompressed, without the mark of UTF-8 that some systems put before text.

        Raises:
            InputError: It is damaged from its first bytes on.
        """
        try:
            return self._stream()
        except DAMAGED as error:
            raise InputError(f"the file cannot be read: {error}", file=self.name) from None

    def _stream(self) -> IO[bytes]:
        raw = self.opened()
        packed = raw.read(2) == GZIP
        raw.seek(0)
        if not packed:
            return _behind_mark(raw)
        unpacked = gzip.GzipFile(fileobj=raw)
        unpacked.myfileobj = cast("Any", raw)  # closed with it
        return _behind_mark(cast("IO[bytes]", unpacked))

    def head(self, size: int = 4096) -> bytes:
        """Its first bytes, decompressed.

        Raises:
            InputError: It cannot be read.
        """
        try:
            with self.stream() as stream:
                found = upto(stream, size)
                return found or stream.read(1)  # what is damaged from its first byte on says why
        except DAMAGED as error:
            raise InputError(f"the file cannot be read: {error}", file=self.name) from None

    def everything(self) -> bytes:
        """All its bytes, decompressed.

        Raises:
            InputError: It cannot be read, or is too large to be read at once.
        """
        try:
            with self.stream() as stream:
                found = stream.read(MOST_BYTES + 1)
        except DAMAGED as error:
            raise InputError(f"the file cannot be read: {error}", file=self.name) from None
        if len(found) > MOST_BYTES:
            raise InputError("the file is too large", file=self.name, allowed=f"up to {MOST_BYTES} bytes")
        return found


def upto(stream: IO[bytes], size: int) -> bytes:
    """So many bytes; fewer where the file ends, or where a compressed one is damaged."""
    pieces: list[bytes] = []
    left = size
    while left > 0:
        try:
            piece = stream.read1(left)  # type: ignore[attr-defined]
        except DAMAGED:
            break
        if not piece:
            break
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def sources(path: Path) -> Iterator[Source]:
    """Everything at a path, in the order of its names.

    Raises:
        InputError: There is nothing, or an archive is damaged.
    """
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.is_file() and not any(part.startswith(".") for part in file.relative_to(path).parts):
                yield from _of_file(file)
    elif path.exists():
        yield from _of_file(path)
    else:
        raise InputError("there is no such file or folder", file=path)


def _of_file(file: Path) -> Iterator[Source]:
    try:
        if file.suffix == ".zip":
            yield from _zipped(file)
        elif file.name.endswith((".tar", ".tar.gz", ".tgz")):
            yield from _archived(file)
        else:
            yield Source(str(file), partial(opened, file), file.stat().st_size)
    except DAMAGED as error:
        raise InputError(f"the archive cannot be read: {error}", file=file) from None


def _behind_mark(stream: IO[bytes]) -> IO[bytes]:
    if stream.read(len(BOM_UTF8)) != BOM_UTF8:
        stream.seek(0)
    return stream


def _zipped(file: Path) -> Iterator[Source]:
    with opened(file) as raw, zipfile.ZipFile(raw) as archive:
        members = [member for member in archive.namelist() if not member.endswith("/")]
        _refuse_more(file, len(members))
        for member in sorted(members):
            yield Source(f"{file}:{member}", partial(archive.open, member))


def _archived(file: Path) -> Iterator[Source]:
    with opened(file) as raw, tarfile.open(fileobj=raw) as archive:
        members = []
        for member in archive:
            members += [member] if member.isreg() else []
            _refuse_more(file, len(members))
        for member in sorted(members, key=lambda one: one.name):
            yield Source(f"{file}:{member.name}", partial(_member, archive, member))


def _refuse_more(file: Path, members: int) -> None:
    if members > MOST_MEMBERS:
        raise InputError(
            f"the archive holds more than {MOST_MEMBERS:,} files", file=file, hint="unpack it, and name the folder"
        )


def _member(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    found = archive.extractfile(member)
    if found is None:
        raise OSError(f"{member.name} is no file")
    return found
