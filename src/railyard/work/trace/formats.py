"""Formats of recorded work: what an importer is, which one reads a file, and a record of each format.

Reads flows from a CSV file, one a line, under a heading.

    source,target,size_bytes,start_us,after,delay_us
    0,5,2000000,0,,
    5,9,2000000,,1,2.5

`after` names the rows (numbered from 1) that must have reached their receivers first, separated by blanks; a flow that
waits for none starts at `start_us`. What is not given is zero.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

from railyard.graph import AT_RECEIVER
from railyard.kit import table
from railyard.kit.errors import InputError
from railyard.kit.registry import Registry
from railyard.work.trace.builder import MOST_BYTES, MOST_HOSTS, GraphBuilder, Trace, content, decimal, integer

if TYPE_CHECKING:
    from pathlib import Path


Read = Callable[..., Trace]
"""Function from a path, and options by keyword, to the work."""

HEAD_BYTES = 1 << 16
"""Bytes at the head of a file that identify its format."""


@dataclass(frozen=True)
class Importer:
    """A format of recorded work; its record is its registration.

    Attributes:
        reader: What reads a file; or the name of a module whose `read` does, imported when a file is read.
        recognizes: Whether the bytes that a file begins with (`HEAD_BYTES` at most) are of this format.
        suffixes: Of files whose content tells nothing.
        options: Settings of a document that the reader takes by keyword.
        folders: Whether a trace may be a folder.
    """

    name: str
    summary: str
    reader: Read | str
    recognizes: Callable[[bytes], bool]
    suffixes: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    folders: bool = False

    def load(self) -> Read:
        """What reads a file."""
        if not isinstance(self.reader, str):
            return self.reader
        read: Read = import_module(self.reader).read
        return read


importers: Registry[Importer] = Registry("format of traces", package="railyard.work.trace.formats")


def read(path: Path, name: str | None = None, settings: object = None) -> Trace:
    """The work of a file.

    Args:
        path: The file, or the folder of a trace.
        name: Its format; None: as its content tells.
        settings: Has options of importers as attributes.

    Raises:
        InputError: The format is not known, or the file is wrong.
    """
    importer = importers.get(name or format_of(path))
    options = {key: getattr(settings, key, None) for key in importer.options}
    return importer.load()(path, **{key: value for key, value in options.items() if value is not None})


def format_of(path: Path) -> str:
    """The format of a file, by its first bytes and, where they do not tell, by its name.

    Formats that come with Railyard are asked first: a file that is of one of them and of another's needs `format`.

    Raises:
        InputError: Neither tells.
    """
    head = None if path.is_dir() else content(path, most=HEAD_BYTES)
    found = _recognized(path, head, importers.shipped()) or _recognized(path, head, importers.items())
    if found is None:
        suffixes = [suffix for _, importer in importers.items() for suffix in importer.suffixes]
        raise InputError("the format of the file is not known", file=path, allowed=suffixes)
    return found


def _recognized(path: Path, head: bytes | None, known: list[tuple[str, Importer]]) -> str | None:
    if head is None:
        return next((name for name, importer in known if importer.folders), None)
    found = [name for name, importer in known if importer.recognizes(head)]
    found += [name for name, importer in known if path.suffix.lower() in importer.suffixes]
    return found[0] if found else None


def first_line(head: bytes) -> str:
    """The first line of a text that is no comment; empty for what is no text."""
    try:
        text = head.decode(errors="strict" if len(head) < HEAD_BYTES else "ignore")
    except UnicodeDecodeError:
        return ""
    lines = (line.strip() for line in text.splitlines())
    return next((line for line in lines if line and not line.startswith(("#", "//", "/*"))), "")


def first_word(head: bytes) -> str:
    """The first word of the first line of a text."""
    return first_line(head).split(maxsplit=1)[0] if first_line(head) else ""


_ARCHIVES = (b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ")
_TAR = slice(257, 262)


def is_archive(data: bytes) -> bool:
    """Whether bytes begin like a zip file, a compressed file or a tar file."""
    return data.startswith(_ARCHIVES) or data[_TAR] == b"ustar"


CHAKRA = importers.add(
    "chakra",
    Importer(
        name="chakra",
        summary="Chakra execution traces: nodes that compute and communicate, one file a rank.",
        reader="railyard.work.trace.chakra",
        recognizes=lambda head: is_archive(head) or head.lstrip()[:1] in (b"{", b"["),
        suffixes=(".et", ".json"),
        options=("ranks", "flops"),
        folders=True,
    ),
)


COOKIE = struct.pack("<Q", 4223)
"""What the binary form begins with."""

GOAL = importers.add(
    "goal",
    Importer(
        name="goal",
        summary="GOAL schedules: calculations, sends and receives of ranks.",
        reader="railyard.work.trace.goal",
        recognizes=lambda head: head.startswith(COOKIE) or first_word(head) == "num_ranks",
        suffixes=(".goal", ".bin"),
    ),
)


_WORDS = frozenset({"Nodes", "Connections", "Triggers", "Failures"})

HTSIM = importers.add(
    "htsim",
    Importer(
        name="htsim",
        summary="Connection matrices of htsim: flows between hosts, and links that fail.",
        reader="railyard.work.trace.htsim_matrix",
        recognizes=lambda head: first_word(head) in _WORDS or "->" in first_word(head),
        suffixes=(".cm", ".tm"),
        options=("start_unit", "recv_done_trigger"),
    ),
)


def read_graph(path: Path) -> Trace:
    """The graph of a file.

    Raises:
        InputError: The file cannot be read, or is no task graph.
    """
    from railyard.graph import parquet

    graph = parquet.read_graph(path)
    return Trace(graph, np.zeros(len(graph), np.int32))


PARQUET = importers.add(
    "parquet",
    Importer(
        name="parquet",
        summary="Task graphs that Railyard wrote.",
        reader=read_graph,
        recognizes=lambda head: head.startswith(b"PAR1"),
        suffixes=(".parquet",),
    ),
)


COLUMNS = ("source", "target", "size_bytes", "start_us", "after", "delay_us")
_PS_PER_US = 10**6
_LAST_US = 1e11


def read_flows(path: Path, *, hosts: int | None = None) -> Trace:
    """The flows of a CSV file.

    Args:
        path: The file.
        hosts: Number of hosts; as many as the flows name by default.

    Raises:
        InputError: The file cannot be read, or a line is wrong; with the line.
    """
    rows = list(table.read(path, *COLUMNS[:3], known=COLUMNS, comment="#", most=MOST_BYTES))
    builder = GraphBuilder(0)
    most = -1
    for row in rows:
        try:
            most = max(most, _flow(builder, row, row.line, len(rows)))
        except InputError as error:
            raise row.located(error) from None
    if not rows:
        raise InputError("the file holds no flows", file=path, allowed=COLUMNS)
    builder.ranks = most + 1 if hosts is None else hosts
    if most >= builder.ranks:
        raise InputError(f"there is a host {most}, but only {builder.ranks} hosts", file=path)
    return builder.build()


def _flow(builder: GraphBuilder, row: dict[str, str], line: int, count: int) -> int:
    source, target = (integer(row[key], key, high=MOST_HOSTS - 1) for key in ("source", "target"))
    if source == target:
        raise InputError("a flow from a host to itself", found=source)
    size = integer(row["size_bytes"], "size_bytes", low=1)
    delay = round(decimal(row.get("delay_us") or "0", "delay_us", high=_LAST_US) * _PS_PER_US)
    after = [integer(word, "after", low=1, high=count) - 1 for word in row.get("after", "").split()]
    if after and row.get("start_us"):
        raise InputError("a flow has `start_us` or `after`, not both")
    start = round(decimal(row.get("start_us") or "0", "start_us", high=_LAST_US) * _PS_PER_US)
    number = builder.transfer(source, target, size, release_ps=start, delay_ps=delay, line=line)
    builder.wait(number, [(other, AT_RECEIVER) for other in dict.fromkeys(after)])
    return max(source, target)


CSV = importers.add(
    "csv",
    Importer(
        name="csv",
        summary="Flows in a table of source, target, size, start and what they wait for.",
        reader=read_flows,
        recognizes=lambda head: "source" in (cell.strip() for cell in first_line(head).split(",")),
        suffixes=(".csv",),
        options=("hosts",),
    ),
)
