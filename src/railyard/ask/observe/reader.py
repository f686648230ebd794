"""Readers of traces and logs, and what they find in a file."""

from __future__ import annotations

import gzip
import json
import math
import tarfile
import zipfile
import zlib
from codecs import BOM_UTF8
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import IO, TYPE_CHECKING, Any, cast

from railyard.kit.errors import InputError
from railyard.kit.files import opened
from railyard.kit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from railyard.ask.observe.kernels import Kernels
    from railyard.cluster.network_table import NetworkTable


GZIP = b"\x1f\x8b"
MOST_BYTES = 1 << 30
"""Largest file that is read at once; traces of events are streamed and may be larger."""

MOST_MEMBERS = 20_000
"""Files in an archive; it is read one member after another, and files of a folder on all cores."""

DAMAGED = (OSError, EOFError, zlib.error, zipfile.BadZipFile, tarfile.TarError)
"""Errors of opening and reading a damaged file or archive."""


@dataclass(frozen=True)
class TraceSource:
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
        with self._sound():
            raw = self.opened()
            packed = raw.read(2) == GZIP
            raw.seek(0)
            if not packed:
                return _behind_mark(raw)
            unpacked = gzip.GzipFile(fileobj=raw)
            unpacked.myfileobj = cast("Any", raw)  # closed with it
            return _behind_mark(cast("IO[bytes]", unpacked))

    @contextmanager
    def _sound(self) -> Iterator[None]:
        try:
            yield
        except DAMAGED as error:
            raise InputError(f"the file cannot be read: {error}", file=self.name) from None

    def head(self, size: int = 4096) -> bytes:
        """First bytes, decompressed.

        Raises:
            InputError: It cannot be read.
        """
        with self._sound(), self.stream() as stream:
            return upto(stream, size) or stream.read(1)  # what is damaged from its first byte on says why

    def text(self) -> str:
        """The text as UTF-8; invalid bytes are replaced."""
        return self.everything().decode("utf-8", errors="replace")

    def everything(self) -> bytes:
        """The bytes, decompressed.

        Raises:
            InputError: It cannot be read, or is too large to be read at once.
        """
        with self._sound(), self.stream() as stream:
            found = stream.read(MOST_BYTES + 1)
        if len(found) > MOST_BYTES:
            raise InputError("the file is too large", file=self.name, allowed=f"up to {MOST_BYTES} bytes")
        return found


def upto(stream: IO[bytes], size: int, why: list[str] | None = None) -> bytes:
    """Reads so many bytes; fewer if the file ends, or if a compressed one is damaged, which is added to `why`."""
    pieces: list[bytes] = []
    left = size
    while left > 0:
        try:
            piece = stream.read1(left)  # type: ignore[attr-defined]
        except DAMAGED as error:
            if why is not None:
                why.append(str(error))
            break
        if not piece:
            break
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def sources(path: Path) -> Iterator[TraceSource]:
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


def _of_file(file: Path) -> Iterator[TraceSource]:
    try:
        if file.suffix == ".zip":
            yield from _zipped(file)
        elif file.name.endswith((".tar", ".tar.gz", ".tgz")):
            yield from _archived(file)
        else:
            yield TraceSource(str(file), partial(opened, file), file.stat().st_size)
    except DAMAGED as error:
        raise InputError(f"the archive cannot be read: {error}", file=file) from None


def _behind_mark(stream: IO[bytes]) -> IO[bytes]:
    if stream.read(len(BOM_UTF8)) != BOM_UTF8:
        stream.seek(0)
    return stream


def _zipped(file: Path) -> Iterator[TraceSource]:
    with opened(file) as raw, zipfile.ZipFile(raw) as archive:
        members = [member for member in archive.namelist() if not member.endswith("/")]
        _refuse_more(file, len(members))
        for member in sorted(members):
            yield TraceSource(f"{file}:{member}", partial(archive.open, member))


def _archived(file: Path) -> Iterator[TraceSource]:
    with opened(file) as raw, tarfile.open(fileobj=raw) as archive:
        members = []
        for member in archive:
            members += [member] if member.isreg() else []
            _refuse_more(file, len(members))
        for member in sorted(members, key=lambda one: one.name):
            yield TraceSource(f"{file}:{member.name}", partial(_member, archive, member))


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


MOST_DIGITS = 20
"""Most digits of a count of 64 bits; longer ones are damaged."""

COMPLETED, STARTED, SCHEDULED = "completed", "started", "scheduled"


@dataclass(frozen=True, slots=True)
class Call:
    """A collective that a rank called, as its library noted it.

    Attributes:
        state: `SCHEDULED`, `STARTED` or `COMPLETED`.
        size_bytes: Of its input; 0 where not known.
        shape: Sizes and types of its input in words; equal on all members of a collective that fits.
    """

    rank: int
    group: str
    sequence: int
    name: str
    state: str
    size_bytes: int = 0
    shape: str = ""


@dataclass(frozen=True, slots=True)
class CommunicatorMember:
    """A rank in a communicator, as its library's monitor saw it.

    Attributes:
        host: Where; empty where not known.
        missing: `dead`, `unresponsive`, or empty for a rank that answers.
    """

    group: str
    rank: int
    host: str
    counts: dict[str, int]
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Count:
    """Value of a counter of a port or device.

    Attributes:
        where: Host or switch, as the file calls it; empty where it does not say.
    """

    where: str
    port: str
    name: str
    value: float

    @property
    def part(self) -> str:
        """Host and port in words."""
        return " ".join(word for word in (self.where, self.port) if word)


