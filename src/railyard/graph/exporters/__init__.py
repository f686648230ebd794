"""Exporters of records to file formats of other programs; a file here registers one or more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.kit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from railyard.graph.record import Record


@dataclass(frozen=True)
class Exporter:
    """A file format that records are written in; its record is its registration.

    Attributes:
        summary: What opens such files, in one sentence.
        suffix: What names of such files end in.
        write: Of a record and a path: writes the file.
    """

    name: str
    summary: str
    suffix: str
    write: Callable[[Record, Path], None]


exporters: Registry[Exporter] = Registry("exporter", package="railyard.graph.exporters")
