"""The folder of a run: all of it or nothing.

Everything is written into a hidden folder beside the final one, which is then renamed. A run that is stopped, even by
`kill -9`, leaves no half-written folder under a name that anyone would open; what such a run left behind is cleared
by the next one. Files that Railyard did not write stay in a folder that is written again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from railyard.kit.errors import InputError, OutputError
from railyard.kit.files import FULL
from railyard.kit.written import left_behind, refuse_changed, restore, take_place

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_UNFINISHED = ".unfinished"
_writing: set[Path] = set()
"""Folders that this process has begun."""


def slug(name: str) -> str:
    """The name as part of a path: lower case, letters, digits, hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60] or "run"


def name_of(scenario: Mapping[str, Any], version: str) -> str:
    """`<name>-<hash8>`: the same scenario under the same version has the same folder."""
    text = json.dumps([scenario, version], sort_keys=True, ensure_ascii=False)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{slug(str(scenario['name']))}-{digest[:8]}"


def of_variant(folder: Path, number: int, name: str) -> Path:
    """Where the files of a variant go: those of the first into the folder itself, others into one of their own."""
    return folder if number == 0 else folder / "variants" / f"{number}-{slug(name)}"


@contextmanager
def replaced(root: Path, name: str) -> Iterator[Path]:
    """A folder to write into, which becomes `root/name` when the block ends well and vanishes when it does not.

    Raises:
        OutputError: There is no space.
        InputError: The folder cannot be made, or a file in it was changed since Railyard wrote it.
    """
    unfinished = root / _UNFINISHED / f"{name}-{os.getpid()}"
    try:
        refuse_changed(root / name)
        fresh = not root.exists()
        _clear_left_behind(root / _UNFINISHED)
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        _writing.add(unfinished)
    except OSError as error:
        if error.errno in FULL:
            raise OutputError(str(error.strerror), root / name) from None
        raise InputError(f"the folder of the run cannot be made: {error.strerror}", file=root / name) from None
    try:
        yield unfinished
        take_place(unfinished, root / name)
    except OSError as error:
        if error.errno in FULL:
            raise OutputError(str(error.strerror), root / name) from None
        raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
        _writing.discard(unfinished)
        _remove_if_empty(root / _UNFINISHED)
        if fresh:
            _remove_if_empty(root)


def begun(folder: Path) -> None:
    """A folder that `clear` removes where it is still there."""
    _writing.add(folder)


def clear() -> None:
    """Removes what this process has begun to write, for one that ends at once."""
    for folder in list(_writing):
        shutil.rmtree(folder, ignore_errors=True)


def _clear_left_behind(unfinished: Path) -> None:
    """Clears what killed runs left: folders whose process is gone."""
    if not unfinished.is_dir():
        return
    for left, name in left_behind(unfinished, "-"):
        restore(left, unfinished.parent / name)


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return  # another run is writing there
