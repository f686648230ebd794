"""Every variant of a scenario, from its jobs to its figures and files; a run that was killed goes on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from railyard.operate import files, page, saving
from railyard.operate.money import usd_per_h
from railyard.operate.prepare import prepare
from railyard.operate.summary import summary
from railyard.scenario.variants import expand, resolved
from railyard.study import folder as folders
from railyard.study.provenance import version

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from railyard.operate.loop import Operation
    from railyard.operate.prepare import Prepared
    from railyard.scenario.load import Draft

FORMAT = "railyard-operate/1"
STATES = ".states"
"""Folder beside the runs for states of runs that have not ended."""


@dataclass(frozen=True, eq=False)
class Played:
    """A variant that was played.

    Attributes:
        prepared: What was played.
        run: How it ended.
        figures: Of it.
        sources: Of its prices.
    """

    prepared: Prepared
    run: Operation
    figures: dict[str, Any]
    sources: list[dict[str, Any]]


@dataclass(frozen=True)
class Finished:
    """A study that is done.

    Attributes:
        folder: Of its files; None: none were written.
        result: As `result.json`.
        played: The variants.
    """

    folder: Path | None
    result: dict[str, Any]
    played: tuple[Played, ...]


def operate(
    draft: Draft,
    varies: Sequence[str] = (),
    *,
    out: Path | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> Finished:
    """Plays a scenario with every variant that it compares.

    Args:
        draft: The scenario.
        varies: `key=a,b,c` in place of what it compares.
        out: Where the folder of the run is put, and states meanwhile; None writes nothing.
        progress: Called with what is being done, and its share from 0 to 1.

    Raises:
        InputError: The scenario cannot be played; nothing has been written then.
    """
    notify = progress or (lambda _what, _share: None)
    plain = resolved(draft, varies)
    name = folders.name_of(plain, version())
    variants = expand(draft, varies)
    prepared = [prepare(variant) for variant in variants]
    played = []
    for number, one in enumerate(prepared):
        state = None if out is None else out / STATES / f"{name}-{number}.npz"
        played.append(measured(one, play(one, state, partial(_tell, notify, number, len(prepared)))))
    result = _result(draft, plain, played)
    folder = None if out is None else _write(out, name, result, played)
    return Finished(folder, result, tuple(played))


def _tell(notify: Callable[[str, float], None], number: int, count: int, done: float) -> None:
    notify("playing jobs", (number + done) / count)


def play(prepared: Prepared, state: Path | None, progress: Callable[[float], None] | None = None) -> Operation:
    """Plays a variant to its end, from where a killed run of it had come."""
    run = prepared.operation()
    section = prepared.variant.draft.scenario.operate
    about = json.dumps(section.model_dump(mode="json"), sort_keys=True) + version()
    if state is not None:
        saving.load(run, state, about)
    while not run.run(int(section.save_every)):
        if state is not None:
            saving.save(run, state, about)
        if progress is not None:
            progress(run.ledger.ended / max(len(run.jobs), 1))
    return run


def measured(prepared: Prepared, run: Operation) -> Played:
    """The figures of a run."""
    time = summary(run)["time"]
    usd, sources = usd_per_h(prepared, time)
    figures = {"usd_per_h": usd, **summary(run, usd), "notes": [*prepared.notes, *_stuck(run)]}
    names = [mode.name for mode in prepared.modes]
    figures["failures"]["by_mode"] = {names[int(mode)]: count for mode, count in figures["failures"]["by_mode"].items()}
    return Played(prepared, run, figures, sources)


def _stuck(run: Operation) -> list[str]:
    from railyard.operate.state import STUCK

    left = [run.jobs.name[job] for job, status in enumerate(run.state.status) if status == STUCK]
    if not left:
        return []
    return [f"the queue never drains: {len(left)} jobs wait for ever, the first of them `{left[0]}`"]


def _result(draft: Draft, plain: dict[str, Any], played: Sequence[Played]) -> dict[str, Any]:
    sources = list({json.dumps(source, sort_keys=True): source for one in played for source in one.sources}.values())
    return {
        "format": FORMAT,
        "name": draft.title,
        "seed": draft.seed,
        "version": version(),
        "scenario": plain,
        "variants": [
            {"name": one.prepared.variant.name, "settings": dict(one.prepared.variant.settings), **one.figures}
            for one in played
        ],
        "sources": sources,
    }


def _write(out: Path, name: str, result: dict[str, Any], played: Sequence[Played]) -> Path:
    with folders.replaced(out, name) as folder:
        (folder / "result.json").write_text(json.dumps(result, indent=1, ensure_ascii=False), encoding="utf-8")
        for number, one in enumerate(played):
            place = folders.of_variant(folder, number, one.prepared.variant.name)
            place.mkdir(parents=True, exist_ok=True)
            files.write(one.run, place)
            page.write(one.run, one.prepared.variant.name, one.figures, place / "operate.html")
    for number in range(len(played)):
        (out / STATES / f"{name}-{number}.npz").unlink(missing_ok=True)
    if (out / STATES).is_dir() and not any((out / STATES).iterdir()):
        (out / STATES).rmdir()
    return out / name
