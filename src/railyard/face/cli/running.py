"""`railyard run`, and how any result is printed."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from railyard.face import api
from railyard.face.api import believed, compared, layouts, operated, wide, words
from railyard.face.cli import signals, terminal
from railyard.face.cli.terminal import Progress, Table, emit, say
from railyard.graph.exporter import exporters
from railyard.graph.parquet import read_record
from railyard.kit.errors import InputError, SimulationError
from railyard.work.scenario import load

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from railyard.face.api.operated import Sheet
    from railyard.measure.result.reading import Result


_RECORDS = ("timeline.parquet", "flows.parquet", "requests.parquet")
"""Records in folders of runs: of tasks, of flows, of requests."""


def export(run: Path, *, name: str, out: Path | None, quiet: bool) -> None:
    """Writes the record of a run.

    Raises:
        InputError: There is no such run or exporter, or the file cannot be written.
    """
    try:
        exporter = exporters.get(name)
    except InputError as error:
        raise error.located(key="--as") from None
    path = out or Path(f"{run.stem}{exporter.suffix}")
    record = read_record(_file_of(run))
    try:
        exporter.write(record, path)
    except OSError as error:
        raise InputError(f"the file cannot be written: {error.strerror}", file=path, key="--out") from None
    if not quiet:
        say(f"wrote {path}")


def _file_of(run: Path) -> Path:
    """The record of a folder, or the file itself."""
    if not run.is_dir():
        return run
    found = [run / name for name in _RECORDS if (run / name).is_file()]
    if not found:
        raise InputError("the folder holds no record of a run", file=run, allowed=_RECORDS)
    return found[0]


_FAILED = 3
"""Variants that did not end well and are named."""


def run(
    scenario: Path,
    *,
    sets: Sequence[str],
    varies: Sequence[str],
    engine: str | None,
    out: Path,
    as_json: bool,
    quiet: bool,
    ray: str | None = None,
) -> None:
    """Runs a scenario and prints the comparison, or the result as JSON.

    Raises:
        InputError: The scenario is wrong.
        SimulationError: The run cannot finish, or a variant could not; those that could are printed and kept.
    """
    from railyard.work.study.workers import workers

    signals.ready(once=True)
    pool = None if ray is None else partial(workers, ray)
    with Progress(wanted=not quiet) as progress:
        progress("reading the scenario", 0.0)
        finished = api.execute(
            terminal.scenario(scenario, sets), varies, engine=engine, pool=pool, out=out, progress=progress
        )
    tell(finished, as_json=as_json, quiet=quiet)
    failed = finished.result.failed or ()
    total = len(failed) + len(finished.result.variants)
    if signals.came():
        early = "; ".join(f"{one.name} was stopped {one.stopped}" for one in finished.result.operated if one.stopped)
        ended = early or f"{total - len(failed)} of {total} variants had ended"
        terminal.so_far(f"{ended}; the same command goes on from here")
    if failed:
        said = "; ".join(f"{one.name}: {one.error}" for one in failed[:_FAILED])
        raise SimulationError(f"{len(failed)} of {total} variants did not end well: {said}")


def tell(finished: api.Run, *, as_json: bool, quiet: bool) -> None:
    """The comparison, why it came out so, and where the report is; or the result as JSON."""
    if as_json:
        emit(finished.result.text())
        return
    show(finished)
    if not quiet:
        text = "\n".join([words.why(finished.result), *words.notes(finished.result)])
        emit(f"\n{text}\n\nreport: {finished.report_path}")


def _sheets(sheets: Iterator[Sheet]) -> None:
    """Tables one below the other."""
    for number, sheet in enumerate(sheets):
        if number:
            emit("")
        _table(compared.Comparison(sheet.headings, range(1, len(sheet.headings)), sheet.rows))


def show(finished: api.Run) -> None:
    """The comparison as tables."""
    result = finished.result
    if operated.are_operated(result):
        _sheets(operated.sheets(result))
        return
    if wide.are_wide(result):
        _sheets(wide.sheets(result))
        return
    _table(compared.comparison(result))
    if "runs" not in result.scenario:  # of kept runs each has been shown with its layouts when it was run
        _layouts(result)
    if rows := list(believed.rows(result)):
        emit("")
        _table(compared.Comparison(believed.HEADINGS, believed.RIGHT, rows))


def _layouts(result: Result) -> None:
    for variant in result.steps:
        if lines := layouts.rows(variant):
            emit(f"\n{layouts.title(variant, alone=len(result.steps) == 1)}")
            _table(compared.Comparison(layouts.HEADINGS, layouts.RIGHT, list(lines)))


def _table(found: compared.Comparison) -> None:
    table = Table(found.headings, found.right, turn=True)
    for cells in found.rows:
        table.add(*cells)
    table.print()


def compare(
    what: Sequence[Path],
    *,
    sets: Sequence[str],
    varies: Sequence[str],
    engine: str | None,
    ray: str | None,
    out: Path,
    as_json: bool,
    quiet: bool,
) -> None:
    """Runs every combination of the varied values, or sets runs side by side.

    Raises:
        InputError: Nothing is varied, the scenario is wrong, or runs cannot be read or compared.
        SimulationError: The run cannot finish.
    """
    if len(what) == 1 and not _is_run(what[0]):
        _refuse_nothing(what[0], sets, varies)
        run(what[0], sets=sets, varies=varies, engine=engine, ray=ray, out=out, as_json=as_json, quiet=quiet)
        return
    _refuse_settings(sets, varies, engine, ray)
    for path in what:
        if path.suffix in {".yaml", ".yml"}:
            raise InputError(
                "this is a scenario among runs", file=path, hint="run it first, then give the folder of the run"
            )
    tell(api.compare_runs(what, out=out), as_json=as_json, quiet=quiet)


def _refuse_nothing(scenario: Path, sets: Sequence[str], varies: Sequence[str]) -> None:
    given = load.load(scenario, sets).scenario.compare
    if not (varies or given.vary or given.variants or given.steps):
        raise InputError("there is nothing to compare", hint="give for example `--vary fabric=roce,infiniband,ideal`")


def _is_run(path: Path) -> bool:
    return path.is_dir() or path.suffix == ".json"


def _refuse_settings(sets: Sequence[str], varies: Sequence[str], engine: str | None, ray: str | None) -> None:
    given = {"--set": bool(sets), "--vary": bool(varies), "--engine": engine is not None, "--ray": ray is not None}
    option = next((name for name, there in given.items() if there), None)
    if option is not None:
        raise InputError(
            "runs that were kept cannot be changed", key=option, hint="give a scenario, or `railyard run` it anew"
        )