@dataclass(frozen=True, slots=True)
class Timed:
    """A collective that a benchmark or a profiler timed.

    Attributes:
        kind: all_reduce and so on; empty where the file does not say.
        ranks: Of its communicator; 0 where the file does not say.
        hosts: Over which they lie; 0 where it does not say.
        busbw_bps: As it was written, bit/s; None where it was not.
        rank: Who timed it, -1 where all did together.
        at_s: When it was noted, Unix time; nan where the file does not say.
    """

    kind: str
    size_bytes: int
    seconds: float
    ranks: int = 0
    hosts: int = 0
    busbw_bps: float | None = None
    rank: int = -1
    group: str = ""
    wrong: int = 0
    at_s: float = math.nan


@dataclass(frozen=True, slots=True)
class Edge:
    """A connection that a library of collectives opened.

    Attributes:
        via: As the log writes it: `NET/IB/0/GDRDMA`, `P2P/CUMEM`, `SHM`.
    """

    group: str
    channel: int
    source: int
    target: int
    via: str
    pattern: str = ""


@dataclass
class Piece:
    """Findings of one file.

    Attributes:
        rank: Whose it is; None where it does not say.
        world: Ranks of the job; 0 where it does not say.
        kernels: What ran; None where the file is not a trace.
        members: Of communicators, as a monitor of all ranks saw them.
        well: Communicators of which a monitor says that they run and agree, and no more.
        groups: Members of process groups by name.
        purposes: What the framework says a process group is for, by name, such as `TENSOR_MODEL_PARALLEL_GROUP`.
        waits: Of a trace, each wait of a stream for an event: the stream, the launch number of the wait, the stream on
            which the event was recorded, and the launch number of its record.
        steps: Of a trace, number, start and end of each step as the profiler marked them, ns of the rank's clock.
        exact: Whether `steps` are times of the device, to which kernels belong exactly; else of the host.
        began_ns: When the host began the first of them; -1 where it does not say.
        device: Number of the accelerator on its host; -1 where it does not say.
        cabling: Devices and cables, of a discovery of the network; None where the file is none.
        timed: Whether it is a trace of times, of which there is one a rank.
        faulty: Whether a part of the trace was left out or guessed because it is damaged or contradicts itself.
    """

    source: str
    rank: int | None = None
    world: int = 0
    kernels: Kernels | None = None
    calls: list[Call] = field(default_factory=list)
    members: list[CommunicatorMember] = field(default_factory=list)
    well: int = 0
    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)
    purposes: dict[str, str] = field(default_factory=dict)
    waits: list[tuple[int, int, int, int]] = field(default_factory=list)
    steps: list[tuple[int, int, int]] = field(default_factory=list)
    exact: bool = False
    began_ns: int = -1
    device: int = -1
    counts: list[Count] = field(default_factory=list)
    timings: list[Timed] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    cabling: NetworkTable | None = None
    remarks: list[str] = field(default_factory=list)
    timed: bool = False
    faulty: bool = False

    def note(self, count: int, words: str) -> None:
        """Remarks how many of something there are, if any."""
        if count:
            self.remarks.append(f"{count} {words}")

    def count_last(self, last: Mapping[tuple[str, str, str], float]) -> None:
        """Takes the last value of each counter, by host or switch, port and name."""
        self.counts = [Count(*key, value) for key, value in last.items()]


@dataclass(frozen=True)
class Reader:
    """A format; the record in its file is its registration.

    Attributes:
        recognises: Of a file's name and its first 4096 bytes: whether it is one of these.
        read: What it says; raises InputError where it is damaged beyond use.
    """

    name: str
    summary: str
    recognises: Callable[[str, bytes], bool]
    read: Callable[[TraceSource], Piece]


readers: Registry[Reader] = Registry("reader of traces", package="railyard.ask.observe.readers")


def add_text_reader(
    name: str,
    summary: str,
    recognises: Callable[[str, bytes], bool],
    take: Callable[[str, Piece], None],
    nothing: tuple[str, str | None],
) -> None:
    """Registers a format of text: `take` adds what it says to a piece; `nothing` is the error, and what is allowed."""

    def read(source: TraceSource) -> Piece:
        piece = Piece(source.name)
        take(source.text(), piece)
        if not (piece.counts or piece.timings or piece.edges):
            raise InputError(nothing[0], file=source.name, allowed=nothing[1])
        return piece

    readers.enter(Reader(name, summary, recognises, read))


def decoded_json(text: str | bytes, file: str) -> Any:
    """The JSON of a file.

    Raises:
        InputError: The file is damaged.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the file is damaged: {error}", file=file) from None


def float_or_nan(word: Any) -> float:
    """A number of a file; nan where it is none."""
    try:
        return float(word)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def few(listed: Sequence[object], most: int = 8) -> str:
    """The first of a list, `0, 1, 2, ...` where there are more."""
    return ", ".join(map(str, listed[:most])) + (", ..." if len(listed) > most else "")


def is_count(word: str) -> bool:
    """Whether a word is a count as programs print them: decimal digits of ASCII, at most `MOST_DIGITS`."""
    return word.isascii() and word.isdigit() and len(word) <= MOST_DIGITS
