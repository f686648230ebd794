"""Verdicts as a JUnit report, for the test pages of build systems."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from railyard.kit.errors import InputError
from railyard.kit.files import unwritten
from railyard.kit.table import left_behind, refuse_changed, restore, take_place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path


def replaced(
    out: Path, mark: str, files: Iterable[tuple[str, str | bytes]], progress: Callable[[str, float], None]
) -> list[str]:
    """Writes a folder; of one of the same kind that already exists, files of others stay.

    Args:
        out: The folder.
        mark: Name of a file that every folder of the kind has: others are left as they are.
        files: Names and contents, made while they are written; scripts (`.sh`) can be run.
        progress: Called for each file.

    Returns:
        Names of the files, folders once.

    Raises:
        OutputError: There is no space; what was there is there still.
        InputError: It cannot be written for another reason, or files in it were changed since Railyard wrote them.
    """
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / mark).is_file())):
        raise InputError(
            "the folder holds something else", key="--out", found=out, allowed=f"a new folder, or one with {mark}"
        )
    refuse_changed(out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        for left, name in left_behind(out.parent, "."):
            if name == f".{out.name}":
                restore(left, out)
        unfinished = out.parent / f".{out.name}.{os.getpid()}"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
    except OSError as error:
        raise InputError(f"the folder cannot be made: {error.strerror}", file=out) from error
    try:
        unfinished.chmod(0o755)
        for name, content in files:
            progress(f"writing {name}", 0.5)
            path = unfinished / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
            if name.endswith(".sh"):
                path.chmod(0o755)
        names = sorted({path.relative_to(unfinished).parts[0] for path in unfinished.rglob("*") if path.is_file()})
        take_place(unfinished, out)
    except OSError as error:
        raise unwritten(error, out) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return names


_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot write (section 2.2)."""


@dataclass(frozen=True)
class JunitCase:
    """One verdict.

    Attributes:
        failure: Why it failed; None where it did not.
    """

    name: str
    failure: str | None
    words: str


def junit(suite: str, cases: Sequence[JunitCase]) -> str:
    """The report: a case a verdict."""
    failed = str(sum(one.failure is not None for one in cases))
    counts = {"tests": str(len(cases)), "failures": failed, "errors": "0"}
    root = ElementTree.Element("testsuites", counts)
    listed = ElementTree.SubElement(root, "testsuite", {"name": _clean(suite), **counts, "skipped": "0"})
    for one in cases:
        case = ElementTree.SubElement(listed, "testcase", {"classname": _clean(suite), "name": _clean(one.name)})
        if one.failure is not None:
            ElementTree.SubElement(case, "failure", {"message": _clean(one.failure), "type": "assertion"})
        ElementTree.SubElement(case, "system-out").text = _clean(one.words)
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _clean(text: str) -> str:
    return _FORBIDDEN.sub(lambda found: repr(found[0])[1:-1], text)
