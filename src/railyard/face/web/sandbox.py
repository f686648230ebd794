"""What a process that works for somebody may touch: that person's files, so much memory, no code of theirs.

Scenarios from strangers are data. Every file that Python opens is looked at (an audit hook, which cannot be removed);
what compiled libraries open by themselves is looked at beforehand, from the scenario. Written for mistakes and for what
a scenario can name, not against an attacker who already runs code in the process: nothing that a scenario holds is run.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

_NOWHERE = os.devnull + os.sep
"""What is written there is nowhere."""

_READABLE = (
    "/usr",
    "/lib",
    "/lib64",
    "/proc",
    "/sys",
    "/dev/null",
    "/dev/urandom",
    "/etc/localtime",
    "/etc/ld.so.cache",
)
"""What Python and its libraries read of a machine; nothing of a person lies there."""


def confine(folder: Path) -> None:
    """From now on this process opens files below `folder` and of its installation, and runs no Python of the folder.

    Args:
        folder: Of the person for whom it works.
    """
    sys.addaudithook(_hook(folder.resolve()))


def refuse_outside(path: Path, folder: Path) -> None:
    """Refuses a file that a scenario or a request names outside of the folder; of a folder, any file in it.

    Raises:
        InputError: It is not below `folder`, links followed.
    """
    inside = folder.resolve()
    if not path.resolve().is_relative_to(inside):
        raise _outside(path)
    for here, folders, names in os.walk(path):
        for one in (Path(here) / name for name in (*folders, *names)):
            if one.is_symlink() and not one.resolve().is_relative_to(inside):
                raise _outside(one)


def _outside(path: Path) -> InputError:
    return InputError(f"the file `{path.name}` is outside of your folder", hint="copy it into the folder")


def _code(file: str, what: str) -> InputError:
    return InputError(f"`{Path(file).name}` is {what}, and a server runs none", hint="run it from the command line")


def _hook(folder: Path) -> Callable[[str, tuple[Any, ...]], None]:
    roots = tuple(
        os.path.realpath(root) + os.sep
        for root in (folder, sys.prefix, sys.base_prefix, Path(__file__).parents[2], tempfile.gettempdir())
    )
    readable = (*roots, *_READABLE)
    inside = roots[0]

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
            path = os.path.realpath(os.fsdecode(arguments[0]))
            flags = arguments[2] if isinstance(arguments[2], int) else 0
            writes = bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
            if not f"{path}{os.sep}".startswith((inside, roots[-1], _NOWHERE) if writes else readable):
                raise _outside(Path(path))
        elif event == "exec":
            file = getattr(arguments[0], "co_filename", "")
            if not file.startswith("<") and os.path.realpath(file).startswith(inside):
                raise _code(file, "Python code")
        elif event in {"ctypes.dlopen", "import"}:
            file = arguments[0] if event == "ctypes.dlopen" else arguments[1]
            if isinstance(file, str) and os.sep in file and os.path.realpath(file).startswith(inside):
                raise _code(file, "a library")

    return look
