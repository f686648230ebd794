"""`railyard tune`: settings of the collective library and the fabric."""

from __future__ import annotations

import json
import math
from functools import partial
from typing import TYPE_CHECKING, Any

from railyard.ask.tune.study import ONLINE, WRITTEN, environment, follow, tuner_table
from railyard.ask.tune.study import tune as tuned
from railyard.face.api import numbers
from railyard.face.cli import signals, terminal
from railyard.face.cli.terminal import Progress, Table, emit, say
from railyard.face.report import keep_answer
from railyard.kit.errors import InputError
from railyard.kit.files import keep_existing, write_text
from railyard.kit.quantities import interval
from railyard.work.scenario.model import TuneSection
from railyard.work.study.workers import workers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from railyard.ask.deploy.emit.settings import Rendered
    from railyard.ask.tune.search import TuneResult
    from railyard.ask.tune.study import OnlineResult
    from railyard.work.scenario.load import Draft


def write_configured(draft: Draft, folder: Path, progress: Callable[[str, float], None]) -> Rendered:
    """Writes the files of a scenario, all or none.

    Raises:
        InputError: The folder holds something else, or a setting is one that switches cannot be told.
    """
    from railyard.ask.deploy.emit.settings import MARK, rendered
    from railyard.ask.deploy.files import replaced

    found = rendered(draft, progress)
    rows = [
        {"setting": one.what, "meant": one.meant, "read_back": one.found, "equal": one.equal} for one in found.readings
    ]
    plain = json.dumps({"format": "railyard-settings/1", "settings": rows, "left_out": found.left_out}, indent=1)
    replaced(folder, MARK, [*found.files.items(), (MARK, plain + "\n")], progress)
    return found


def print_readings(found: Rendered) -> None:
    """What was meant, and what each file says when it is read back."""
    from railyard.ask.deploy.emit.settings import SERVERS, SYSTEMS

    columns = (*SYSTEMS, SERVERS)
    table = Table(("read back from the files", "meant", *columns, "equal"), ())
    for one in found.readings:
        cells = [_word(one.found[column]) if column in one.found else "" for column in columns]
        table.add(one.what, _word(one.meant), *cells, "yes" if one.equal else "NO")
    emit("")
    table.print()
    for words in found.left_out:
        emit(f"no file says: {words}")


