"""Verbs about scenarios and runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from railyard.face import signals
from railyard.face.options import Json, Quiet, Set
from railyard.face.verb import Page, Reply, Request, verb
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from railyard.face.api import Run
    from railyard.work.scenario.load import Draft


@verb(
    "run",
    "Run a scenario and write the folder of the run.",
    parts=["scenario", "engine", "vary", "ray"],
    hidden=["vary"],
    json=True,
    quiet=True,
    out="runs",
    patient=True,
    order=0,
    page=Page("Run", "Simulates the scenario and every variant that it compares.", order=0, view="run"),
)
def run(request: Request) -> Reply:
    """Run a scenario, with every variant that it compares, and write the folder of the run."""
    request.progress("reading the scenario", 0.0)
    return _executed(request.draft(), request)


def _executed(draft: Draft, request: Request) -> Reply:
    from railyard.face.api import execute

    finished = execute(
        draft, request.vary, engine=request.engine, pool=request.cluster, out=request.runs, progress=request.progress
    )
    return _reply(finished, request)


def _reply(finished: Run, request: Request) -> Reply:
    from railyard.face.words import run as words

    early = words.early(finished) if signals.came() else ""
    text: Callable[[], str] = finished.result.text
    return Reply(
        finished,
        text,
        lambda: words.show(finished, quiet=request.quiet),
        folder=finished.folder,
        stopped=early,
        failed=words.failures(finished),
    )


@verb(
    "compare",
    "Run a scenario once for every value of a key, or set kept runs side by side.",
    parts=["engine", "vary", "ray"],
    json=True,
    quiet=True,
    out="runs",
    patient=True,
    order=1,
)
def compare(
    request: Request,
    what: Annotated[
        list[Path], typer.Argument(metavar="SCENARIO|RUN...", help="A scenario, or two or more folders of runs.")
    ],
    *,
    set_: Set = None,
) -> Reply:
    """Run a scenario once for every combination of the values given with --vary, or compare runs that were kept."""
    from railyard.face import api, terminal

    if len(what) > 1 or what[0].is_dir() or what[0].suffix == ".json":
        return _reply(api.compare_runs(_runs(request, what, set_), out=request.runs), request)
    draft = terminal.scenario(what[0], set_ or [])
    given = draft.scenario.compare
    if not (request.vary or given.vary or given.variants or given.steps):
        raise InputError("there is nothing to compare", hint="give for example `--vary fabric=roce,infiniband,ideal`")
    return _executed(draft, request)


def _runs(request: Request, what: list[Path], sets: list[str] | None) -> list[Path]:
    """Runs to set side by side.

    Raises:
        InputError: Something is given that would change them, or a scenario is among them.
    """
    given = {"--set": sets, "--vary": request.vary, "--engine": request.engine, "--ray": request.cluster}
    option = next((name for name, there in given.items() if there), None)
    if option is not None:
        raise InputError(
            "runs that were kept cannot be changed", key=option, hint="give a scenario, or `railyard run` it anew"
        )
    for path in what:
        if path.suffix in {".yaml", ".yml"}:
            raise InputError(
                "this is a scenario among runs", file=path, hint="run it first, then give the folder of the run"
            )
    return what


@verb(
    "operate scenario",
    "Play a scenario; the word may be left out.",
    parts=["scenario", "vary"],
    json=True,
    quiet=True,
    out="runs",
    patient=True,
    order=70,
    page=Page(
        "Operate", "Plays many jobs on one cluster for months: waits, failures, dollars.", order=6, view="run",
        name="operate",
    ),
)  # fmt: skip
def operate(request: Request) -> Reply:
    """Play the jobs of a scenario: who waits, who runs where, what breaks, what an hour of use costs."""
    kind = request.draft().kind
    if kind != "operate":
        raise InputError(
            "the scenario is not of many jobs for months",
            key="workload",
            found=kind,
            allowed="operate",
            hint="`railyard run` runs it",
        )
    return run(request)


@verb("operate failures", "What recorded faults say of the coming weeks.", order=71)
def operate_failures(
    *,
    fit: Annotated[Path, typer.Option("--fit", metavar="FILE.csv", help="Faults: day, node, event.")],
    servers: Annotated[int, typer.Option("--servers", min=1, metavar="N", help="Servers that were watched.")],
    days: Annotated[float, typer.Option("--days", min=0.0, metavar="D", help="For how long, from day 0.")],
    json: Json = False,
) -> None:
    """Forecast faults a week, repair times and servers away at once, with bands, from recorded faults."""
    import json as codec

    from railyard.face.terminal import Table, emit
    from railyard.work.operate.failures import history

    found = history.forecast(history.read(fit, servers, days))
    if json:
        emit(codec.dumps(found.plain()))
        return
    table = Table(("what the coming weeks bring", "low", "mean or p50", "high, p90 or p95"), (1, 2, 3))
    table.add("faults a week", f"{found.low:.1f}", f"{found.mean:.1f}", f"{found.high:.1f}")
    table.add("hours until a server is back", "", f"{found.repair_p50_h:.0f}", f"{found.repair_p90_h:.0f}")
    table.add("servers away at once", "", f"{found.out_mean:.1f}", f"{found.out_p95:.0f}")
    table.print()


@verb("explain", "Where the step of a run goes, as a tree, and what each remedy would give.", order=3)
def explain(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, or its result.json.")],
    *,
    variant: Annotated[
        str | None, typer.Option("--variant", metavar="NAME", help="Which variant; the first without it.")
    ] = None,
    depth: Annotated[int, typer.Option("--depth", metavar="N", min=1, help="Levels of the tree.")] = 3,
    remedies: Annotated[
        bool, typer.Option("--remedies/--no-remedies", help="Simulate what each remedy would give.")
    ] = True,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Explain a run: where its step goes, by what that was computed, and what each remedy would make of it."""
    from railyard.face.words import explain as explaining

    explaining.explain(run, variant=variant, depth=depth, remedies=remedies, as_json=json, quiet=quiet)


