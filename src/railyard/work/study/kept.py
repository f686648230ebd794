"""A run that was kept: its folder, or the result in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.kit.errors import InputError, did_you_mean
from railyard.kit.files import read_text
from railyard.measure.result.reading import Result, result_from
from railyard.work.study.folder import of_variant

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def result_file(run: Path) -> Path:
    """The result of a run.

    Raises:
        InputError: There is none.
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
    """The result that a file holds.

    Raises:
        InputError: The file is no complete result of a run.
    """
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
    """Runs by the name of their folders; where two folders are called the same, with the folder above.

    Raises:
        InputError: One is no run, or stands twice.
    """
    files = [result_file(run).resolve() for run in runs]
    found: dict[str, Result] = {}
    for number, file in enumerate(files):
        if file in files[:number]:
            raise InputError("this run stands twice", file=runs[number])
        name = file.parent.name
        twin = any(other.parent.name == name for other in files if other != file)
        found["/".join(file.parts[-3:-1]) if twin else name] = read_result(file)
    return found


def timeline_of(folder: Path, number: int, name: str) -> Path:
    """Where the record of a variant lies, if its run kept one."""
    return of_variant(folder, number, name) / "timeline.parquet"
