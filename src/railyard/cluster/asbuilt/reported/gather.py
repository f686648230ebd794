"""Reads reports from files and folders; what each file is follows from what is in it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from railyard.cluster.asbuilt.reported.reports import Report, Reports, readers
from railyard.kit.errors import InputError, Problem
from railyard.kit.files import read_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path


def gather(paths: Sequence[Path], devices: Collection[str]) -> Reports:
    """Everything that devices say in some files, and in all files of some folders.

    Args:
        paths: Files and folders.
        devices: Names of the network's devices: `leaf1.bgp.json`, or a file in a folder `leaf1`, is of leaf1.

    Raises:
        InputError: A path is not there, or a folder is empty.
    """
    out = Reports()
    known = {name.lower(): name for name in devices}
    for name in devices:
        known.setdefault(name.split(".")[0].lower(), name)
    for path in paths:
        if not path.exists():
            raise InputError("there is no such file or folder", key="--with", file=path)
        files = list(_files(path))
        if not files:
            raise InputError("there is no file in the folder", key="--with", file=path)
        for file in files:
            _read(file, _owner(file, known), out)
    return out


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    yield from sorted(one for one in path.rglob("*") if one.is_file() and not one.name.startswith("."))


def _owner(path: Path, known: dict[str, str]) -> str:
    """The device that the longest part of a file's name is, else the folder, else what stands before the first dot."""
    parts = path.name.split(".")
    for count in range(len(parts), 0, -1):
        name = ".".join(parts[:count]).lower()
        if name in known:
            return known[name]
    return known.get(path.parent.name.lower(), parts[0])


def _read(path: Path, device: str, out: Reports) -> None:
    try:
        text = read_text(path)
    except InputError as error:
        out.problems += error.problems
        return
    document = None
    if text.lstrip()[:1] in ("{", "["):
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            line = error.lineno if isinstance(error, json.JSONDecodeError) else None
            out.problems.append(Problem(f"the file is no JSON: {error}", file=str(path), line=line))
            return
    report = Report(text, str(path), device, document)
    kinds = [reader for _, reader in readers.items()]
    for reader in kinds:
        if reader.recognises(report):
            try:
                reader.read(report, out)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                words = f"not as any known program writes {reader.what}"
                out.problems.append(Problem(words, file=str(path), found=repr(error)[:80]))
            out.read[str(path)] = reader.what
            return
    known = ", ".join(reader.what for reader in kinds)
    out.problems.append(Problem("no known kind of report", file=str(path), found=repr(text[:40]), allowed=known))
