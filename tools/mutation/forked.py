"""pytest in a child of this process, which has imported once what every run of tests imports."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_COMMON = ("pytest", "numpy", "numpy.random", "hypothesis", "hypothesis.strategies", "pydantic", "yaml", "rich.console")
_COMMON += ("hypothesis.internal.conjecture.engine", "hypothesis.internal.conjecture.shrinker", "click", "typer")


def import_common() -> None:
    """Imports what tests of every room need; nothing of Railyard."""
    for name in _COMMON:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def forked(
    arguments: Sequence[str], root: Path, paths: Sequence[str], environment: Mapping[str, str]
) -> tuple[int, int]:
    """Starts pytest in a new process group.

    Args:
        arguments: Of pytest.
        root: Where it runs.
        paths: To look for modules in, before the usual ones.
        environment: Of the child.

    Returns:
        The process, and the file from which all that it prints is read.
    """
    read, write = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(read)
        _child(write, arguments, root, paths, environment)
    os.close(write)
    return process, read


def _child(
    write: int, arguments: Sequence[str], root: Path, paths: Sequence[str], environment: Mapping[str, str]
) -> NoReturn:
    code = 3
    try:
        os.setsid()
        os.dup2(write, 1)
        os.dup2(write, 2)
        os.chdir(root)
        os.environ.clear()
        os.environ.update(environment)
        sys.path[:] = [*paths, *sys.path]
        for name in [name for name in sys.modules if name.partition(".")[0] in ("railyard", "sitecustomize")]:
            del sys.modules[name]
        importlib.invalidate_caches()
        importlib.import_module("sitecustomize")
        sys.argv = ["pytest", *arguments]
        code = int(importlib.import_module("pytest").main(list(arguments)))
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)
