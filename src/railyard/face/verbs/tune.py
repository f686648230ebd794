"""`railyard tune`: settings of the collective library and the fabric."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from railyard.face.terminal import Table, emit, say
from railyard.face.verb import Page, Reply, Request, verb
from railyard.kit.errors import InputError
from railyard.kit.files import keep_existing, write_text
from railyard.measure import numbers

if TYPE_CHECKING:
    from collections.abc import Callable

    from railyard.ask.deploy.emit.configurations import Rendered
    from railyard.ask.tune.search import TuneResult
    from railyard.ask.tune.study import OnlineResult
    from railyard.work.scenario.load import Draft


def write_configured(draft: Draft, folder: Path, progress: Callable[[str, float], None]) -> Rendered:
    """Writes the files of a scenario, all or none.

    Raises:
        InputError: The folder holds something else, or switches cannot be configured with a setting.
    """
    from railyard.ask.deploy.emit.configurations import MARK, rendered
    from railyard.ask.deploy.files import replaced

    found = rendered(draft, progress)
    rows = [
        {"setting": one.what, "meant": one.meant, "read_back": one.found, "equal": one.equal} for one in found.readings
    ]
    plain = json.dumps({"format": "railyard-settings/1", "settings": rows, "left_out": found.left_out}, indent=1)
    replaced(folder, MARK, [*found.files.items(), (MARK, plain + "\n")], progress)
    return found


def print_readings(found: Rendered) -> None:
    """Prints the intended settings, and the value that is read back from each file."""
    from railyard.ask.deploy.emit.configurations import SERVERS, SYSTEMS

    columns = (*SYSTEMS, SERVERS)
    table = Table(("setting read back from the files", "intended", *columns, "equal"), ())
    for one in found.readings:
        cells = [_word(one.found[column]) if column in one.found else "" for column in columns]
        table.add(one.what, _word(one.meant), *cells, "yes" if one.equal else "NO")
    emit("")
    table.print()
    for words in found.left_out:
        emit(f"in no file: {words}")


def _word(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(_word(part) for part in value)
    if value is None:
        return "nothing"
    return f"{value:g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


@verb(
    "tune",
    "Search settings of collectives and fabric that shorten a step.",
    example="railyard tune examples/tune.yaml",
    group="decide",
    parts=["scenario", "engine", "ray"],
    json=True,
    quiet=True,
    details=True,
    out="keep",
    patient=True,
    order=23,
    page=Page(
        "Tune",
        "Searches settings of collectives and fabric, and tests them on draws that the search has not seen.",
        order=2,
    ),
)
def tune(
    request: Request,
    *,
    env: Annotated[Path | None, typer.Option("--env", metavar="FILE", help="Write NCCL's environment.")] = None,
    tuner: Annotated[
        Path | None, typer.Option("--tuner", metavar="FILE.csv", help="Write the table of NCCL's tuner plugin.")
    ] = None,
    configs: Annotated[
        Path | None,
        typer.Option("--configs", metavar="FOLDER", help="Write files of switches (SONiC, EOS, Junos) and servers."),
    ] = None,
    online: Annotated[
        bool, typer.Option("--online", help="With packets: compare settings that follow the run with fixed ones.")
    ] = False,
    even_unsure: Annotated[
        bool, typer.Option("--even-unsure", help="Write the files even if the gain may be chance.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
) -> Reply:
    """Search settings on some draws of the hashes, then test them on draws, loads and jobs that are new to them."""
    from railyard.ask.tune.study import tune as tuned

    if online:
        written = {"--env": env, "--tuner": tuner, "--configs": configs, "--out": request.runs}
        refuse_with("--online", {"--engine": request.engine, **written})
        return _online(request)
    for path in (env, tuner):
        keep_existing(path, force=force)
    if env is not None and env == tuner:
        raise InputError("environment and table need two files", file=env, hint="give two names")
    draft = request.draft()
    found, answer = tuned(draft, engine=request.engine, pool=request.pool, report=request.progress, out=request.runs)
    files = None
    if found.sure or (even_unsure and not found.stopped):
        files = _written(request, draft, found, (env, tuner, configs))
    elif any((env, tuner, configs)) and not found.stopped:
        say("nothing was written: the gain may be chance; --even-unsure writes the files anyway")
    if files is not None and not request.quiet:
        say(f"wrote {configs}: {len(files.files):,} files, read back")

    def show() -> None:
        _print(found, details=request.details)
        if files is not None:
            print_readings(files)

    judged = f"tested on {len(found.unseen)} unseen cases" if found.unseen else "not tested on unseen cases"
    so_far = f"the best settings of {len(found.tried) - 1} tried, {judged}; no file was written"
    so_far += "; the same command continues the search" if request.runs else ""
    notes = [problem.render() for problem in found.refused]
    return Reply(answer, show, keep=answer, notes=notes, stopped=so_far if found.stopped else "")


def _written(
    request: Request, draft: Draft, found: TuneResult, paths: tuple[Path | None, Path | None, Path | None]
) -> Rendered | None:
    """Writes the files that were asked for; gives those of switches and servers."""
    from railyard.ask.tune.study import environment, tuner_table

    env, tuner, configs = paths
    if env is not None:
        write_text(env, environment(found))
    if tuner is not None:
        write_text(tuner, tuner_table(found))
    if configs is None:
        return None
    return write_configured(draft.with_values(found.settings, "railyard tune"), configs, request.progress)


def refuse_with(option: str, given: dict[str, object]) -> None:
    """Refuses options that mean nothing together with another one.

    Raises:
        InputError: Names the first.
    """
    wrong = next((name for name, value in given.items() if value), None)
    if wrong is not None:
        raise InputError(f"{wrong} has no meaning with {option}", key=wrong, found=str(given[wrong]))


def _online(request: Request) -> Reply:
    """Prints the effect of settings that follow the run, against the scenario as written and fixed settings."""
    from railyard.ask.tune.study import follow
    from railyard.work.scenario.model import TuneSection

    draft = request.draft()
    pool = request.pool()
    try:
        found = follow(draft, draft.scenario.tune or TuneSection(), pool, request.progress)
    finally:
        pool.close()
    return Reply(
        found,
        lambda: _print_online(found),
        lambda: _plain(found),
        headline=_online_sentence(found),
        stopped=f"{len(found.cases)} draws and loads had run" if found.stopped else "",
    )


def _online_sentence(found: OnlineResult) -> str:
    from railyard.ask.tune.study import ONLINE
    from railyard.kit.quantities import interval

    mean, low, high = interval(found.gains)
    sure = f" (90 % interval {100 * low:.2f} to {100 * high:.2f} %)" if math.isfinite(low) else ""
    beyond = found.mean_s(ONLINE) / found.mean_s(found.best_fixed) - 1.0
    return (
        f"Settings that follow the run shorten steps by {100 * mean:.2f} %{sure} on {len(found.cases)} draws and loads,"
        f" and take {beyond:+.2%} against the best fixed setting, {found.best_fixed}."
    )


def _print_online(found: OnlineResult) -> None:
    from railyard.ask.tune.study import WRITTEN

    table = Table(("settings", "mean step", "vs as written", "worst case", "worst run"), (1, 2, 3, 4))
    for way in found.twins_s:
        change = found.mean_s(way) / found.mean_s(WRITTEN) - 1.0
        worst = f"{found.worst_case(way):+.2%}", f"{found.worst_run(way):+.2%}"
        table.add(way, numbers.seconds(found.mean_s(way)), f"{change:+.2%}", *worst)
    table.print()
    emit("\nEach case is the mean of two runs with slightly different marks; row `again` shows the effect of chance.")


def _plain(found: OnlineResult) -> dict[str, Any]:
    """The result as `--json` prints it."""
    from railyard.kit.quantities import interval

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
    "draw": "new draws of the hashes, job alone",
    "load": "new draws with load of other jobs",
    "job": "other jobs with a neighbour",
}


def _print(found: TuneResult, *, details: bool) -> None:
    """The settings; with details what they gain on unseen cases, and the environment even if the gain may be chance."""
    from railyard.ask.tune.study import environment

    tried = len(found.tried) - 1
    if not found.settings:
        emit(f"A step takes {numbers.seconds(found.default_s)} as written, the shortest of {tried} trials.")
        return
    table = Table(("setting", "value", "step alone", "step without it"), (2, 3))
    for key, (gain, rest) in found.parts.items():
        alone = numbers.NOT_APPLICABLE if gain is None else f"{-gain:+.2%}"
        without = numbers.NOT_APPLICABLE if rest is None else f"{rest:+.2%}"
        table.add(key, _value(found.settings[key]), alone, without)
    table.print()
    steps = numbers.pair(numbers.seconds(found.default_s), numbers.seconds(found.tuned_s), "->")
    change = found.tuned_s / found.default_s - 1.0
    emit(f"\nOn the draws of the search a step takes {steps} ({change:+.2%}), the best of {tried} trials.")
    if details and found.unseen:
        emit("")
        _print_judged(found)
    if details or found.sure:
        emit(f"\n{environment(found)}")


def _print_judged(found: TuneResult) -> None:
    judged = Table(("unseen cases", "cases", "step", "90 % interval"), (1, 2, 3))
    for kind in found.kinds:
        judged.add(_KINDS[kind], str(len(found.gains(kind))), *_change(found.gain(kind)))
    judged.add("all", str(len(found.unseen)), *_change(found.gain()))
    judged.print()


def _value(value: object) -> str:
    """A setting as people write it."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {word}" for key, word in value.items())
    return str(value).lower() if isinstance(value, bool) else str(value)


def _change(gain: tuple[float, float, float]) -> tuple[str, str]:
    """Change of the mean step and its interval: below zero is shorter."""
    mean, low, high = gain
    return f"{-mean:+.2%}", f"{-high:+.2%} to {-low:+.2%}" if math.isfinite(low) else "none for one case"
