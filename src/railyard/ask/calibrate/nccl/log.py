"""Reads logs of nccl-tests and rccl-tests as people publish them: cut, re-typed, with half of their columns."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railyard.kit.files import read_text

if TYPE_CHECKING:
    from pathlib import Path


PLACEMENTS = ("out-of-place", "in-place")

COLLECTIVES = {
    "allreduce": "all-reduce",
    "allgather": "all-gather",
    "reducescatter": "reduce-scatter",
    "alltoall": "all-to-all",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "sendrecv": "send-receive",
}
"""Names of the tests, letters only, and what Railyard calls them."""

LARGEST_BYTES = 1 << 50

_HEADER = re.compile(
    r"^#{1,2}\s*(name|collective|ranks|config|source|read|note|hardware|published|test|metric|algorithms|use|columns|warning)\s*:\s*(.*)$"
)
_DEVICE = re.compile(r"Rank\s+(\d+)\b.*\bdevice\s+\d+\s+\[[^\]]*\]\s*(.+?)\s*$")
_LAUNCH = re.compile(r"\bnThread\s+(\d+)\s+nGpus\s+(\d+)")
_VERSION = re.compile(r"NCCL version\s+([\w.+]+)|nccl-library=(\d+)")
_TITLE = re.compile(r"^={2,}\s*(.+?)\s*={2,}\s*$")
_UNITS = {"size": "(b)", "time": "(us)", "algbw": "(gb/s)", "busbw": "(gb/s)"}


@dataclass(frozen=True)
class Measurement:
    """One time of one size.

    Attributes:
        line: In the file, from 1.
        placement: `out-of-place` or `in-place`.
        algbw_gbs: As published, rounded; nan where the log has none.
    """

    line: int
    size_bytes: int
    placement: str
    time_us: float
    algbw_gbs: float
    busbw_gbs: float


@dataclass(frozen=True)
class Malformed:
    """A line that should have been a row and could not be read."""

    line: int
    message: str
    text: str


@dataclass
class LogTable:
    """One table of a log.

    Attributes:
        title: What the log calls it, if anything.
        collective: In Railyard's words, empty when the table does not say.
        reduces: Whether its rows name a reduction; None without rows.
        algorithm: Algorithm that was forced, in Railyard's words, else empty.
        gpus_per_process: GPUs that one process drives; 0 when the log does not say.
    """

    line: int
    title: str = ""
    collective: str = ""
    reduces: bool | None = None
    ranks: int = 0
    rows: list[Measurement] = field(default_factory=list)
    malformed: list[Malformed] = field(default_factory=list)
    algorithm: str = ""
    gpus_per_process: int = 0


@dataclass
class NcclLog:
    """A log.

    Attributes:
        headers: `key: value` lines on top.
        devices: Device of each rank that the log lists.
        version: Of the library, as the log prints it.
        blocks: Tables, in order.
    """

    file: str
    path: str
    headers: dict[str, str] = field(default_factory=dict)
    devices: list[str] = field(default_factory=list)
    version: str = ""
    blocks: list[LogTable] = field(default_factory=list)
    text: str = ""

    @property
    def description(self) -> str:
        """Description of machine and test in the log, in one string."""
        keys = ("config", "hardware", "collective", "test", "name", "note")
        return "; ".join(self.headers[key] for key in keys if key in self.headers)

    @property
    def published(self) -> str:
        """Year and month of its publication, `2025-06`; empty where its header does not say."""
        month = re.match(r"20\d{2}-(?:0[1-9]|1[0-2])\b", self.headers.get("published", ""))
        return month.group(0) if month else ""


@dataclass(frozen=True)
class _Columns:
    """Columns of a row behind its size.

    Attributes:
        count: Whether a column of elements follows the size.
        wrong: Whether each half ends with a column of errors.
    """

    count: bool
    root: bool
    wrong: bool
    halves: int


def read(path: Path) -> NcclLog:
    """Reads one log.

    Raises:
        InputError: The file cannot be read.
    """
    return parse(read_text(path, errors="replace"), file=path.stem, path=str(path))


def parse(text: str, *, file: str = "log", path: str = "log") -> NcclLog:
    """Reads a log from its text. Nothing in a text is an error: what cannot be read is listed as malformed."""
    log = NcclLog(file=file, path=path, text=text)
    reader = _Reader(log)
    for number, line in enumerate(text.split("\n"), start=1):
        reader.line(number, line)
    return log


class _Reader:
    def __init__(self, log: NcclLog) -> None:
        self.log = log
        self.columns: _Columns | None = None
        self.title = ""
        self.gpus_per_process = 0
        self.listed: dict[int, str] = {}

    def line(self, number: int, text: str) -> None:
        """Takes one line."""
        columns = columns_of(text)
        if columns is not None:
            self.columns = columns
            block = LogTable(line=number, title=self.title, gpus_per_process=self.gpus_per_process)
            self.log.blocks.append(block)
            return
        if self.columns is not None and _looks_like_row(text):
            self._row(number, text, self.columns)
            return
        self._about(text)

    def _about(self, text: str) -> None:
        """A line about the log, its machine or its launch."""
        log = self.log
        header = _HEADER.match(text.strip())
        if header:
            log.headers.setdefault(header.group(1), header.group(2).strip())
        title = _TITLE.match(text.strip())
        if title:
            self.title = title.group(1)
        device = _DEVICE.search(text)
        if device:
            self.listed[int(device.group(1)[:9])] = device.group(2)
            log.devices = [self.listed[rank] for rank in sorted(self.listed)]
        launch = _LAUNCH.search(text)
        if launch:
            self.gpus_per_process = max(1, int(launch.group(1)[:6]) * int(launch.group(2)[:6]))
        version = _VERSION.search(text)
        if version and not log.version:
            log.version = version.group(1) or version.group(2)

    def _row(self, number: int, text: str, columns: _Columns) -> None:
        block = self.log.blocks[-1]
        try:
            found, reduces = _measurements(number, text, columns)
        except ValueError as error:
            block.malformed.append(Malformed(number, str(error), text.strip()))
            return
        block.rows += found
        if reduces is not None:
            block.reduces = bool(block.reduces) or reduces


def columns_of(text: str) -> _Columns | None:
    """The columns that a line of column names announces; None when it is none."""
    words = text.lower().replace("#wrong", " wrong").lstrip("# \t").split()
    for name, unit in _UNITS.items():
        words = [name if word == name + unit else word for word in words]
    if not words or words[0] != "size" or words.count("time") not in (1, 2) or "busbw" not in words:
        return None
    return _Columns(
        count="count" in words,
        root="root" in words,
        wrong="wrong" in words or "error" in words,
        halves=words.count("time"),
    )


def _looks_like_row(text: str) -> bool:
    words = text.split()
    return len(words) >= 4 and words[0].isascii() and words[0].isdigit()


def _measurements(line: int, text: str, columns: _Columns) -> tuple[list[Measurement], bool | None]:
    """The times of a row, and whether it names a reduction.

    Raises:
        ValueError: The row does not have the columns of its table; says what is wrong.
    """
    words = text.split()
    size = _whole(words[0], "size")
    if size > LARGEST_BYTES:
        raise ValueError(f"a size of {size} bytes is more than any machine holds")
    rest = words[1:]
    if columns.count:
        _whole(rest[0], "count")
        rest = rest[1:]
    names = 0
    while names < len(rest) and _is_word(rest[names]):
        names += 1
    reduces = None if names < 2 else rest[1].lower() not in ("none", "na", "-")
    rest = rest[names:]
    width = 3 + columns.wrong
    expected = columns.root + columns.halves * width
    if columns.root and len(rest) == expected - 1:  # some publishers drop the root of collectives that have none
        columns = _Columns(columns.count, False, columns.wrong, columns.halves)
    elif len(rest) != expected:
        raise ValueError(f"the row has {len(rest)} numbers where its table has {expected}")
    rest = rest[columns.root :]
    found = []
    for half in range(columns.halves):
        time_us, algbw, busbw = (_number(word) for word in rest[half * width : half * width + 3])
        found.append(Measurement(line, size, PLACEMENTS[half], time_us, algbw, busbw))
    return found, reduces


def _is_word(text: str) -> bool:
    """Whether a field is a datatype or a reduction and not a number; `N/A` stands for a number."""
    return (text[0].isalpha() and text.upper() not in ("N/A", "NAN", "INF")) or text == "-"


def _whole(text: str, what: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise ValueError(f"`{text}` is no {what}")
    return int(text)


def _number(text: str) -> float:
    if text.upper() == "N/A":
        return float("nan")
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        raise ValueError(f"`{text}` is not a number") from None
    if value < 0:
        raise ValueError(f"`{text}` is negative")
    return value


def collective_of(word: str) -> str:
    """What Railyard calls the collective of a test (`all_reduce_perf`, `alltoall`); empty when it is none."""
    letters = re.sub(r"[^a-z]", "", word.lower().replace("_perf", ""))
    return COLLECTIVES.get(letters, "")


def bus_factor(collective: str, ranks: int) -> float:
    """Busbw over algbw (nccl-tests, doc/PERFORMANCE.md)."""
    if collective == "all-reduce":
        return 2 * (ranks - 1) / ranks
    if collective in ("all-gather", "reduce-scatter", "all-to-all"):
        return (ranks - 1) / ranks
    return 1.0


def ranks_of(block: LogTable, collective: str) -> float | None:
    """Ranks that the ratio of a table's busbw to its algbw implies; None where it implies none.

    Both are printed with two decimals, so the row with the largest bandwidth says most.
    """
    usable = [row for row in block.rows if row.algbw_gbs > 1 and row.busbw_gbs > 0]
    if not usable or collective not in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all"):
        return None
    best = max(usable, key=lambda row: row.algbw_gbs)
    ratio = best.busbw_gbs / best.algbw_gbs / (2 if collective == "all-reduce" else 1)
    return 1 / (1 - ratio) if 0 < ratio < 1 - 1e-4 else None


_SIZE = re.compile(r"^\s*([\d.,]+)\s*(B|KiB|KB|MiB|MB|GiB|GB)\s*$", re.IGNORECASE)
_SCALE = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_SECTION = re.compile(r"^#{2,6}\s+(.*)$")
_RANKS = re.compile(r"(\d{1,6})\s*(?:GPUs|ranks)\b", re.IGNORECASE)
_ACTIVE = re.compile(r"^\s*(\d{1,6}) active ranks", re.IGNORECASE)
_PLAIN = re.compile(r"^\s*([\d.]+ (?:B|KB|MB|GB)) \|\s+([\d.]+)\s+([\d.]+)\s+[\d.]+x\s*$")
_KINDS = re.compile(r"\b(all-?reduce|all-?gather|reduce-?scatter|all-?to-?all|broadcast)\b", re.IGNORECASE)
_ALGORITHMS = {"ctring": "ring", "ring": "ring", "ctsrd": "halving-doubling"}


def size_bytes(text: str) -> int | None:
    """A size such as `4 KiB` or `4.5 MB`; benchmarks mean powers of two by both spellings. None when it is none."""
    found = _SIZE.match(text)
    if found is None:
        return None
    number = found.group(1).replace(",", "")
    if number.count(".") > 1 or not re.search(r"\d", number) or len(number) > 12:
        return None
    return round(float(number) * _SCALE[found.group(2)[0].lower()])


def markdown_tables(log: NcclLog) -> list[LogTable]:
    """Tables whose rows are `| size | busbw in GB/s of one algorithm | of another |`, under headings that say so.

    A heading with `busbw` opens the section and names the collective; one with `(8 GPUs)` gives the ranks.
    """
    blocks: list[LogTable] = []
    collective, ranks, columns = "", 0, []  # type: str, int, list[LogTable | None]
    for number, line in enumerate(log.text.split("\n"), start=1):
        heading = _SECTION.match(line)
        if heading:
            collective, ranks = _heading(heading.group(1), collective, ranks)
            columns = []
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.strip().startswith("|") else []
        if not cells or not collective or ranks < 2:
            continue
        if cells[0].lower() == "size":
            columns = [_column(cell, collective, ranks, number) for cell in cells[1:]]
            blocks += [block for block in columns if block is not None]
        elif columns:
            _markdown_row(number, cells, columns)
    return blocks


def _heading(text: str, collective: str, ranks: int) -> tuple[str, int]:
    kind, count = _KINDS.search(text), _RANKS.search(text)
    if kind and "busbw" in text.lower():
        return collective_of(kind.group(1)), 0
    if count:
        return collective, int(count.group(1))
    return "", ranks


def _column(title: str, collective: str, ranks: int, line: int) -> LogTable | None:
    """The table of one column; None for a comparison of others."""
    if not re.match(r"[a-z]", title, re.IGNORECASE):
        return None
    algorithm = _ALGORITHMS.get(title.split(maxsplit=1)[0].lower(), "")
    return LogTable(line=line, title=f"{title}, {ranks} ranks", collective=collective, ranks=ranks, algorithm=algorithm)


def _markdown_row(number: int, cells: list[str], columns: list[LogTable | None]) -> None:
    size = size_bytes(cells[0])
    if size is None:
        return
    for cell, block in zip(cells[1:], columns, strict=False):
        if block is None:
            continue
        busbw = _positive(cell)
        if busbw is None:
            block.malformed.append(Malformed(number, f"`{cell}` is not a bandwidth", " | ".join(cells)))
            continue
        algbw = busbw / bus_factor(block.collective, block.ranks)
        block.rows.append(Measurement(number, size, "out-of-place", size / algbw / 1e3, algbw, busbw))


def _positive(text: str) -> float | None:
    if not re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text) or float(text) == 0:
        return None
    return float(text)


def plain_tables(log: NcclLog) -> list[LogTable]:
    """Tables `size | ms of the stock library, ms of another, speed-up` of a few active ranks of a server.

    The message of an all-gather is one rank's part there: only so do its times fit the links (two ranks of an MI350X
    server take 19.75 ms for 1 GB, one link's time for 1 GB, as the all-reduce does).
    """
    blocks: list[LogTable] = []
    collective, ranks = "", 0
    for number, line in enumerate(log.text.split("\n"), start=1):
        kind, active, row = _KINDS.search(line), _ACTIVE.match(line), _PLAIN.match(line)
        if kind and not line.startswith("#"):
            collective, ranks = collective_of(kind.group(1)), 0
        elif active:
            ranks = int(active.group(1))
            blocks.append(
                LogTable(line=number, title=f"{collective}, {ranks} active ranks", collective=collective, ranks=ranks)
            )
        elif row and collective and ranks > 1:
            _plain_row(number, line, row, blocks[-1])
    return [block for block in blocks if block.rows or block.malformed]


def _plain_row(number: int, line: str, row: re.Match[str], block: LogTable) -> None:
    size, milliseconds = size_bytes(row.group(1)), _positive(row.group(2))
    if size is None or milliseconds is None:
        block.malformed.append(Malformed(number, f"`{row.group(2)}` is not a time", line.strip()))
        return
    size *= block.ranks if block.collective == "all-gather" else 1
    algbw = size / milliseconds / 1e6
    busbw = algbw * bus_factor(block.collective, block.ranks)
    block.rows.append(Measurement(number, size, "out-of-place", milliseconds * 1e3, algbw, busbw))
