"""Folders of files that appear complete or not at all."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError
from railyard.kit.files import unwritten
from railyard.kit.written import left_behind, refuse_changed, restore, take_place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path


def replaced(
    out: Path, mark: str, files: Iterable[tuple[str, str | bytes]], progress: Callable[[str, float], None]
) -> list[str]:
    """Writes a folder; of one of the same kind that is there already, files of others stay.

    Args:
        out: The folder.
        mark: Name of a file that every folder of the kind has: others are left as they are.
        files: Names and contents, made while they are written; scripts (`.sh`) can be run.
        progress: Told of each file.

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
