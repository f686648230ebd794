"""Chrome trace JSON, event by event: a file of gigabytes is never in memory, and only what is asked for is decoded.

An event begins where the one before it ends: `}`, a comma, `{` and the key that the file's first event begins with.
Cut there,
a piece of the file whose text does not hold any word that is looked for needs no decoding, which is most of a trace.
The others are decoded together; where that fails, the cuts were wrong or the file is damaged, and it goes on event by
event.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

from railyard.ask.observe.sources import upto
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.ask.observe.sources import Source

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
    """The events of a file, and what stands beside them.

    Attributes:
        source: The file.
        wanted: What the text of an event must hold to be worth decoding.
        about: Keys beside `traceEvents`; complete when all events have been read.
        count: Events so far, those that were not decoded included.
        damage: Why the rest of the file could not be read; empty where all of it was.
    """

    source: Source
    wanted: re.Pattern[bytes]
    about: dict[str, Any] = field(default_factory=dict)
    count: int = 0
    damage: str = ""

    def events(self) -> Iterator[dict[str, Any]]:
        """Every event that is wanted, and some that are not, in order.

        Raises:
            InputError: The file has no list of events.
        """
        with self.source.stream() as stream:
            buffer = _Buffer(stream)
            if not self._begin(buffer):
                raise InputError("the file has no list `traceEvents`", file=self.source.name)
            key = _FIRST_KEY.match(buffer.data)
            if key is not None:
                yield from self._pieces(buffer, re.compile(rb"\}\s*,\s*(?=\{\s*" + key[1] + rb")"))
            yield from self._rest(buffer)

    def _begin(self, buffer: _Buffer) -> bool:
        """Goes to the first event."""
        while (found := _START.search(buffer.data)) is None:
            if buffer.data[:64].lstrip().startswith(b"[") or len(buffer.data) > _LONGEST_HEAD or not buffer.more():
                break
        if found is None:
            bare = buffer.data[:64].lstrip().startswith(b"[")
            buffer.drop(buffer.data.find(b"[") + 1)
            return bare
        before = buffer.data[: found.start()].decode("utf-8", errors="replace")
        self._note("{" + before.strip().lstrip("{").rstrip(",\n\r\t ") + "}")
        buffer.drop(found.end())
        return True

    def _pieces(self, buffer: _Buffer, cut: re.Pattern[bytes]) -> Iterator[dict[str, Any]]:
        """All events but those behind the last cut of the file."""
        while not self.damage:
            pieces = cut.split(buffer.data)
            if len(pieces) > 1:
                rest = len(pieces.pop())
                chosen = [piece + b"}" for piece in pieces if self.wanted.search(piece)]
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
        """What is left, event by event."""
        decode = json.JSONDecoder().raw_decode
        text, at = buffer.text(), 0
        while True:
            found = _BETWEEN.match(text, at)
            at = found.end() if found else at
            if text[at : at + 1] == "]":
                self._finish(buffer, text[at + 1 :])
                return
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
            self.damage = "what stands beside the events is damaged"
            return
        self.about.update(found)


@dataclass
class _Buffer:
    """The part of a file that has not been decoded yet."""

    stream: IO[bytes]
    data: bytes = b""
    over: bool = False

    def more(self) -> bool:
        """Reads on; False where there is no more."""
        if self.over:
            return False
        chunk = upto(self.stream, _CHUNK)
        self.over = len(chunk) < _CHUNK
        self.data += chunk
        return bool(chunk)

    def drop(self, size: int) -> None:
        """Passes what has been read."""
        self.data = self.data[size:]

    def text(self) -> str:
        """All that is there, which is passed; a letter that is cut in two stays."""
        end = len(self.data)
        while end and not self.over and self.data[end - 1] & 0xC0 == 0x80 and len(self.data) - end < 4:
            end -= 1
        end -= bool(end and not self.over and self.data[end - 1] & 0xC0 == 0xC0)
        found, self.data = self.data[:end], self.data[end:]
        return found.decode("utf-8", errors="replace")
