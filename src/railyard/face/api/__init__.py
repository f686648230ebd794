"""The Python API: the commands as functions, results as tables, and a card for notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railyard.face.api.finished import Run, view
from railyard.face.api.query import query
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from railyard.measure.result.reading import Result
    from railyard.work.jobs.section import JobSection as Job
    from railyard.work.scenario.cluster import ClusterSection as Cluster
    from railyard.work.scenario.load import Draft
    from railyard.work.scenario.model import Scenario
    from railyard.work.serving.capacity import ServedExplanation
    from railyard.work.study.tasks import Workers
    from railyard.work.training.explain import Explanation

__all__ = [
    "Run",
    "compare",
    "compare_runs",
    "explain",
    "load",
    "query",
    "run",
    "simulate",
    "view",
]


def load(path: str | Path, *, overrides: Mapping[str, Any] | None = None) -> Scenario:
    """Reads and checks a scenario without running it.

    Args:
        path: A scenario file.
        overrides: Other values by dotted key: `{"cluster.accelerators": 2048}`.

    Raises:
        InputError: Names the place of every problem.
    """
    return draft_of(path, overrides).scenario


def run(
    scenario: str | Path | Mapping[str, Any] | Scenario,
    *,
    overrides: Mapping[str, Any] | None = None,
    engine: str | None = None,
    out: str | Path | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> Run:
    """Runs a scenario with every variant that it compares.

    Args:
        scenario: A file, a mapping as in a file, or a `Scenario`.
        overrides: Other values by dotted key.
        engine: Replaces the scenario's engine.
        out: Parent of the run's folder; None writes nothing.
        progress: Called with the current activity and the share done, from 0 to 1.

    Raises:
        InputError: The scenario is invalid; names the place of every problem.
        SimulationError: The run cannot finish.
    """
    return execute(draft_of(scenario, overrides), [], engine=engine, out=out, progress=progress)


def simulate(
    jobs: Job | Sequence[Job],
    cluster: Cluster,
    *,
    engine: str | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> Run:
    """Simulates jobs on a cluster, composed in Python.

    One job that has the whole cluster is simulated like a scenario by `railyard.run`, with remedies and costs. Several
    jobs are simulated alone and together, to find what each costs the others.

    Args:
        jobs: One, or several that share the cluster.
        cluster: The cluster.
        engine: Name of the engine, such as `flow` or `packet`; None: the default of the kind of work.
        seed: Seed of every random choice.
        out: Parent of the run's folder; None writes nothing.
        progress: Called with the current activity and the share done, from 0 to 1.

    Returns:
        The finished run, whose tables are attributes: `run.time`, `run.links`.

    Raises:
        InputError: A value is invalid, or the jobs do not fit on the cluster.
        SimulationError: The run cannot finish.
    """
    from railyard.work.jobs.section import JobSection
    from railyard.work.scenario.load import dump

    several = [jobs] if isinstance(jobs, JobSection) else list(jobs)
    if len(several) == 1 and several[0].accelerators == cluster.accelerators:
        kept = ("training", "serving", "trace")
        work = {key: value for key, value in dump(several[0]).items() if key in kept}
    else:
        work = {"jobs": [dump(job) for job in several]}
    name = " and ".join(job.name for job in several)
    values = {"name": name, "seed": seed, "cluster": dump(cluster), "workload": work}
    return run(values, engine=engine, out=out, progress=progress)


def compare(
    scenario: str | Path | Mapping[str, Any] | Scenario,
    *,
    vary: Mapping[str, Sequence[Any]],
    overrides: Mapping[str, Any] | None = None,
    engine: str | None = None,
    out: str | Path | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> Run:
    """Runs a scenario once for every combination of values.

    Args:
        scenario: A file, a mapping as in a file, or a `Scenario`.
        vary: Values by dotted key: `{"fabric": ["roce", "uec"]}`.
        overrides: Other values by dotted key.
        engine: Replaces the scenario's engine.
        out: Parent of the run's folder; None writes nothing.
        progress: Called with the current activity and the share done, from 0 to 1.

    Raises:
        InputError: The scenario is invalid; names the place of every problem.
        SimulationError: The run cannot finish.
    """
    varied = {key: [values] if isinstance(values, str) else list(values) for key, values in vary.items()}
    changes = {**(overrides or {}), "compare": {"vary": varied}}
    return execute(draft_of(scenario, changes), [], engine=engine, out=out, progress=progress)


def compare_runs(runs: Sequence[str | Path], *, out: str | Path | None = None) -> Run:
    """Compares stored runs as if one scenario had compared them.

    Args:
        runs: Folders of runs, or their `result.json`; at least two.
        out: Parent of a folder with the joined result and its report; None writes nothing.

    Raises:
        InputError: A run cannot be read, is listed twice, or the runs are of different kinds of work.
    """
    from railyard.face.reports import write_report
    from railyard.work.study.folder import read_all
    from railyard.work.study.joined import joined
    from railyard.work.study.study import keep

    result = joined(read_all([Path(run) for run in runs]))
    place = (
        None
        if out is None
        else keep(result, Path(out), lambda found, folder: write_report(found, folder / "report.html"))
    )
    return Run(result.name, result, place)


def explain(
    run: str | Path | Run, *, variant: str | None = None, remedies: bool = True
) -> Explanation | ServedExplanation:
    """Explains a stored run: where its time goes, and the effect of each remedy.

    A training step is a tree that sums up; for a serving run it is where requests wait, pool by pool and over time, and
    the effect of one more replica in each pool.

    Args:
        run: A folder of a run, its `result.json`, or the return value of `run` or `compare`.
        variant: Name of the variant; None takes the first.
        remedies: Whether remedies are simulated too; each takes about as long as the run's own step.

    Raises:
        InputError: There is no such run or variant, its files cannot be read, or the run has no folder.
    """
    from railyard.work.study import explain as explaining

    if isinstance(run, Run):
        if run.folder is None:
            raise InputError("the run kept no folder to explain", key="out", hint="run it with `out=` a folder")
        run = run.folder
    found: Explanation | ServedExplanation = explaining.explain(Path(run), variant=variant, with_remedies=remedies)
    return found


def execute(
    draft: Draft,
    varies: Sequence[str],
    *,
    engine: str | None = None,
    out: str | Path | None = None,
    progress: Callable[[str, float], None] | None = None,
    pool: Callable[[], Workers] | None = None,
) -> Run:
    """Runs a loaded scenario and writes its folder; shared by Python and the command line.

    Raises:
        InputError: The scenario cannot be run.
        SimulationError: The run cannot finish.
    """
    from railyard.face.reports import write_report
    from railyard.work.study import study

    def face(result: Result, folder: Path) -> None:
        write_report(result, folder / "report.html")

    place = None if out is None else Path(out)
    finished = study.run(draft, varies, engine=engine, out=place, faces=[face], progress=progress, pool=pool)
    return Run(finished.result.name, finished.result, finished.folder)


def draft_of(scenario: str | Path | Mapping[str, Any] | Scenario, overrides: Mapping[str, Any] | None) -> Draft:
    from railyard.kit.schema import yaml
    from railyard.work.scenario import load as loading
    from railyard.work.scenario.model import Scenario

    if isinstance(scenario, Mapping | Scenario):
        return loading.from_values(scenario, overrides)
    if not isinstance(scenario, str | Path):
        allowed = "a file, a mapping as in a file, or a `Scenario`"
        raise InputError("this is no scenario", found=repr(scenario), allowed=allowed)
    draft = loading.load(scenario)
    changes = {
        key: yaml.from_plain(value, yaml.Mark(f"{key} given in Python")) for key, value in (overrides or {}).items()
    }
    return draft.changed(changes) if changes else draft
