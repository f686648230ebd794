"""Chrome trace JSON, event by event: a file of gigabytes is never in memory."""

from __future__ import annotations

import codecs
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from railyard.errors import InputError
from railyard.observe.sources import DAMAGED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.observe.sources import Source

_CHUNK = 1 << 20
_LONGEST_EVENT = 1 << 24
"""Characters after which an event that does not end is taken for damage."""
_LONGEST_HEAD = 1 << 26
_START = re.compile(r'"traceEvents"\s*:\s*\[')
_BETWEEN = re.compile(r"[\s,]*")


@dataclass
class EventFile:
    """The events of a file, and what stands beside them.

    Attributes:
        source: The file.
        about: Keys beside `traceEvents`; complete when all events have been read.
        damage: Why the rest of the file could not be read; empty where all of it was.
    """

    source: Source
    about: dict[str, Any] = field(default_factory=dict)
    damage: str = ""

    def events(self) -> Iterator[dict[str, Any]]:
        """Every event, in order.

        Raises:
            InputError: The file has no list of events.
        """
        text = _Text(self.source)
        try:
            yield from self._events(text)
        finally:
            text.stream.close()

    def _events(self, text: _Text) -> Iterator[dict[str, Any]]:
        if not self._begin(text):
            raise InputError("the file has no list `traceEvents`", file=self.source.name)
        decode = json.JSONDecoder().raw_decode
        while True:
            try:
                text.skip()
                if text.ended("]"):
                    break
                event = text.decoded(decode)
            except (ValueError, RecursionError) as error:
                self.damage = str(error)
                return
            if isinstance(event, dict):
                yield event
        self._finish(text)

    def _begin(self, text: _Text) -> bool:
        """Goes to the first event."""
        while (found := _START.search(text.buffer)) is None:
            if text.buffer[:64].lstrip().startswith("[") or len(text.buffer) > _LONGEST_HEAD or not text.more():
                break
        if found is None:
            bare = text.buffer[:64].lstrip().startswith("[")
            text.at = text.buffer.find("[") + 1
            return bare
        self._note("{" + text.buffer[: found.start()].strip().lstrip("{").rstrip(",\n\r\t ") + "}")
        text.at = found.end()
        return True

    def _finish(self, text: _Text) -> None:
        while len(text.buffer) - text.at < _LONGEST_HEAD and text.more():
            pass
        rest = text.buffer[text.at :].strip()
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


class _Text:
    """The part of a file that has not been decoded yet."""

    def __init__(self, source: Source) -> None:
        self.stream = source.stream()
        self.decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self.buffer = ""
        self.at = 0
        self.over = False

    def more(self) -> bool:
        """Reads on; False where there is no more."""
        if self.over:
            return False
        try:
            chunk = self.stream.read(_CHUNK)
        except DAMAGED:
            chunk = b""
        self.over = not chunk
        self.buffer = self.buffer[self.at :] + self.decoder.decode(chunk, final=self.over)
        self.at = 0
        return not self.over

    def skip(self) -> None:
        """Goes on to what is neither space nor comma."""
        while True:
            found = _BETWEEN.match(self.buffer, self.at)
            self.at = found.end() if found else self.at
            if self.at < len(self.buffer) or not self.more():
                return

    def ended(self, bracket: str) -> bool:
        """Whether the bracket comes next, which is passed then."""
        if self.buffer[self.at : self.at + 1] != bracket:
            return False
        self.at += 1
        return True

    def decoded(self, decode: Any) -> object:
        """The next value.

        Raises:
            ValueError: It is damaged, or the file ends in it.
        """
        while True:
            try:
                value, self.at = decode(self.buffer, self.at)
            except ValueError:
                if len(self.buffer) - self.at > _LONGEST_EVENT:
                    raise ValueError("an event is damaged") from None
                if not self.more():
                    raise ValueError("the file ends in the middle of an event") from None
            else:
                return value
