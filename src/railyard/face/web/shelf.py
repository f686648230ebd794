"""Scenario files and runs of one folder; no name leads out of it."""

from __future__ import annotations

import hashlib
import html
import os
import re
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, TypeVar

from railyard.face.verb import DEPLOYMENTS
from railyard.face.web.documents import AnswerRow, FileRow, FileText, InputRow, PageRow, RunRow
from railyard.graph.parquet import is_record
from railyard.kit.errors import InputError
from railyard.kit.files import locked, opened, read_bytes, read_text, write_text
from railyard.measure.result.answers import NAMES, answer_from
from railyard.measure.result.reading import kind_of, result_from
from railyard.work.study.presentation import comparison, presentation_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@lru_cache(maxsize=4096)
def head_of(path: Path, changed_ns: int) -> RunRow | None:
    """The head of a result, or None where this version cannot read it.

    Args:
        path: The file `result.json`, in the folder of its run.
        changed_ns: When it was written: another time is another result.
    """
    try:
        result = result_from(read_bytes(path))
    except (OSError, InputError):
        return None
    found = comparison(result)
    return RunRow(
        run=path.parent.name,
        name=result.name,
        engine=result.provenance.engine,
        created=result.provenance.created or datetime.fromtimestamp(changed_ns / 1e9, UTC).isoformat("T", "seconds"),
        version=result.provenance.version,
        kind=kind_of(result.variants[0]) or "unknown",
        columns=list(found.headings),
        rows=[list(cells) for cells in found.rows],
        sentence=presentation_of(result).verdict(result),
    )


@lru_cache(maxsize=4096)
def answer_head_of(path: Path, changed_ns: int) -> AnswerRow | None:
    """The head of an answer, or None where this version cannot read it.

    Args:
        path: Its document.
        changed_ns: When it was written.
    """
    try:
        answer = answer_from(read_bytes(path))
    except (OSError, InputError):
        return None
    return AnswerRow(
        answer=path.parent.name,
        kind=NAMES[type(answer)],
        name=answer.name,
        sentence=answer.sentence(),
        changed=changed_ns / 1e9,
        hall=(path.parent / "scenario.yaml").is_file(),
    )


RUNS = "runs"
RESULT = "result.json"
UPLOADS = "uploads"
"""Folder of uploaded files."""

_ENDINGS = (".yaml", ".yml")
_LOCK = ".railyard-lock"
"""Lock of a folder's scenarios, under which a version is compared and replaced in one step."""
_MOST_FILES = 2000
_DEEPEST = 4
_DEEPEST_UPLOAD = 2
_CODE = frozenset({".py", ".pyc", ".pyd", ".pyi", ".pyw", ".pth", ".so", ".dll", ".dylib", ".sh", ".exe"})

_SKIPPED = frozenset({RUNS, DEPLOYMENTS, "node_modules", "people"})


_TITLE = re.compile(r"<title>([^<]{0,300})</title>", re.IGNORECASE)
_HEAD_BYTES = 4096


Row = TypeVar("Row", RunRow, AnswerRow)


class Missing(Exception):
    """A file or run that does not exist was asked for."""


class Conflict(Exception):
    """A file was changed since its writer read it."""


