"""Batches of numbered lines of a file, in bounded memory, and the faults that were found in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError, Problem
from railyard.kit.files import opened

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

_MOST_NAMED = 8
_LONGEST_LINE = 16 << 20
_PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5": "zstd", b"PK": "zip", b"BZ": "bzip2", b"\xfd7": "xz"}


@dataclass
class Faults:
    """What is wrong with the lines of a file; a few are named, all are counted."""

    file: Path
    problems: list[Problem] = field(default_factory=list)
    count: int = 0

    def add(self, line: int, message: str, *, found: object = None, allowed: str | None = None, hint: str = "") -> None:
        """One wrong line."""
        self.count += 1
        if len(self.problems) < _MOST_NAMED:
            text = None if found is None else str(found)[:80]
            self.problems.append(
                Problem(message, file=str(self.file), line=line, found=text, allowed=allowed, hint=hint or None)
            )

    def refuse(self) -> None:
        """Raises what was found, if anything was.

        Raises:
            InputError: Something was; nothing of the file is used.
        """
        if not self.count:
            return
        more = self.count - len(self.problems)
        if more:
            self.problems.append(Problem(f"{more} more lines of these are wrong", file=str(self.file)))
        raise InputError.many(self.problems)


@dataclass(frozen=True)
class Batch:
    """Some lines of a file, without blank ones.

    Attributes:
        numbers: Line of each, from 1.
        texts: The lines without their ends.
    """

    numbers: list[int]
    texts: list[str]


def batches(path: Path, size: int) -> Iterator[Batch]:
    """The lines of a file, `size` at a time; blank lines are allowed only at the end.

    Raises:
        InputError: The file cannot be read, is no text, is packed, or has a hole; with the line.
    """
    with opened(path) as handle:
        yield from _batches(handle, path, size)


def _batches(handle: BinaryIO, path: Path, size: int) -> Iterator[Batch]:
    _refuse_packed(handle.read(2), path)
    handle.seek(0)
    start, blank = 1, 0
    while raw := list(islice(_lines(handle, path, start), size)):
        texts = _decoded(raw, start, path)
        if blank and any(texts):
            raise InputError("a blank line stands between rows", file=path, line=blank)
        if "" in texts:
            first = texts.index("")
            if any(texts[first:]):
                raise InputError("a blank line stands between rows", file=path, line=start + first)
            blank, texts = blank or start + first, texts[:first]
        if texts:
            yield Batch(list(range(start, start + len(texts))), texts)
        start += len(raw)


def _lines(handle: BinaryIO, path: Path, start: int) -> Iterator[bytes]:
    number = start
    while line := handle.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE and not line.endswith(b"\n"):
            raise InputError(f"a line is longer than {_LONGEST_LINE >> 20} MiB", file=path, line=number)
        yield line
        number += 1


def _refuse_packed(magic: bytes, path: Path) -> None:
    if magic in _PACKED:
        raise InputError(f"the file is packed ({_PACKED[magic]})", file=path, hint="unpack it first")


def _decoded(raw: list[bytes], start: int, path: Path) -> list[str]:
    if start == 1:
        raw[0] = raw[0].removeprefix(b"\xef\xbb\xbf")
    try:
        text = b"".join(raw).decode("utf-8")
    except UnicodeDecodeError:
        for number, line in enumerate(raw, start=start):
            _refuse_bytes(line, number, path)
        raise InputError("the file is not text in UTF-8", file=path, line=start) from None
    if "\0" in text:
        number = next(start + row for row, line in enumerate(raw) if b"\0" in line)
        raise InputError("the file is not text in UTF-8: it holds zero bytes", file=path, line=number)
    return [line.strip() for line in text.removesuffix("\n").split("\n")]


def _refuse_bytes(line: bytes, number: int, path: Path) -> None:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            "the file is not text in UTF-8", file=path, line=number, found=f"byte {error.start + 1} of the line"
        ) from None
