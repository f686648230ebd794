"""Records that do not come with Railyard: of installed packages, and of a user's files."""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
import traceback
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError
from railyard.kit.files import MOST_BYTES, readable

if TYPE_CHECKING:
    from types import ModuleType

GROUP = "railyard.plugins"
"""Entry points that name modules to import."""

VARIABLE = "RAILYARD_PLUGINS"
"""Environment variable: files and folders of Python, separated as in `PATH`."""

_modules: dict[Path, ModuleType] = {}
_loaded: set[str] = set()
_lock = threading.RLock()
_loading = False


def load() -> None:
    """Imports what entry points of the group `railyard.plugins` and the variable `RAILYARD_PLUGINS` name; each once.

    Raises:
        InputError: A file that the variable names is missing or raises, with file and line; or a package does.
    """
    global _loading  # noqa: PLW0603 - what is being loaded may look up names itself
    with _lock:
        if _loading:
            return
        _loading = True
        try:
            _load_installed()
            _load_files(os.environ.get(VARIABLE, ""))
        finally:
            _loading = False


def _load_installed() -> None:
    if GROUP in _loaded:
        return
    from importlib import metadata  # 10 ms that `railyard packet` has no use for

    for entry in metadata.entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as error:  # WHY all: it is another package's program and may raise anything
            package = entry.dist.name if entry.dist else entry.module
            raise InputError(
                f"the plugin `{entry.name}` of the package `{package}` raises {type(error).__name__}: {error}",
                found=entry.value,
                hint=f"update it, or remove it: `pip uninstall {package}`",
            ) from error
    _loaded.add(GROUP)


def _load_files(listed: str) -> None:
    if listed in _loaded:
        return
    for name in filter(None, listed.split(os.pathsep)):
        for file in _files(Path(name)):
            _modules[file.resolve()] = module_of(file)
    _loaded.add(listed)


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(file for file in path.glob("*.py") if not file.name.startswith("_"))
    return [path]


def module_of(path: Path) -> ModuleType:
    """The module of a Python file; the file runs, unless it did as one that the variable names.

    Raises:
        InputError: There is no such file, or it raises; with file and line.
    """
    return _modules.get(path.resolve()) or _run(path)


def _run(path: Path) -> ModuleType:
    """Runs a Python file.

    Raises:
        InputError: There is no such file, or it raises; with file and line.
    """
    name = f"railyard_user_{path.stem}_{zlib.crc32(bytes(path.resolve())):08x}"
    spec = importlib.util.spec_from_file_location(name, path) if path.suffix == ".py" else None
    if not path.is_file() or spec is None or spec.loader is None:
        raise InputError("there is no such Python file", file=path, found=str(path), allowed="a file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        readable(path, MOST_BYTES)
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise InputError(f"the file is not Python: {error.msg}", file=path, line=error.lineno) from None
    except InputError as error:
        raise error.located(file=path, line=_line_of(error, path)) from None
    except (Exception, SystemExit) as error:  # WHY all: it is the user's own program and may raise anything
        raise InputError(
            f"the file raises {type(error).__name__}: {error}", file=path, line=_line_of(error, path)
        ) from None
    return module


def _line_of(error: BaseException, path: Path) -> int | None:
    frames = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return frames[-1] if frames else None