class Shelf:
    """Contents of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()

    def files(self) -> list[FileRow]:
        """Scenario files, by name."""
        return [self._row(path) for path in sorted(filter(self._is_inside, self._named(_ENDINGS, _SKIPPED)))]

    def read(self, name: str) -> FileText:
        """A scenario file.

        Raises:
            Missing: There is no such file.
            InputError: It is no scenario's name, or cannot be read.
        """
        path = self._path(name)
        if not path.is_file():
            raise Missing(name)
        text = read_text(path)
        return FileText(file=name, text=text, version=fingerprint(text))

    def write(self, name: str, text: str, version: str | None) -> FileText:
        """Writes a scenario file; of writers that replace the same version at the same time, the first one wins.

        Args:
            name: Relative to the folder.
            text: YAML; it need not be a valid scenario yet.
            version: Fingerprint of what is replaced; None for a new file.

        Raises:
            Conflict: The file there is another one, or there is one where none was expected.
            InputError: It is no scenario's name, or cannot be written.
        """
        path = self._path(name)
        with locked(self.folder / _LOCK):
            present = fingerprint(read_text(path)) if path.is_file() else None
            if present != version:
                raise Conflict(name)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(f"the folder cannot be made: {error.strerror}", file=name) from None
            write_text(path, text)
        return FileText(file=name, text=text, version=fingerprint(text))

    def runs(self, *, offset: int = 0, most: int = 100) -> list[RunRow]:
        """Runs, latest first; folders without a readable result are left out.

        Args:
            offset: How many of the latest are left out.
            most: Rows.
        """
        return self._heads(head_of, [folder / RESULT for folder in self._folders(RUNS)], offset, most)

    def run(self, name: str) -> Path:
        """The folder of a run.

        Raises:
            Missing: There is none of that name.
        """
        path = self.folder / RUNS / name
        if PurePosixPath(name).name != name or name.startswith(".") or not (path / RESULT).is_file():
            raise Missing(name)
        if not self._is_inside(path):
            raise Missing(name)
        return path

    def file_of_run(self, run: str, name: str) -> Path:
        """A file in the folder of a run.

        Raises:
            Missing: There is none of that name.
        """
        root = self.run(run).resolve()
        path = (root / name).resolve() if "\0" not in name else root
        if not path.is_relative_to(root) or not path.is_file():
            raise Missing(name)
        return path

    def records(self) -> list[FileRow]:
        """Records outside of runs, by name: what `railyard observe --out` read of traces."""
        found = sorted(self._named((".parquet",), _SKIPPED))
        return [self._row(path) for path in found if self._is_inside(path) and is_record(path)]

    def record(self, name: str) -> Path:
        """A record of `records`.

        Raises:
            Missing: There is none of that name.
        """
        path = self.given(name)
        if not path.is_file() or not is_record(path):
            raise Missing(name)
        return path

    def given(self, name: str) -> Path:
        """A file or a folder that a verb is to read.

        Raises:
            Missing: There is none of that name below the folder.
        """
        parts = PurePosixPath(name).parts
        path = self.folder / name if "\0" not in name else self.folder
        hidden = not parts or any(part.startswith(".") for part in parts)
        if hidden or not self._is_inside(path) or not path.exists():
            raise Missing(name)
        return path

    def inputs(self) -> list[InputRow]:
        """Inputs of verbs, the latest first: files, folders of uploads, runs."""
        runs = [path for path in self._folders(RUNS) if (path / RESULT).is_file()]
        paths = [*self._named((), _SKIPPED), *self._folders(UPLOADS), *runs]
        rows = [self._input(path) for path in paths if self._is_inside(path)]
        return sorted(rows, key=lambda row: -row.changed)[:_MOST_FILES]

    def _row(self, path: Path) -> FileRow:
        state = path.stat()
        return FileRow(file=path.relative_to(self.folder).as_posix(), bytes=state.st_size, changed=state.st_mtime)

    def _input(self, path: Path) -> InputRow:
        row, folder = self._row(path), path.is_dir()
        return InputRow(file=row.file, folder=folder, bytes=0 if folder else row.bytes, changed=row.changed)

    def _folders(self, name: str) -> list[Path]:
        """Folders of one that is known by its name, none hidden."""
        root = self.folder / name
        listed = os.scandir(root) if root.is_dir() else ()
        return [Path(one.path) for one in listed if not one.name.startswith(".") and one.is_dir()]

    def upload_to(self, name: str) -> Path:
        """Path of an uploaded file; its folder is made.

        Args:
            name: Relative to the folder of uploads: a file, or a folder and a file.

        Raises:
            InputError: It is no such name, is one of code, or its folder cannot be made.
        """
        parts = PurePosixPath(name).parts
        wrong = not 1 <= len(parts) <= _DEEPEST_UPLOAD or PurePosixPath(name).is_absolute() or _strange(parts)
        root = self.folder / UPLOADS
        path = root / name
        if wrong or not self._is_inside(path) or path.is_dir():
            allowed = "a name, or a folder and a name, of at most 255 bytes each, none hidden"
            raise InputError("this is not a valid name of an upload", key="file", found=name[:200], allowed=allowed)
        if path.suffix.lower() in _CODE:
            raise InputError("this is code, which a server does not accept", key="file", found=name[:200])
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"the folder cannot be made: {error.strerror}", file=name) from None
        return path

    def uploaded(self) -> tuple[int, int]:
        """Number of uploaded files, and their bytes."""
        sizes = [
            path.stat().st_size
            for path in (self.folder / UPLOADS).rglob("*")
            if path.is_file() and not path.is_symlink()
        ]
        return len(sizes), sum(sizes)

    def answers(self) -> list[AnswerRow]:
        """Stored answers of commands other than `run`, latest first, without those of unknown formats."""
        documents = [path for folder in self._folders(RUNS) if (path := _answer_in(folder))]
        return self._heads(answer_head_of, documents, 0, _MOST_FILES)

    def _heads(self, read: Callable[[Path, int], Row | None], files: list[Path], offset: int, most: int) -> list[Row]:
        """Heads of files, the latest first, without those that cannot be read."""
        found = sorted(((_changed_ns(path), path) for path in files if self._is_inside(path)), reverse=True)
        heads = (read(path, changed) for changed, path in found[offset : offset + most] if changed)
        return [head for head in heads if head is not None]

    def answer(self, name: str) -> Path:
        """The document of an answer.

        Raises:
            Missing: There is none of that name.
        """
        folder = self.folder / RUNS / name
        path = None if PurePosixPath(name).name != name or name.startswith(".") else _answer_in(folder)
        if path is None or not self._is_inside(path):
            raise Missing(name)
        return path

    def pages(self) -> list[PageRow]:
        """Pages that commands wrote other than reports of runs, latest first."""
        found = [path for path in self._named((".html",), _SKIPPED - {RUNS, DEPLOYMENTS}) if self._is_page(path)]
        rows = [
            PageRow(file=path.relative_to(self.folder).as_posix(), title=_title(path), changed=path.stat().st_mtime)
            for path in found
        ]
        return sorted(rows, key=lambda row: -row.changed)

    def page(self, name: str) -> Path:
        """A page of `pages`.

        Raises:
            Missing: There is none of that name.
        """
        path = self.given(name)
        if path.suffix != ".html" or not path.is_file():
            raise Missing(name)
        return path

    def _is_page(self, path: Path) -> bool:
        shown = (path.parent / RESULT).is_file() or path.with_suffix(".json") == _answer_in(path.parent)
        return self._is_inside(path) and not shown

    def kept(self, run: str, variant: int, name: str) -> Path:
        """A file of a variant of a run, such as its record.

        Raises:
            Missing: There is none.
        """
        folder = self.run(run)
        inside = sorted((folder / "variants").glob(f"{variant}-*"))
        place = folder if variant == 0 else inside[0] if inside else folder / "none"
        return self.file_of_run(run, (place / name).relative_to(folder).as_posix())

    def _is_inside(self, path: Path) -> bool:
        """Whether it lies in the folder, links followed."""
        return path.resolve().is_relative_to(self.folder)

    def _named(self, endings: tuple[str, ...], skipped: frozenset[str]) -> Iterator[Path]:
        """Files with one of some endings (any where none is named), at most `_MOST_FILES`, none hidden or too deep."""
        count = 0
        for here, folders, names in os.walk(self.folder):
            depth = len(Path(here).relative_to(self.folder).parts)
            folders[:] = sorted(name for name in folders if not _hidden(name, skipped) and depth < _DEEPEST)
            for name in sorted(names):
                fits = (not endings or name.endswith(endings)) and not name.startswith(".")
                if fits and (Path(here) / name).is_file():
                    yield Path(here) / name
                    count += 1
                    if count >= _MOST_FILES:
                        return

    def _path(self, name: str) -> Path:
        parts = PurePosixPath(name).parts
        wrong = (
            not name.endswith(_ENDINGS) or PurePosixPath(name).is_absolute() or _strange(parts) or len(parts) > _DEEPEST
        )
        path = self.folder / name
        if wrong or not self._is_inside(path):
            allowed = f"a name below the folder that ends in .yaml or .yml, at most {_DEEPEST} parts, none hidden"
            raise InputError("this is not a valid name of a scenario's file", found=name[:200], allowed=allowed)
        return path


def _strange(parts: tuple[str, ...]) -> bool:
    """Whether names of files or folders lead upwards, are hidden, too long, or hold what no name should."""
    return any(
        part.startswith(".") or "\\" in part or any(ord(letter) < 32 for letter in part) or len(os.fsencode(part)) > 255
        for part in parts
    )


def fingerprint(text: str) -> str:
    """Fingerprint of a text, for those who replace it."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _answer_in(folder: Path) -> Path | None:
    return next((path for name in NAMES.values() if (path := folder / f"{name}.json").is_file()), None)


def _hidden(name: str, skipped: frozenset[str]) -> bool:
    return name.startswith((".", "__")) or name in skipped


def _title(path: Path) -> str:
    """Title of a page, in its first bytes; the name of its file if it has none."""
    with opened(path) as file:
        found = _TITLE.search(file.read(_HEAD_BYTES).decode("utf-8", "replace"))
    return html.unescape(found[1]).strip() or path.name if found else path.name


def _changed_ns(path: Path) -> int:
    """Modification time of the file; 0 without one: another program's folder, or a run that is being replaced."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
