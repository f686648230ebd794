"""The folder of a run, written completely or not at all.

Everything is written into a hidden folder next to the final one, which is then renamed. A run that is stopped, even by
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

from railyard.kit.errors import InputError, OutputError, did_you_mean
from railyard.kit.files import FULL, MOST_STREAMED, copy_file, opened, read_bytes, read_text, write_text
from railyard.kit.schema import yaml
from railyard.kit.table import left_behind, refuse_changed, restore, take_place
from railyard.measure.result.measured import MARK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from railyard.graph import Record
    from railyard.measure.result.reading import Result
    from railyard.work.scenario.load import Draft, Variant


def key_of(*what: object) -> str:
    """A name for what a result depends on, equal if everything is equal."""
    text = json.dumps(what, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class Journal:
    """Results by key.

    Args:
        path: The file, created with the first result; None keeps results in memory only.

    Raises:
        InputError: It cannot be read.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.known: dict[str, Any] = {}
        self._file: int | None = None
        if path is not None and path.exists():
            self._read(path)

    def add(self, key: str, value: Any, *, sync: bool = True) -> None:
        """Stores a result.

        Args:
            key: Its name.
            value: Plain values.
            sync: Whether it and everything before it must be on disk on return.

        Raises:
            InputError: It cannot be written.
        """
        self.known[key] = value
        if self.path is None:
            return
        line = json.dumps([key, value], ensure_ascii=False, allow_nan=False) + "\n"
        try:
            if self._file is None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            os.write(self._file, line.encode())
            if sync:
                os.fsync(self._file)
        except OSError as error:
            raise InputError(f"results cannot be kept: {error.strerror}", file=self.path) from None

    def close(self) -> None:
        """Closes the journal."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _read(self, path: Path) -> None:
        """All complete lines; the last line of a killed run may be incomplete and is dropped."""
        try:
            data = read_bytes(path, MOST_STREAMED)
            whole = data.rfind(b"\n") + 1
            for line in data[:whole].splitlines():
                key, value = json.loads(line)
                self.known[key] = value
            if whole < len(data):
                os.truncate(path, whole)
        except (OSError, ValueError) as error:
            raise InputError("this is not a journal of results", file=path, hint="remove it to start over") from error


def write_timeline(folder: Path, record: Record, ranks: Sequence[int]) -> None:
    """Writes `timeline.parquet`, and `trace.json` of the given ranks."""
    from railyard.graph import parquet, perfetto

    parquet.write_record(record, folder / "timeline.parquet")
    perfetto.write(record, folder / "trace.json", ranks=ranks)


_UNFINISHED = ".unfinished"
_writing: set[Path] = set()
"""Folders that this process has started to write."""


def slug(name: str) -> str:
    """The name as part of a path: lower case, letters, digits, hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60] or "run"


def name_of(scenario: Mapping[str, Any], version: str) -> str:
    """`<name>-<hash8>`: the same scenario with the same version gives the same folder."""
    text = json.dumps([scenario, version], sort_keys=True, ensure_ascii=False)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{slug(str(scenario['name']))}-{digest[:8]}"


def of_variant(folder: Path, number: int, name: str) -> Path:
    """Folder of a variant's files: the run's folder for the first, subfolders for others."""
    return folder if number == 0 else folder / "variants" / f"{number}-{slug(name)}"


