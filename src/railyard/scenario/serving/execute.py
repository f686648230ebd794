"""The whole way of a serving run: prepare, simulate, measure, put together. Composes; computes nothing itself."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from railyard.errors import InputError
from railyard.scenario import folder as folders
from railyard.scenario import keep
from railyard.scenario.serving.curves import add_curve, mark_fronts
from railyard.scenario.serving.keeping import write_variant
from railyard.scenario.serving.measuring import LEFT_OUT, Measured, latencies, measure, objective_of
from railyard.scenario.serving.prepare import prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from railyard.measure.serving.served import Served
    from railyard.scenario.load import Draft
    from railyard.scenario.serving.prepare import ServingJob
    from railyard.scenario.serving.stages.prepare import PipelineJob
    from railyard.workload.serving.requests import Requests

    Tell = Callable[[str, float], None]
    Face = Callable[[dict[str, Any], Path], None]

ENGINE = "serving"
_LOGGED = 16
"""Replicas whose iterations go into the trace."""
_USUAL = ("flow", ENGINE)
RUN = 0.9
"""Of a variant's time, what the run that was asked for takes, for the progress bar only."""


def execute(
    draft: Draft,
    varies: Sequence[str],
    *,
    version: str,
    engine: str | None,
    out: Path | None,
    face: Face | None,
    tell: Tell,
) -> tuple[dict[str, Any], Path | None]:
    """Runs a serving scenario with every variant that it compares.

    Args:
        draft: The scenario.
        varies: `key=a,b,c` in place of what the scenario compares.
        version: Of this package.
        engine: Asked for on the command line.
        out: Where the folder of the run is put; None writes nothing.
        face: Writes further files (the report) into the folder.
        tell: Told what is being done, and its share from 0 to 1.

    Returns:
        The result, and the folder.

    Raises:
        InputError: The scenario cannot be run; nothing has been written then.
    """
    check_engine(draft, engine)
    jobs = prepare(draft, varies)
    whole = Whole(draft, keep.resolved(draft, varies), jobs, version, LEFT_OUT, tell)
    return whole.run(lambda number, place: _one(jobs[number], place, whole.share_of(number)), out, face)


@dataclass(frozen=True)
class Whole:
    """All variants of a scenario, and what is told and written of them.

    Attributes:
        draft: The scenario.
        plain: Resolved.
        jobs: Its variants, ready to run.
        version: Of this package.
        left_out: What the model leaves out.
        tell: Told what is being done, and its share from 0 to 1.
    """

    draft: Draft
    plain: dict[str, Any]
    jobs: Sequence[ServingJob] | Sequence[PipelineJob]
    version: str
    left_out: Sequence[str]
    tell: Tell

    def share_of(self, number: int) -> Tell:
        """Tells the share of one variant as its part of all."""
        return lambda what, share: self.tell(what, (number + share) / len(self.jobs))

    def run(
        self, one: Callable[[int, Path | None], Measured], out: Path | None, face: Face | None
    ) -> tuple[dict[str, Any], Path | None]:
        """The result, and the folder.

        Args:
            one: Runs the variant of a number; files go into its folder, where there is one.
            out: Where the folder of the run is put; None writes nothing.
            face: Writes further files (the report) into the folder.
        """
        name = folders.name_of(self.plain, self.version)
        with nullcontext(None) if out is None else folders.whole(out, name) as folder:
            places = (
                None if folder is None else keep.place(folder, number, self.jobs) for number in range(len(self.jobs))
            )
            measured = [one(number, place) for number, place in enumerate(places)]
            mark_fronts([found.variant["serving"] for found in measured])
            result = _result(self, measured)
            if folder is not None:
                self.tell("writing the folder of the run", 1.0)
                keep.write_run(folder, self.plain, [job.variant.draft for job in self.jobs], result)
                if face is not None:
                    face(result, folder)
        return result, None if out is None else out / name


def check_engine(draft: Draft, engine: str | None) -> None:
    """Refuses engines of training steps.

    Raises:
        InputError: It is one of them.
    """
    name = engine or draft.scenario.engine
    if name not in _USUAL:
        error = InputError(
            "requests are served by the serving engine, which shares links as `flow` does",
            key="engine",
            found=name,
            hint="leave `engine` out",
        )
        raise error.located(file=f"--engine {name}") if engine else draft.blame(error)


def _one(job: ServingJob, folder: Path | None, tell: Tell) -> Measured:
    """One variant: the run that was asked for, and the search for its capacity."""
    name, total = job.variant.name, len(job.requests)
    logged = range(min(_LOGGED, job.deployment.replicas)) if folder is not None else ()
    run = job.run(job.requests, log=logged, progress=lambda done, _now: tell(f"serving {name}", RUN * done / total))
    job = job.as_sent(run)
    found = measure(job, run)
    if folder is not None:
        write_variant(folder, job, run, found.requests)
    section = job.variant.draft.scenario.serving.capacity
    if section is not None:
        tell(f"capacity of {name}", RUN)
    add_curve(
        found,
        section,
        job.variant.draft,
        requests=job.requests,
        objective=objective_of(job),
        serve=lambda some: _served(job, some),
    )
    return found


def _served(job: ServingJob, requests: Requests) -> tuple[Served, bool]:
    run = job.run(requests)
    return latencies(job, requests, run), run.overloaded


def _result(whole: Whole, measured: Sequence[Measured]) -> dict[str, Any]:
    """All variants with where they come from, as `result.json` has it."""
    return {
        "format": "railyard/1",
        "name": whole.draft.scenario.name,
        "scenario": whole.plain,
        "provenance": {
            "version": whole.version,
            "engine": ENGINE,
            "seed": whole.draft.scenario.seed,
            "digest": measured[0].variant["digest"],
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "sources": [source.to_json() for source in _once(found.sources for found in measured)],
            "left_out": list(whole.left_out),
            "defaults": _once(found.defaults for found in measured),
        },
        "variants": [found.variant for found in measured],
    }


def _once(lists: Iterable[Iterable[Any]]) -> list[Any]:
    """All items in order, each once."""
    return list(dict.fromkeys(item for items in lists for item in items))
