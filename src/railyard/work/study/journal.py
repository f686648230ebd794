"""What has been found so far, a line of JSON each, on disk before it counts: `kill -9` loses nothing of it."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any

from railyard.kit.errors import InputError
from railyard.kit.files import MOST_STREAMED, read_bytes

if TYPE_CHECKING:
    from pathlib import Path


def key_of(*what: object) -> str:
    """A name for what a result follows from: equal where everything is equal."""
    text = json.dumps(what, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class Journal:
    """Results by their keys.

    Args:
        path: The file, made with the first result; None keeps them in memory alone.

    Raises:
        InputError: It cannot be read.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.known: dict[str, Any] = {}
        self._file: int | None = None
        if path is not None and path.exists():
            self._read(path)

    def add(self, key: str, value: Any, *, sync: bool = True) -> None:
        """Keeps a result.

        Args:
            key: Its name.
            value: Plain values.
            sync: Whether it is to be on disk when this returns, and all before it.

        Raises:
            InputError: It cannot be written.
        """
        self.known[key] = value
        if self.path is None:
            return
        line = json.dumps([key, value], ensure_ascii=False, allow_nan=False) + "\n"
        try:
            if self._file is None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            os.write(self._file, line.encode())
            if sync:
                os.fsync(self._file)
        except OSError as error:
            raise InputError(f"results cannot be kept: {error.strerror}", file=self.path) from None

    def close(self) -> None:
        """Nothing more is added."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _read(self, path: Path) -> None:
        """All complete lines; the last one of a run that was killed may be torn, and is cut off."""
        try:
            data = read_bytes(path, MOST_STREAMED)
            whole = data.rfind(b"\n") + 1
            for line in data[:whole].splitlines():
                key, value = json.loads(line)
                self.known[key] = value
            if whole < len(data):
                os.truncate(path, whole)
        except (OSError, ValueError) as error:
            raise InputError("this is no journal of results", file=path, hint="remove it to begin anew") from error
