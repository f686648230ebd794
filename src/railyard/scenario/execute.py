"""The whole way of a run: prepare, simulate, measure, put together. Composes; computes nothing itself."""

from __future__ import annotations

import os
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Event, Lock
from typing import TYPE_CHECKING, Any

from railyard.scenario import folder as folders
from railyard.scenario import keep
from railyard.scenario.measuring import Measured, measure
from railyard.scenario.prepare import Graphs, Job, prepare
from railyard.scenario.simulate import Stopped, simulate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from railyard.scenario.load import Draft

    Tell = Callable[[str, float], None]

TRIALS = 10
"""About so many simulations a variant, for the progress bar only."""


@dataclass(frozen=True)
class Finished:
    """A run that is done.

    Attributes:
        result: As in `result.json`.
        folder: Its folder, None when nothing was written.
    """

    result: dict[str, Any]
    folder: Path | None


def execute(
    draft: Draft,
    varies: Sequence[str] = (),
    *,
    engine: str | None = None,
    out: Path | None = None,
    face: Callable[[dict[str, Any], Path], None] | None = None,
    progress: Tell | None = None,
) -> Finished:
    """Runs a scenario with every variant that it compares.

    Args:
        draft: The scenario.
        varies: `key=a,b,c` in place of what the scenario compares.
        engine: In place of the scenario's.
        out: Where the folder of the run is put; None writes nothing.
        face: Writes further files (the report) into the folder.
        progress: Told what is being done, and its share from 0 to 1.

    Raises:
        InputError: The scenario cannot be run; nothing has been written then.
        SimulationError: The run cannot finish.
    """
    tell: Tell = progress or (lambda _stage, _share: None)
    tell("preparing", 0.0)
    workload = draft.scenario.workload
    if workload.training is None:
        from railyard.scenario.serving import execute as serving
        from railyard.scenario.serving.stages import execute as stages

        way = (stages if workload.serving is None else serving).execute
        return Finished(*way(draft, varies, version=_version(), engine=engine, out=out, face=face, tell=tell))
    jobs = prepare(draft, varies, engine)
    plain = keep.resolved(draft, varies)
    name = folders.name_of(plain, _version())
    with nullcontext(None) if out is None else folders.whole(out, name) as folder:
        measured = _all(jobs, folder, _Meter(tell, len(jobs) * (jobs[0].variant.draft.scenario.repeat + TRIALS)))
        result = _result(draft, plain, jobs, measured)
        if folder is not None:
            tell("writing the folder of the run", 1.0)
            keep.write_run(folder, plain, [job.variant.draft for job in jobs], result)
            if face is not None:
                face(result, folder)
    return Finished(result, None if out is None else out / name)


@dataclass
class _Meter:
    """Counts simulations; called from several threads."""

    tell: Tell
    total: int
    done: int = 0
    lock: Lock = field(default_factory=Lock)

    def __call__(self, what: str) -> None:
        with self.lock:
            self.done += 1
            self.tell(what, min(self.done / self.total, 0.99))


def _all(jobs: Sequence[Job], folder: Path | None, meter: _Meter) -> list[Measured]:
    """Every variant through engine and measures, as many at a time as there are processors: engines free the GIL."""
    graphs, stop = Graphs(), Event()
    processors = os.cpu_count() or 1
    workers = max(1, processors // len(jobs))

    def one(number: int) -> Measured:
        simulated = simulate(jobs[number], graphs, stop=stop, done=meter, workers=workers)
        found = measure(simulated)
        if folder is not None:
            keep.write_variant(keep.place(folder, number, jobs), simulated.timeline, found.sampled_ranks)
        return found

    pool = ThreadPoolExecutor(max_workers=min(len(jobs), processors))
    futures = [pool.submit(one, number) for number in range(len(jobs))]
    try:
        return _gathered(futures)
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)


def _gathered(futures: Sequence[Future[Measured]]) -> list[Measured]:
    """The results in order; the first real error of any variant is raised as soon as it is there."""
    pending = set(futures)
    while pending:
        ended, pending = wait(pending, return_when=FIRST_COMPLETED)
        for future in ended:
            error = future.exception()
            if error is not None and not isinstance(error, Stopped):
                raise error
    return [future.result() for future in futures]


def _result(draft: Draft, plain: dict[str, Any], jobs: Sequence[Job], measured: Sequence[Measured]) -> dict[str, Any]:
    engine = jobs[0].engine.name
    return {
        "format": "railyard/1",
        "name": draft.scenario.name,
        "scenario": plain,
        "provenance": {
            "version": _version(),
            "engine": engine,
            "seed": draft.scenario.seed,
            "digest": measured[0].variant["digest"],
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "sources": [source.to_json() for source in _once(found.sources for found in measured)],
            "left_out": _once(found.left_out for found in measured),
            "defaults": _once(found.defaults for found in measured),
        },
        "variants": [found.variant for found in measured],
    }


def _once(lists: Iterable[Iterable[Any]]) -> list[Any]:
    """All items in order, each once."""
    return list(dict.fromkeys(item for items in lists for item in items))


def _version() -> str:
    from importlib import metadata

    return metadata.version("railyard")
