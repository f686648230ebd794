"""Which importer reads a file: told by its content, or said."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from railyard.errors import InputError
from railyard.workload.replay.text_file import content

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from railyard.workload.replay.trace import Trace

FORMATS = {"chakra": "chakra", "goal": "goal", "htsim": "htsim_matrix", "csv": "flows_csv", "parquet": "graph_parquet"}
"""Name of a format, and the module that reads it."""

SUFFIXES = {
    ".cm": "htsim", ".tm": "htsim", ".goal": "goal", ".bin": "goal", ".et": "chakra", ".csv": "csv", ".json": "chakra",
    ".parquet": "parquet",
}  # fmt: skip
"""What files are called, for those whose content does not tell."""

_WORDS = {"num_ranks": "goal", "Nodes": "htsim", "Connections": "htsim", "Triggers": "htsim", "Failures": "htsim"}
_HEAD_BYTES = 1 << 16


def load(name: str) -> Any:
    """The module that reads a format.

    Raises:
        InputError: There is no such format.
    """
    if name not in FORMATS:
        raise InputError("unknown format of a trace", key="format", found=name, allowed=tuple(FORMATS))
    return import_module(f"railyard.workload.replay.{FORMATS[name]}")


def read(path: Path, name: str | None = None, options: Mapping[str, Any] | None = None) -> Trace:
    """The work of a file.

    Args:
        path: The file, or the folder of a trace.
        name: Its format; None: as its content tells.
        options: Keywords of the importer.

    Raises:
        InputError: The format is not known, or the file is wrong.
    """
    trace: Trace = load(name or format_of(path)).read(path, **(options or {}))
    return trace


def format_of(path: Path) -> str:
    """The format of a file, by its first bytes and, where they do not tell, by its name.

    Raises:
        InputError: Neither tells.
    """
    if path.is_dir():
        return "chakra"
    head = content(path, most=_HEAD_BYTES)
    found = _by_bytes(head) or _by_words(head) or SUFFIXES.get(path.suffix.lower())
    if found is None:
        raise InputError("the format of the file is not known", file=path, allowed=tuple(SUFFIXES))
    return found


def _by_bytes(head: bytes) -> str | None:
    from railyard.workload.replay.chakra_files import is_archive
    from railyard.workload.replay.goal import COOKIE

    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith(COOKIE):
        return "goal"
    return "chakra" if is_archive(head) or head.lstrip()[:1] in (b"{", b"[") else None


def _by_words(head: bytes) -> str | None:
    """The format that the first line of a text begins like, comments aside."""
    try:
        text = head.decode(errors="strict" if len(head) < _HEAD_BYTES else "ignore")
    except UnicodeDecodeError:
        return None
    lines = (line.strip() for line in text.splitlines())
    first = next((line for line in lines if line and not line.startswith(("#", "//", "/*"))), "")
    word = first.split(maxsplit=1)[0] if first else ""
    if "source" in (cell.strip() for cell in first.split(",")):
        return "csv"
    return _WORDS.get(word) or ("htsim" if "->" in word else None)
