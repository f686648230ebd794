"""A fault: which bytes of a file become which others."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Fault:
    """One small change of a source file.

    Attributes:
        path: Of the file, from the root of the tree.
        line: On which it begins, from 1.
        start, stop: Bytes of the file that are replaced.
        kind: Of the change, such as `comparison`.
        old, new: Text before and after.
    """

    path: str
    line: int
    start: int
    stop: int
    kind: str
    old: str
    new: str

    @property
    def key(self) -> str:
        """Names the fault, as long as its file stays as it is up to there."""
        return hashlib.sha256(repr(asdict(self)).encode()).hexdigest()[:12]

    def fits(self, root: Path) -> bool:
        """Whether the file still has the text that is replaced there."""
        file = root / self.path
        return file.exists() and file.read_bytes()[self.start : self.stop] == self.old.encode()

    def applied(self, text: bytes) -> bytes:
        """The file with the fault in it."""
        return text[: self.start] + self.new.encode() + text[self.stop :]

    def to_json(self) -> dict[str, Any]:
        """As a record of the journal."""
        return asdict(self)

    def __str__(self) -> str:
        shown = [" ".join(text.split()) for text in (self.old, self.new)]
        return f"{self.path}:{self.line}: {self.kind}: {shown[0][:90]} -> {shown[1][:90]}"
