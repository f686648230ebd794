"""`railyard tune`: settings of the collective library and the fabric."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from railyard.api import numbers
from railyard.cli.messages import say
from railyard.cli.progress import Progress
from railyard.cli.tables import Table, emit
from railyard.cli.tuned_files import print_readings, write_configured
from railyard.errors import InputError
from railyard.files import keep_existing, write_text
from railyard.interval import interval
from railyard.report import keep_answer
from railyard.scenario import load
from railyard.scenario.tune_section import TuneSection
from railyard.study.workers import workers
from railyard.tune.settings.export import environment, tuner_table
from railyard.tune.settings.online import ONLINE, WRITTEN, follow
from railyard.tune.settings.study import tune as tuned

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from railyard.deploy.emit.settings import Rendered
    from railyard.scenario.load import Draft
    from railyard.tune.settings.online import Followed
    from railyard.tune.settings.search import Tuned

_SHOWN = 12


def tune(
    scenario: Path,
    *,
    sets: Sequence[str],
    engine: str | None,
    ray: str | None,
    env: Path | None,
    table: Path | None,
    configs: Path | None,
    force: bool,
    out: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Tunes a scenario and prints the settings, their gain on what they have not seen, and how sure it is.

    Raises:
        InputError: The scenario is wrong, or cannot run as written; or a file is there that would be replaced.
    """
    for path in (env, table):
        keep_existing(path, force=force)
    if env is not None and env == table:
        raise InputError("environment and table would go into one file", file=env, hint="give two names")
    draft = load.load(scenario, sets)
    with Progress(wanted=not quiet) as progress:
        found, answer = tuned(draft, engine=engine, pool=partial(workers, ray), report=progress)
    if env is not None:
        write_text(env, environment(found))
    if table is not None:
        write_text(table, tuner_table(found))
    files = None if configs is None else _configured(draft, found, configs, quiet=quiet)
    if as_json:
        emit(answer.text())
    else:
        _print(found)
        if files is not None:
            print_readings(files)
    if files is not None and not quiet:
        say(f"wrote {configs}: {len(files.files):,} files, read back")
    if out is not None:
        say(f"report: {keep_answer(answer, out)}/tune.html")


def _configured(draft: Draft, found: Tuned, folder: Path, *, quiet: bool) -> Rendered:
    """The files of switches and servers with the settings that were found."""
    with Progress(wanted=not quiet) as progress:
        return write_configured(draft.with_values(found.settings, "railyard tune"), folder, progress)


def online(scenario: Path, *, sets: Sequence[str], ray: str | None, as_json: bool, quiet: bool) -> None:
    """Prints what settings that follow the run make of it, against the scenario as written and fixed settings.

    Raises:
        InputError: The scenario is wrong, or cannot run as written.
    """
    draft = load.load(scenario, sets)
    pool = workers(ray)
    try:
        with Progress(wanted=not quiet) as progress:
            found = follow(draft, draft.scenario.tune or TuneSection(), pool, progress)
    finally:
        pool.close()
    if as_json:
        emit(json.dumps(_plain(found), ensure_ascii=False, allow_nan=False))
        return
    table = Table(("settings", "mean step", "against as written", "worst case"), (1, 2, 3))
    written = found.steps_s[WRITTEN]
    for way, steps in found.steps_s.items():
        worst = max(own / other for own, other in zip(steps, written, strict=True)) - 1.0
        apart = found.mean_s(way) / found.mean_s(WRITTEN) - 1.0
        table.add(way, numbers.seconds(found.mean_s(way)), f"{apart:+.2%}", f"{worst:+.2%}")
    table.print()
    mean, low, high = interval(found.gains)
    emit("")
    emit(f"online on {len(found.cases)} draws and loads: {mean:.2%} shorter (90 %: {low:+.2%} to {high:+.2%})")
    beyond = found.mean_s(ONLINE) / found.mean_s(found.best_fixed) - 1.0
    emit(f"against the best fixed setting ({found.best_fixed}): {beyond:+.2%}")


def _plain(found: Followed) -> dict[str, Any]:
    """As `--json` prints it."""
    mean, low, high = interval(found.gains)
    return {
        "format": "railyard-tune-online/1",
        "name": found.name,
        "cases": [{"seed": seed, "load": share} for seed, share in found.cases],
        "steps_s": {way: list(steps) for way, steps in found.steps_s.items()},
        "gain": {"mean": mean, "low": low, "high": high, "confidence": 0.9, "worst": min(found.gains)},
        "best_fixed": found.best_fixed,
    }


def _print(found: Tuned) -> None:
    table = Table(("setting", "value", "step", "against as written", "verdict"), (2, 3))
    for trial in sorted(found.trials, key=lambda one: (one.step_s is None, one.step_s or 0.0))[:_SHOWN]:
        if trial.step_s is None:
            table.add(trial.key, str(trial.value), "", "", trial.error)
        else:
            apart = f"{trial.step_s / found.default_s - 1.0:+.2%}"
            table.add(trial.key, str(trial.value), numbers.seconds(trial.step_s), apart, "kept" if trial.kept else "")
    table.print()
    mean, low, high = found.gain
    emit("")
    if not found.settings:
        emit(
            f"nothing that was tried is better than the scenario as written ({numbers.seconds(found.default_s)} a step)"
        )
        return
    words = ", ".join(f"{key} {value}" for key, value in found.settings.items())
    emit(f"settings: {words}")
    seen = 1.0 - found.tuned_s / found.default_s
    emit(f"gain on the draws of the search {seen:.2%}; on {len(found.unseen)} unseen draws and loads {mean:.2%}")
    emit(
        f"90 % interval of the latter: {low:+.2%} to {high:+.2%}: {'sure' if found.sure else 'not sure, keep what is'}"
    )
    emit(f"\n{environment(found)}")
