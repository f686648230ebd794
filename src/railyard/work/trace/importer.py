"""Importers of work, and which one reads a file: found from its content, or chosen by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError
from railyard.kit.registry import Registry
from railyard.work.trace.builder import Trace, content

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