def _word(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(_word(part) for part in value)
    if value is None:
        return "nothing"
    return f"{value:g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


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
    even_unsure: bool,
    out: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Tunes a scenario and prints the settings, their gain on what they have not seen, and how sure it is.

    Files for machines are only written where the settings are surely better, or with `even_unsure`.

    Raises:
        InputError: The scenario is wrong, or cannot run as written; or a file is there that would be replaced.
    """
    signals.ready(once=True)
    for path in (env, table):
        keep_existing(path, force=force)
    if env is not None and env == table:
        raise InputError("environment and table would go into one file", file=env, hint="give two names")
    draft = terminal.scenario(scenario, sets)
    with Progress(wanted=not quiet) as progress:
        found, answer = tuned(draft, engine=engine, pool=partial(workers, ray), report=progress, out=out)
    _say_refused(found)
    files = None
    if found.sure or (even_unsure and not found.stopped):
        files = _written(draft, found, env, table, configs, quiet=quiet)
    elif any(path is not None for path in (env, table, configs)) and not found.stopped:
        say("nothing was written: the settings may be no better than what is (--even-unsure writes them all the same)")
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
    if found.stopped:
        judged = f"judged on {len(found.unseen)} unseen cases" if found.unseen else "not judged on unseen cases"
        terminal.so_far(f"the best settings of {len(found.tried) - 1} that were tried, {judged}; no file was written")


def _say_refused(found: TuneResult) -> None:
    for problem in found.refused:
        say(problem.render())


def _written(
    draft: Draft, found: TuneResult, env: Path | None, table: Path | None, configs: Path | None, *, quiet: bool
) -> Rendered | None:
    """Writes what was asked for; the files of switches and servers are given back."""
    if env is not None:
        write_text(env, environment(found))
    if table is not None:
        write_text(table, tuner_table(found))
    return None if configs is None else _configured(draft, found, configs, quiet=quiet)


def _configured(draft: Draft, found: TuneResult, folder: Path, *, quiet: bool) -> Rendered:
    """The files of switches and servers with the settings that were found."""
    with Progress(wanted=not quiet) as progress:
        return write_configured(draft.with_values(found.settings, "railyard tune"), folder, progress)


def online(scenario: Path, *, sets: Sequence[str], ray: str | None, as_json: bool, quiet: bool) -> None:
    """Prints what settings that follow the run make of it, against the scenario as written and fixed settings.

    Raises:
        InputError: The scenario is wrong, or cannot run as written.
    """
    signals.ready(once=True)
    draft = terminal.scenario(scenario, sets)
    pool = workers(ray)
    try:
        with Progress(wanted=not quiet) as progress:
            found = follow(draft, draft.scenario.tune or TuneSection(), pool, progress)
    finally:
        pool.close()
    if as_json:
        emit(json.dumps(_plain(found), ensure_ascii=False, allow_nan=False))
    else:
        _print_online(found)
    if found.stopped:
        terminal.so_far(f"{len(found.cases)} draws and loads had run")


def _print_online(found: OnlineResult) -> None:
    table = Table(("settings", "mean step", "against as written", "worst case", "worst run"), (1, 2, 3, 4))
    for way in found.twins_s:
        apart = found.mean_s(way) / found.mean_s(WRITTEN) - 1.0
        worst = f"{found.worst_case(way):+.2%}", f"{found.worst_run(way):+.2%}"
        table.add(way, numbers.seconds(found.mean_s(way)), f"{apart:+.2%}", *worst)
    table.print()
    mean, low, high = interval(found.gains)
    sure = f" (90 %: {low:+.2%} to {high:+.2%})" if math.isfinite(low) else ""
    emit("")
    emit("a case is the mean of its twins, which parts in 2,000 of the marks set apart; `again` is what chance leaves")
    emit(f"online on {len(found.cases)} draws and loads: {mean:.2%} shorter{sure}")
    beyond = found.mean_s(ONLINE) / found.mean_s(found.best_fixed) - 1.0
    emit(f"against the best fixed setting ({found.best_fixed}): {beyond:+.2%}")


def _plain(found: OnlineResult) -> dict[str, Any]:
    """As `--json` prints it."""
    mean, low, high = interval(found.gains)
    ends = (low, high) if math.isfinite(low) else (None, None)
    return {
        "format": "railyard-tune-online/1",
        "name": found.name,
        "stopped": found.stopped,
        "cases": [{"seed": case.seed, "load": case.load} for case in found.cases],
        "steps_s": {way: list(steps) for way, steps in found.steps_s.items()},
        "twins_s": {way: [list(twins) for twins in cases] for way, cases in found.twins_s.items()},
        "gain": {"mean": mean, "low": ends[0], "high": ends[1], "confidence": 0.9, "worst": min(found.gains)},
        "best_fixed": found.best_fixed,
    }


_KINDS = {
    "draw": "draws of the hashes, alone",
    "load": "draws under others' load",
    "job": "other jobs, with a neighbour",
}


def _print(found: TuneResult) -> None:
    if not found.settings:
        emit(
            f"nothing of {len(found.tried) - 1} that were tried is better than the scenario as written"
            f" ({numbers.seconds(found.default_s)} a step)"
        )
        return
    table = Table(("setting", "value", "alone", "without it"), (2, 3))
    for part in found.parts:
        alone = numbers.NOT_APPLICABLE if part.alone is None else f"{-part.alone:+.2%}"
        without = numbers.NOT_APPLICABLE if part.without is None else f"{part.without:+.2%}"
        table.add(part.key, _value(found.settings[part.key]), alone, without)
    table.print()
    emit("")
    emit(
        f"together, on the draws of the search: {numbers.seconds(found.default_s)} ->"
        f" {numbers.seconds(found.tuned_s)} a step ({found.tuned_s / found.default_s - 1.0:+.2%}),"
        f" the best of {len(found.tried) - 1} that were tried"
    )
    emit("")
    if found.unseen:
        _print_judged(found)
    emit("sure: better on what it had not seen" if found.sure else "not sure, keep what is: this may be chance")
    emit(f"\n{environment(found)}")


def _print_judged(found: TuneResult) -> None:
    judged = Table(("judged on what the search had not seen", "cases", "steps", "90 % interval"), (1, 2, 3))
    for kind in found.kinds:
        judged.add(_KINDS[kind], str(len(found.gains(kind))), *_apart(found.gain(kind)))
    judged.add("all of them", str(len(found.unseen)), *_apart(found.gain()))
    judged.print()
    emit("")


def _value(value: object) -> str:
    """A setting as people write it."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {word}" for key, word in value.items())
    return str(value).lower() if isinstance(value, bool) else str(value)


def _apart(gain: tuple[float, float, float]) -> tuple[str, str]:
    """Change of the mean step and its interval: below zero is shorter."""
    mean, low, high = gain
    return f"{-mean:+.2%}", f"{-high:+.2%} to {-low:+.2%}" if math.isfinite(low) else "of one case none"