@verb("packet", "Run given flows packet by packet, without a model of training.", order=4)
def packet(
    *,
    traffic: Annotated[
        Path, typer.Option("--traffic", metavar="FILE", help="Flows: .cm, .tm, .goal, .bin, .et or .csv.")
    ],
    topology: Annotated[
        Path | None, typer.Option("--topology", metavar="FILE.topo", help="Fat tree; htsim's default without it.")
    ] = None,
    fabric: Annotated[
        str, typer.Option("--fabric", metavar="NAME", help="A fabric's name, or a YAML file that mixes one.")
    ] = "uec",
    trust: Annotated[bool, typer.Option("--trust", help="Run the Python that a YAML file of --fabric names.")] = False,
    set_: Set = None,
    link_rate: Annotated[
        str | None, typer.Option("--link-rate", metavar="RATE", help="Of the default tree, such as 400Gb/s.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**64 - 1, help="Seed of every random choice.")] = 0,
    threads: Annotated[
        int, typer.Option("--threads", min=1, max=256, help="Threads; results do not depend on it.")
    ] = 1,
    faults: Annotated[
        Path | None,
        typer.Option("--faults", metavar="FILE", help="What goes wrong, and when: FILE.yaml, or a table FILE.csv."),
    ] = None,
    fct: Annotated[Path | None, typer.Option("--fct", metavar="FILE.csv", help="Write a row a flow.")] = None,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE.html", help="Write the report, one page.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FOLDER", help="Put the folder of the run there, with everything.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run given flows over a fat tree packet by packet and print their completion times."""
    from railyard.face.words import packet as packets

    packets.packet(
        traffic,
        topology=topology,
        name=fabric,
        trust=trust,
        sets=set_ or [],
        link_rate=link_rate,
        seed=seed,
        threads=threads,
        faults=faults,
        flows_to=fct,
        report_to=report,
        out=out,
        as_json=json,
        quiet=quiet,
    )


@verb("export", "Write what happened in a run in a format for another program.", order=5)
def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run or of a variant, or a record in it.")],
    *,
    name: Annotated[str, typer.Option("--as", metavar="NAME", help="The exporter, such as perfetto.")],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Where to; named after RUN without it.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write what happened in a run, task by task, flow by flow or request by request, for another program."""
    from railyard.face.words import run as exporting

    exporting.export(run, name=name, out=out, quiet=quiet)
