"""What a format of traces is: how it is recognised, its columns, and how a batch of rows becomes numbers."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from railyard.graph.request_table import MOST_TOKENS
from railyard.kit.errors import InputError, Problem
from railyard.kit.files import opened
from railyard.kit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import BinaryIO

    from numpy.typing import NDArray


_WHOLE = re.compile(r"-?[0-9]{1,19}\Z")
_DECIMAL = re.compile(r"-?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?\Z")
_NUMBERS = frozenset({int, float})
_TEXTS = frozenset({str})


def integers(
    batch: Batch, cells: list[Any], name: str, faults: LineFaults, *, high: int, low: int = 0
) -> NDArray[np.int64]:
    """A column of integers, written out or from JSON; where one is wrong it is noted and 1 stands there."""
    kinds = set(map(type, cells))
    if kinds <= {int}:
        fits = not cells or low <= min(cells) <= max(cells) <= high
    else:
        fits = kinds == _TEXTS and all(map(_WHOLE.match, cells))
    if fits:
        column = np.fromiter(map(int, cells), object if kinds == _TEXTS else np.int64, len(cells))
        if not len(column) or low <= column.min() <= column.max() <= high:
            return column.astype(np.int64)
    out = np.ones(len(cells), np.int64)
    for row, (line, cell) in enumerate(zip(batch.numbers, cells, strict=True)):
        if type(cell) is int or (isinstance(cell, str) and _WHOLE.match(cell)):
            if low <= int(cell) <= high:
                out[row] = int(cell)
                continue
            faults.add(line, f"{name} is {_wrong(int(cell))}", found=cell, allowed=f"{low} to {high}")
        else:
            _refuse_cell(line, cell, name, "an integer", faults)
    return out


def decimal(batch: Batch, cells: list[Any], name: str, faults: LineFaults) -> NDArray[Any]:
    """A column of finite numbers from 0 on; where one is wrong it is noted and 0 stands there."""
    kinds = set(map(type, cells))
    if kinds <= _NUMBERS or (kinds == _TEXTS and all(map(_DECIMAL.match, cells))):
        column = np.fromiter(map(float, cells), float, len(cells)) if _moderate(cells) else np.array([math.nan])
        if np.isfinite(column).all() and (column >= 0).all():
            return column
    out = np.zeros(len(cells))
    for row, (line, cell) in enumerate(zip(batch.numbers, cells, strict=True)):
        if type(cell) in _NUMBERS or (isinstance(cell, str) and _DECIMAL.match(cell)):
            value = float(cell) if _moderate([cell]) else math.inf
            if math.isfinite(value) and value >= 0:
                out[row] = value
                continue
            faults.add(line, f"{name} is {_wrong(value)}", found=cell, allowed="0 or more")
        else:
            _refuse_cell(line, cell, name, "a number", faults)
    return out


def _moderate(cells: list[Any]) -> bool:
    """No integer so long that it has no float."""
    return all(type(cell) is not int or abs(cell) < 2**1000 for cell in cells)


def _wrong(value: float) -> str:
    return "negative" if value < 0 else "zero" if value == 0 else "too large"


def _refuse_cell(line: int, cell: object, name: str, wanted: str, faults: LineFaults) -> None:
    if cell is None or cell == "":
        faults.add(line, f"a hole: {name} is empty", allowed=wanted)
    else:
        faults.add(line, f"{name}: expected {wanted}", found=cell)


_MOST_NAMED = 8
_LONGEST_LINE = 16 << 20
_PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5": "zstd", b"PK": "zip", b"BZ": "bzip2", b"\xfd7": "xz"}


@dataclass
class LineFaults:
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


@dataclass(frozen=True)
class TraceRows:
    """Rows of a trace as numbers, in the order of the file.

    Attributes:
        time: Time in ticks of the format, whole or not.
        output_tokens: As the file has them; 0 has not been refused yet.
        block_counts: Hashes of each row; none where the format has no prefixes.
        session: Of each row, or none.
        kind: Name of the class of each row, or none.
        block_tokens: Tokens of a hashed block; 0 where no prefixes are known.
    """

    line: NDArray[np.int64]
    time: NDArray[Any]
    input_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    block_counts: NDArray[np.int64] | None = None
    block_hash: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))
    session: NDArray[np.int64] | None = None
    kind: list[str] | None = None
    block_tokens: int = 0


def timed_lengths(
    batch: Batch, cells: dict[str, list[Any]], faults: LineFaults, *, names: tuple[str, str, str], time: Any = None
) -> TraceRows:
    """Rows of a format with times and two lengths.

    Args:
        batch: The lines.
        cells: Of each column.
        faults: Takes what is wrong.
        names: Columns of times, of tokens of prompts and of answers.
        time: Times in ticks; None where they are finite numbers.
    """
    clock, prompts, answers = names
    return TraceRows(
        line=np.array(batch.numbers, np.int64),
        time=decimal(batch, cells[clock], clock, faults) if time is None else time,
        input_tokens=integers(batch, cells[prompts], prompts, faults, low=1, high=MOST_TOKENS),
        output_tokens=integers(batch, cells[answers], answers, faults, high=MOST_TOKENS),
    )


@dataclass(frozen=True)
class TraceFormat:
    """A format of traces.

    Attributes:
        style: A table under a heading, or one JSON object per line.
        needed: Columns or keys without which there is no request.
        ps_per_tick: Unit of its times.
        absolute: Times count from somewhere else than the start of the trace, so the first row becomes 0.
        rows: From a batch, split into cells by column, to numbers; notes what is wrong.
    """

    title: str
    style: Literal["csv", "jsonl"]
    needed: tuple[str, ...]
    optional: tuple[str, ...]
    ps_per_tick: int
    absolute: bool
    rows: Callable[[Batch, dict[str, list[Any]], LineFaults], TraceRows]
    source: str

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that a file may have."""
        return (*self.needed, *self.optional)


FORMATS: Registry[TraceFormat] = Registry("trace format", package="railyard.work.serving.traces")
