"""`railyard compare`: the variants of a scenario, or runs that were kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.face import api
from railyard.face.cli import running
from railyard.kit.errors import InputError
from railyard.work.scenario import load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


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
        running.run(what[0], sets=sets, varies=varies, engine=engine, ray=ray, out=out, as_json=as_json, quiet=quiet)
        return
    _refuse_settings(sets, varies, engine, ray)
    for path in what:
        if path.suffix in {".yaml", ".yml"}:
            raise InputError(
                "this is a scenario among runs", file=path, hint="run it first, then give the folder of the run"
            )
    running.tell(api.compare_runs(what, out=out), as_json=as_json, quiet=quiet)


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