@contextmanager
def replaced(root: Path, name: str) -> Iterator[Path]:
    """A folder to write into, which becomes `root/name` if the block succeeds and is removed otherwise.

    Raises:
        OutputError: The disk is full.
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


STATES = ".states"
"""Folder next to the runs for states of unfinished runs."""


def forget_states(state: Path) -> None:
    """Removes the states with this prefix, of a run that has ended."""
    folder, name = state.parent, state.name
    for left in (*folder.glob(f"{name}-*.npz"), *folder.glob(f".{name}-*.tmp")):  # the latter of killed runs
        left.unlink()
    if folder.is_dir():
        _remove_if_empty(folder)


def begun(folder: Path) -> None:
    """Registers a folder for `clear` to remove if it still exists."""
    _writing.add(folder)


def clear() -> None:
    """Removes what this process has started to write, for immediate termination."""
    for folder in list(_writing):
        shutil.rmtree(folder, ignore_errors=True)


def _clear_left_behind(unfinished: Path) -> None:
    """Removes folders of killed runs, whose process is gone."""
    if not unfinished.is_dir():
        return
    for left, name in left_behind(unfinished, "-"):
        restore(left, unfinished.parent / name)


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return  # another run is writing there


INPUTS = "inputs"


def write_inputs(
    folder: Path, plain: dict[str, object], variants: Sequence[Variant], chosen: Sequence[str] = ()
) -> None:
    """Writes the scenario, with copies of the files that it names.

    Args:
        folder: Target folder.
        plain: The resolved scenario.
        variants: The variants, each of which may name other files.
        chosen: What the run chose because the scenario did not say, for comments on top.
    """
    names: dict[str, str] = {}
    for variant in variants:
        for name, path in files_of(variant.draft).items():
            names[name] = f"{INPUTS}/{slug(path.parent.resolve().name)}-{path.name}"
            target = folder / names[name]
            target.parent.mkdir(exist_ok=True)
            _copy(path, target)
    remarks = "".join(f"# {' '.join(line.split())}\n" for line in chosen)
    write_text(folder / "scenario.yaml", remarks + yaml.to_text(_renamed(plain, names)))


def _copy(path: Path, target: Path) -> None:
    """Copies a file, or the files of a folder."""
    if path.is_dir():
        shutil.copytree(path, target, dirs_exist_ok=True, copy_function=copy_file)
    else:
        copy_file(path, target)


def digests_of(draft: Draft) -> dict[str, str]:
    """Digests of the contents of all files that a scenario names, by their name in it."""
    return {name: digest_of(path) for name, path in sorted(files_of(draft).items())}


def digest_of(path: Path) -> str:
    """Digest of a file, or of a model description in a folder; empty if there is neither."""
    file = path / "config.json" if path.is_dir() else path
    if not file.exists():
        return ""
    with opened(file) as found:
        return hashlib.file_digest(found, "sha256").hexdigest()


def files_of(draft: Draft) -> dict[str, Path]:
    """The files that a scenario names, by their name in it."""
    files: dict[str, Path] = {}
    for section in (*draft.scenario.workload.sections, draft.scenario.packet):
        files |= section.files_in(draft.folder)
    if draft.scenario.collectives.constants is not None:
        files[draft.scenario.collectives.constants] = draft.folder / draft.scenario.collectives.constants
    if draft.scenario.catalog is not None:
        files[draft.scenario.catalog] = draft.folder / draft.scenario.catalog
    return files


def calibrations(draft: Draft) -> list[str]:
    """The measurements behind the constants that a scenario names: `calibrated with steps.csv (2026-11-30), 3 rows`."""
    found = []
    for path in files_of(draft).values():
        if path.suffix == ".toml" and path.is_file():
            first = read_text(path).partition("\n")[0]
            found += [first.removeprefix("# ")] if first.startswith(MARK) else []
    return found


def _renamed(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _renamed(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_renamed(item, names) for item in value]
    return names.get(value, value) if isinstance(value, str) else value


def result_file(run: Path) -> Path:
    """The result file of a run.

    Raises:
        InputError: There is no result.
    """
    if run.is_dir():
        file = run / "result.json"
        if not file.is_file():
            inside = sorted(path.parent.name for path in run.glob("*/result.json"))
            hint = (
                f"the runs in it: {', '.join(inside)}"
                if inside
                else "give the folder that `railyard run` named, or its result.json"
            )
            raise InputError("this folder holds no run: it has no result.json", file=run, hint=hint)
        return file
    if not run.exists():
        known = sorted(path.parent.name for path in run.parent.glob("*/result.json")) if run.parent.is_dir() else []
        hint = did_you_mean(run.name, known) or "`railyard run SCENARIO` writes the folder of a run"
        raise InputError("there is no such run", file=run, hint=hint)
    return run


def read_result(file: Path) -> Result:
    """The result in a file.

    Raises:
        InputError: The file is not a complete result of a run.
    """
    from railyard.measure.result.reading import result_from

    text = read_text(file)
    if file.suffix in {".yaml", ".yml"}:
        hint = f"run it first: `railyard run {file}` names the folder of the run, which `explain` takes"
        raise InputError("this is a scenario, not a run", file=file, hint=hint)
    try:
        result = result_from(text)
    except InputError as error:
        raise error.located(file=file) from None
    return result


def read_all(runs: Sequence[Path]) -> dict[str, Result]:
    """Runs by folder name; if two folders have the same name, with the parent folder.

    Raises:
        InputError: A folder is not a run, or is listed twice.
    """
    files = [result_file(run).resolve() for run in runs]
    found: dict[str, Result] = {}
    for number, file in enumerate(files):
        if file in files[:number]:
            raise InputError("this run is given twice", file=runs[number])
        name = file.parent.name
        twin = any(other.parent.name == name for other in files if other != file)
        found["/".join(file.parts[-3:-1]) if twin else name] = read_result(file)
    return found


def timeline_of(folder: Path, number: int, name: str) -> Path:
    """Path of a variant's record, if its run kept one."""
    return of_variant(folder, number, name) / "timeline.parquet"
