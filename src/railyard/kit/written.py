"""Which files of a folder Railyard wrote: a later run replaces those and leaves all others where they are.

Every folder that Railyard writes has a list of its files with a digest each. What is not on the list, or has another
digest, is its reader's: notes, filled-in tables, pictures.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from contextlib import suppress
from pathlib import Path

from railyard.kit.errors import InputError
from railyard.kit.files import opened, read_text

LIST = ".railyard-files"
_OLD = "-old"
_HINT = "move it, or name another folder with `--out`"


def refuse_changed(folder: Path) -> None:
    """Refuses, before any work is done, a folder that Railyard did not write or whose files of its were changed.

    Raises:
        InputError: It is such a folder, or a file.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError("this is a file, and a folder is due", file=folder)
    if folder.is_dir() and any(folder.iterdir()) and not (folder / LIST).is_file():
        raise InputError("Railyard did not write this folder, and would write over it", file=folder, hint=_HINT)
    for name, digest in _listed(folder).items():
        if os.path.lexists(folder / name) and not _as_written(folder / name, digest):
            raise _changed(folder / name)


def take_place(new: Path, final: Path) -> None:
    """Puts a folder in the place of an earlier one, of which files that Railyard did not write stay.

    Killed between two steps, it leaves the earlier folder under `<new>-old`, which `restore` puts back.

    Args:
        new: With all its files, in the same file system.
        final: Its place.

    Raises:
        InputError: A file that Railyard did not write has the name of a new one.
        OSError: It cannot be done; the earlier folder is as it was.
    """
    names = _files(new)
    lines = [f"{_digest(new / name)}  {name}\n" for name in names]
    kept = [name for name in _foreign(final) if final.is_dir()]
    for name in kept:
        if name in names:
            raise _changed(final / name)
        (new / name).parent.mkdir(parents=True, exist_ok=True)
        _carry(final / name, new / name)
    (new / LIST).write_text("".join(lines), encoding="utf-8", errors="surrogateescape")
    old = new.with_name(f"{new.name}{_OLD}")
    if final.exists():
        final.replace(old)
    new.replace(final)
    shutil.rmtree(old, ignore_errors=True)


def left_behind(folder: Path, separator: str) -> list[tuple[Path, str]]:
    """Folders that killed processes left half-written, and what stands in their names before the process.

    Args:
        folder: That holds them, as `<name><separator><number of the process>`.
        separator: A character.
    """
    found = []
    for left in folder.iterdir():
        name, _, pid = left.name.removesuffix(_OLD).rpartition(separator)
        if pid.isdecimal() and not _alive(int(pid)):
            found.append((left, name))
    return found


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def restore(left: Path, final: Path) -> None:
    """Clears what a killed process left: an earlier folder goes back to its place when nothing took it.

    Args:
        left: What was left.
        final: The place of the folder that was to be written.
    """
    if left.name.endswith(_OLD) and not final.exists():
        with suppress(OSError):  # another process was quicker
            left.replace(final)
            return
    shutil.rmtree(left, ignore_errors=True)


def _changed(path: Path) -> InputError:
    return InputError(
        "Railyard did not write this file as it is, and would write over it",
        file=path,
        hint=_HINT,
    )


def _files(folder: Path) -> list[str]:
    """Names of files and links at any depth, sorted."""
    found = (Path(root) / name for root, _, names in os.walk(folder) for name in names)
    links = (
        Path(root) / name for root, names, _ in os.walk(folder) for name in names if (Path(root) / name).is_symlink()
    )
    return sorted(str(path.relative_to(folder)) for path in (*found, *links))


def _foreign(folder: Path) -> list[str]:
    """Files of a folder that Railyard did not write, or that were changed since."""
    listed = _listed(folder)
    return [name for name in _files(folder) if name != LIST and not _as_written(folder / name, listed.get(name))]


def _as_written(path: Path, digest: str | None) -> bool:
    return digest is not None and not path.is_symlink() and path.is_file() and _digest(path) == digest


def _listed(folder: Path) -> dict[str, str]:
    """Digest of each file by its name; empty where there is no list."""
    path = folder / LIST
    if not path.is_file():
        return {}
    rows = (line.split("  ", 1) for line in read_text(path, errors="surrogateescape").split("\n") if "  " in line)
    return {name: digest for digest, name in rows}


def _digest(path: Path) -> str:
    with opened(path) as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def _carry(source: Path, target: Path) -> None:
    """A second name for a file, so that a process that is killed loses neither; a copy where none can be given."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)
