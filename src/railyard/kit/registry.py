"""One registry for every seam: a record in a file is its own registration, schema, documentation and test subject."""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
import traceback
import zlib
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from threading import RLock
from typing import TYPE_CHECKING, Generic, TypeVar
from weakref import WeakValueDictionary

from railyard.kit.errors import InputError, did_you_mean
from railyard.kit.files import MOST_BYTES, readable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
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


T = TypeVar("T")


class Registry(Generic[T]):
    """Names of one kind of thing and their records.

    Records are looked for where they are cheapest to find: among those added, in the file of the package that is
    called as the record is, in all files of the package, in installed packages, in the user's files (`plugins`).

    Records that are made during a run (`make`) are found by their name as long as they are used, and are part of no
    list: a run knows nothing of those of others before it.

    Args:
        kind: What the records are, in the user's words ("topology", "fabric"); used in messages.
        package: It, or each of its files, adds records when it is imported; the first look-up imports them. Without
            one, records are added by those who import their modules.
        part: Each folder of the package adds its record in the file of this name, in place of a file a record.
        taken: Names that have a meaning without a record.
    """

    def __init__(self, kind: str, *, package: str | None = None, part: str = "", taken: Collection[str] = ()) -> None:
        self.kind = kind
        self._records: dict[str, T] = {}
        self._made: WeakValueDictionary[str, T] = WeakValueDictionary()
        self._package = package
        self._part = part
        self._taken = taken
        self._imported = package is None
        self._importing = False
        self._lock = RLock()

    def add(self, name: str, record: T) -> T:
        """Registers `record` under `name`; a name can be taken only once."""
        if name in self._records or name in self._taken:
            raise InputError(f"the {self.kind} `{name}` is registered twice", found=name)
        self._records[name] = record
        return record

    def enter(self, record: T) -> T:
        """Registers a record under its own `name`."""
        return self.add(vars(record)["name"], record)

    def make(self, name: str, record: T) -> T:
        """Lets `record` be found under `name` while it is kept; one of that name that is kept already is returned."""
        if name in self._records or name in self._taken:
            raise InputError(f"the {self.kind} `{name}` is registered twice", found=name)
        return self._made.setdefault(name, record)

    def made(self, name: str) -> T | None:
        """The object that was made under a name and is still kept."""
        return self._made.get(name)

    def register(self, name: str) -> Callable[[T], T]:
        """Adds a record under a name, as a decorator."""
        return lambda record: self.add(name, record)

    def get(self, name: str) -> T:
        """The record of that name.

        Raises:
            InputError: There is none; says which there are and the nearest spelling.
        """
        made = self._made.get(name)
        if made is not None:
            return made
        if name not in self:
            raise InputError(
                f"there is no {self.kind} `{name}`",
                found=name,
                allowed=self.names(),
                hint=did_you_mean(str(name), self._records),
                unknown=True,
            )
        return self._records[name]

    @property
    def known(self) -> Collection[str]:
        """Names of what was added so far; looks for no others."""
        return self._records.keys()

    def names(self) -> list[str]:
        """All names, sorted."""
        self._load()
        return sorted(self._records)

    def items(self) -> list[tuple[str, T]]:
        """All names and records, sorted by name."""
        self._load()
        return self.shipped()

    def shipped(self) -> list[tuple[str, T]]:
        """Names and records that come with Railyard, sorted by name; looks for no others, which takes 10 ms."""
        self._import_package()
        return sorted(self._records.items(), key=lambda item: item[0])

    def __contains__(self, name: object) -> bool:
        if name in self._made:
            return True
        if name not in self._records:
            self._import_file(name)
        if name not in self._records:
            self._load()
        return name in self._records

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    def _import_file(self, name: object) -> None:
        file = f"{str(name).replace('-', '_')}.{self._part}".rstrip(".")
        if not self._imported and file in self._files():
            import_module(f"{self._package}.{file}")

    def _import_package(self) -> None:
        """Imports every file of the package; another thread waits: half a registry is a wrong one."""
        if self._imported:
            return
        with self._lock:
            if self._imported or self._importing:  # a file of the package that looks up names while it is imported
                return
            self._importing = True
            try:
                for file in self._files():
                    import_module(f"{self._package}.{file}")
                self._imported = True
            finally:
                self._importing = False

    def _files(self) -> list[str]:
        if self._package is None:
            return []
        places = getattr(import_module(self._package), "__path__", ())
        files = list(iter_modules(places))
        if not self._part:
            return [file.name for file in files]
        folders = {file.name: [f"{place}/{file.name}" for place in places] for file in files if file.ispkg}
        # The folders are listed and not imported: a look-up of one record must not load the packages of the others.
        return [
            f"{name}.{self._part}"
            for name, inside in folders.items()
            if any(file.name == self._part for file in iter_modules(inside))
        ]

    def _load(self) -> None:
        self._import_package()
        load()
