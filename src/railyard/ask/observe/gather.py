"""Everything that lies at a path, read by whoever recognises it; what cannot be read is named and skipped."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import IO, TYPE_CHECKING, Any

from railyard.ask.observe.reader import few, readers, sources, upto
from railyard.kit.errors import InputError, SimulationError
from railyard.work.study.tasks import Task
from railyard.work.study.workers import Local

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from railyard.ask.observe.reader import Piece, Reader, TraceSource


_CHUNK = 1 << 23
_LONGEST_EVENT = 1 << 24
"""Bytes after which an event that does not end is taken for damage."""
_LONGEST_HEAD = 1 << 26
_START = re.compile(rb'"traceEvents"\s*:\s*\[')
_FIRST_KEY = re.compile(rb'\s*\{\s*("[A-Za-z_ ]{1,32}")')
ENDS = "the file ends in the middle of an event"
_BETWEEN = re.compile(r"[\s,]*")


@dataclass
class EventFile:
    """The events of a file, and its other keys.

    Attributes:
        wanted: What the text of an event must hold to be worth decoding; None: every event is decoded, and counted
            with its line.
        about: Keys other than `traceEvents`; complete when all events have been read.
        count: Events so far, those that were not decoded included.
        line: Of the latest event, if every one is decoded.
        damage: Why the rest of the file could not be read; empty where all of it was.
    """

    source: TraceSource
    wanted: re.Pattern[bytes] | None
    about: dict[str, Any] = field(default_factory=dict)
    count: int = 0
    line: int = 1
    damage: str = ""

    def events(self) -> Iterator[dict[str, Any]]:
        """Every event that is needed, and some others, in order.

        Raises:
            InputError: The file has no list of events.
        """
        with self.source.stream() as stream:
            buffer = _Buffer(stream)
            if not self._begin(buffer):
                raise InputError("the file has no list `traceEvents`", file=self.source.name)
            key = _FIRST_KEY.match(buffer.data)
            if key is not None and self.wanted is not None:
                cut = re.compile(rb"\}\s*,\s*(?=\{\s*" + key[1] + rb")")
                yield from self._pieces(buffer, cut, self.wanted)
            yield from self._rest(buffer)
            if buffer.why and not self.damage:
                self.damage = f"the file is damaged: {buffer.why[0]}"

    def _begin(self, buffer: _Buffer) -> bool:
        while (found := _START.search(buffer.data)) is None:
            if buffer.data[:64].lstrip().startswith(b"[") or len(buffer.data) > _LONGEST_HEAD or not buffer.more():
                break
        if found is None:
            bare = buffer.data[:64].lstrip().startswith(b"[")
            buffer.drop(buffer.data.find(b"[") + 1)
            return bare
        before = buffer.data[: found.start()].decode("utf-8", errors="replace")
        self.line += buffer.data.count(b"\n", 0, found.end())
        self._note("{" + before.strip().lstrip("{").rstrip(",\n\r\t ") + "}")
        buffer.drop(found.end())
        return True

    def _pieces(self, buffer: _Buffer, cut: re.Pattern[bytes], wanted: re.Pattern[bytes]) -> Iterator[dict[str, Any]]:
        while not self.damage:
            pieces = cut.split(buffer.data)
            if len(pieces) > 1:
                rest = len(pieces.pop())
                chosen = [piece + b"}" for piece in pieces if wanted.search(piece)]
                try:
                    decoded = json.loads(b"[" + b",".join(chosen) + b"]")
                except (ValueError, RecursionError):
                    return  # event by event
                self.count += len(pieces)
                yield from (event for event in decoded if isinstance(event, dict))
                buffer.drop(len(buffer.data) - rest)
            if len(buffer.data) > _LONGEST_EVENT or not buffer.more():
                return

    def _rest(self, buffer: _Buffer) -> Iterator[dict[str, Any]]:
        decode = json.JSONDecoder().raw_decode
        text, at = buffer.text(), 0
        while True:
            found = _BETWEEN.match(text, at)
            self.line += text.count("\n", at, found.end() if found else at)
            at = found.end() if found else at
            if text[at : at + 1] == "]":
                self._finish(buffer, text[at + 1 :])
                return
            begins = at
            try:
                event, at = decode(text, at)
            except (ValueError, RecursionError) as error:
                if isinstance(error, RecursionError) or len(text) - at > _LONGEST_EVENT:
                    self.damage = "an event is damaged"
                    return
                if not buffer.more():
                    wrong_at = getattr(error, "pos", at)
                    inside = len(text.rstrip()) - wrong_at > 1 and not str(error).startswith("Unterminated")
                    self.damage = f"an event is damaged: {text[wrong_at : wrong_at + 16]!r}" if inside else ENDS
                    return
                text, at = text[at:] + buffer.text(), 0
                continue
            self.count += 1
            if isinstance(event, dict):
                yield event
            self.line += text.count("\n", begins, at)

    def _finish(self, buffer: _Buffer, rest: str) -> None:
        while len(rest) < _LONGEST_HEAD and buffer.more():
            rest += buffer.text()
        rest = rest.strip()
        if rest.lstrip(", \n\r\t}"):
            self._note("{" + rest.lstrip(", \n\r\t"))
        elif "}" not in rest and self.about:
            self.damage = "the file ends before its last bracket"

    def _note(self, words: str) -> None:
        try:
            found = json.loads(words)
        except (ValueError, RecursionError):
            self.damage = "the fields next to the events are damaged"
            return
        self.about.update(found)


@dataclass
class _Buffer:
    stream: IO[bytes]
    data: bytes = b""
    over: bool = False
    why: list[str] = field(default_factory=list)

    def more(self) -> bool:
        """Reads on; False where there is no more."""
        if self.over:
            return False
        chunk = upto(self.stream, _CHUNK, self.why)
        self.over = len(chunk) < _CHUNK
        self.data += chunk
        return bool(chunk)

    def drop(self, size: int) -> None:
        self.data = self.data[size:]

    def text(self) -> str:
        """The rest of the text, which is consumed; a letter that is cut in two stays."""
        end = len(self.data)
        while end and not self.over and self.data[end - 1] & 0xC0 == 0x80 and len(self.data) - end < 4:
            end -= 1
        end -= bool(end and not self.over and self.data[end - 1] & 0xC0 == 0xC0)
        found, self.data = self.data[:end], self.data[end:]
        return found.decode("utf-8", errors="replace")


WORTH_PROCESSES = 1 << 26
"""Bytes in all from which files are read by several processes."""

MOST_RANKS, SHOWN = 1 << 20, 16
"""Ranks of a job that are looked for, and named where they are missing."""


@dataclass
class Gathered:
    """Contents of a path.

    Attributes:
        pieces: What was read, traces of times in the order of ranks first.
    """

    pieces: list[Piece] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    @property
    def remarks(self) -> list[str]:
        """Remarks that a reader of the result must know."""
        read = [f"{piece.source}: {remark}" for piece in self.pieces for remark in piece.remarks]
        return read + [f"{name} was skipped: {why}" for name, why in self.skipped.items()] + self.missing

    @property
    def world(self) -> int:
        """Ranks of the job, as far as traces know: by their number of ranks, their groups, or the highest rank."""
        timed = [piece for piece in self.pieces if piece.timed]
        highest = max((piece.rank for piece in timed if piece.rank is not None), default=-1)
        return max([highest + 1, *(piece.world for piece in timed)])

    @property
    def missing_ranks(self) -> list[int]:
        """Ranks of the job without a trace."""
        timed = {piece.rank for piece in self.pieces if piece.timed}
        return [rank for rank in range(min(self.world, MOST_RANKS)) if rank not in timed] if timed else []

    @property
    def missing(self) -> list[str]:
        """The same in words."""
        gone = self.missing_ranks
        if not gone:
            return []
        return [f"of {self.world} ranks {self.world - len(gone)} have a trace; missing: {few(gone, SHOWN)}"]


def gather(path: Path) -> Gathered:
    """Reads everything.

    Raises:
        InputError: There is nothing at the path that could be read.
    """
    found = Gathered()
    for name, read in _read_all(sources(path)):
        if isinstance(read, str):
            found.skipped[name] = read
        else:
            found.pieces.append(read)
    _place_lone(found)
    _name_devices(found.pieces)
    found.pieces = list(_once(found))
    if not found.pieces:
        listed = "; ".join(f"{name}: {why}" for name, why in list(found.skipped.items())[:8])
        formats = ", ".join(reader.summary for _, reader in readers.items())
        raise InputError("nothing here could be read", file=path, found=listed or "no file", allowed=formats)
    return found


def _read_all(every: Iterable[TraceSource]) -> Iterator[tuple[str, Piece | str]]:
    """Every source and what it says, or why it was not read; by as many processes as there are processors."""
    plain, listed = [], []
    for source in every:
        if source.size_bytes:
            plain.append(source)
        else:  # a member of an archive, which is open only now
            listed.append((source.name, _read(source)))
    processes = min(os.cpu_count() or 1, len(plain))
    if processes < 2 or sum(source.size_bytes for source in plain) < WORTH_PROCESSES:
        yield from ((source.name, _read(source)) for source in plain)
    else:
        yield from zip((source.name for source in plain), _in_processes(plain, processes), strict=True)
    yield from listed


def _in_processes(plain: list[TraceSource], processes: int) -> list[Piece | str]:
    """The same as `_read` of each, in order.

    Raises:
        SimulationError: A process was killed.
    """
    pool = Local(processes)
    try:
        done = sorted(
            pool.run([Task("railyard.ask.observe.gather:_read", source) for source in plain]),
            key=lambda one: one.number,
        )
    finally:
        pool.close()
    for one in done:
        if one.error:
            raise SimulationError(f"{plain[one.number].name} was not read: {one.error}")
    return [one.value for one in done]


def _read(source: TraceSource) -> Piece | str:
    try:
        return _reader(source).read(source)
    except InputError as error:
        return error.problems[0].headline()


def _reader(source: TraceSource) -> Reader:
    head = source.head()
    if not head.strip():
        raise InputError("the file is empty")
    for name in readers:
        reader = readers.get(name)
        if reader.recognises(source.name, head):
            return reader
    raise InputError("unknown format")


def _place_lone(found: Gathered) -> None:
    """A trace that names no rank is rank 0 where it is the only one."""
    timed = [piece for piece in found.pieces if piece.timed]
    if len(timed) == 1 and timed[0].rank is None:
        timed[0].rank = 0
        timed[0].remarks.append("the trace names no rank, it is taken for rank 0")


def _name_devices(pieces: list[Piece]) -> None:
    """Counters that name no device get the name of their folder, where each file has a folder of its own.

    Files of one folder may be captures of one device.
    """
    nameless = [piece for piece in pieces if any(not one.where for one in piece.counts)]
    ways = [PurePath(piece.source).parts[-2::-1] for piece in nameless]
    names = next((names for names in zip(*ways, strict=False) if len({*names}) == len(ways) > 1), ())
    for piece, name in zip(nameless, names, strict=False):
        piece.counts = [one if one.where else replace(one, where=name) for one in piece.counts]


def _once(found: Gathered) -> Iterable[Piece]:
    """The first piece of every rank and kind of file, and only those of one job."""
    seen: dict[tuple[bool, int | None], str] = {}
    world = 0
    for piece in sorted(found.pieces, key=lambda one: (not one.timed, one.rank is None, one.rank or 0, one.source)):
        key = (piece.timed, piece.rank)
        if (
            piece.members or piece.well or piece.cabling or piece.counts or piece.timings or piece.edges
        ):  # of many ranks, or of none
            yield piece
        elif piece.rank is None:
            told = piece.timed or piece.calls
            found.skipped[piece.source] = "it names no rank, and other files exist" if told else "it holds no events"
        elif key in seen:
            found.skipped[piece.source] = f"rank {piece.rank} already exists, from {seen[key]}"
        elif piece.timed and world and piece.world and piece.world != world:
            found.skipped[piece.source] = f"it is of a job of {piece.world} ranks, the others of {world}"
        else:
            seen[key] = piece.source
            world = world or (piece.world if piece.timed else 0)
            yield piece
