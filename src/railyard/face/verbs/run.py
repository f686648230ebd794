"""Verbs about scenarios and runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from railyard.face import signals
from railyard.face.terminal import Set, Table, print_parts, say
from railyard.face.verb import Page, Reply, Request, verb
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from railyard.face.api import Run
    from railyard.measure.result.reading import Result
    from railyard.work.scenario.load import Draft


@verb(
    "run",
    "Simulate a scenario: step or latency, network tax, cost, report.",
    example="railyard run examples/first.yaml",
    group="simulate",
    first=2,
    parts=["scenario", "engine", "vary", "ray"],
    hidden=["vary"],
    json=True,
    details=True,
    quiet=True,
    out="runs",
    patient=True,
    shorter="`--engine analytic` takes seconds",
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
    return Reply(
        finished,
        lambda: words.show(finished, quiet=request.quiet, details=request.details),
        finished.result.text,
        words.first_line(finished),
        folder=finished.folder,
        stopped=early,
        failed=words.failures(finished),
    )


@verb(
    "compare",
    "Compare values of any key, or runs you kept.",
    example="railyard compare examples/first.yaml --vary oversubscription=1:1,2:1",
    group="simulate",
    first=3,
    parts=["engine", "vary", "ray"],
    json=True,
    details=True,
    quiet=True,
    out="runs",
    patient=True,
    shorter="`--engine analytic` takes seconds",
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
            "a stored run cannot be changed", key=option, hint="give a scenario, or `railyard run` it again"
        )
    for path in what:
        if path.suffix in {".yaml", ".yml"}:
            raise InputError(
                "a scenario cannot be compared with runs",
                file=path,
                hint="run it first, then give the folder of the run",
            )
    return what


@verb(
    "operate scenario",
    "Simulate a scenario (the default).",
    example="railyard operate examples/operate/noisy.yaml", group="operate",
    parts=["scenario", "vary"],
    json=True,
    details=True,
    quiet=True,
    out="runs",
    patient=True,
    shorter="`--set workload.operate.draws=1` draws failures once; after Ctrl-C the same command goes on",
    kind="operate",
    order=70,
    page=Page(
        "Operate", "Simulates many jobs on one cluster for months: waits, failures, dollars.", order=6, view="run",
        name="operate",
    ),
)  # fmt: skip
def operate(request: Request) -> Reply:
    """Play the jobs of a scenario: who waits, who runs where, what breaks, what an hour of use costs."""
    return run(request)


@verb(
    "operate failures",
    "Forecast faults from recorded ones.",
    example="railyard operate failures --fit examples/operate/faults.csv --servers 256 --days 30",
    group="operate",
    json=True,
    order=71,
)
def operate_failures(
    *,
    fit: Annotated[Path, typer.Option("--fit", metavar="FILE.csv", help="Faults: day, node, event.")],
    servers: Annotated[int, typer.Option("--servers", min=1, metavar="N", help="Servers that were watched.")],
    days: Annotated[float, typer.Option("--days", min=0.0, metavar="D", help="For how long, from day 0.")],
    group: Annotated[
        int | None, typer.Option("--group", min=1, metavar="N", help="Accelerators that need one scale-up network.")
    ] = None,
    each: Annotated[int, typer.Option("--accelerators", min=1, metavar="N", help="Of a server, with --group.")] = 8,
) -> Reply:
    """Forecast faults a week, repair times and servers out at once, with bands, from recorded faults.

    With --group, also the share of accelerators that would be healthy and idle, by how scale-up joins servers.
    """
    from railyard.cluster.scale_up.groups import GroupedNodes, idle_shares, ways_to_join
    from railyard.work.operate.failures import history

    found = history.forecast(history.read(fit, servers, days))
    idle = {} if group is None else idle_shares(GroupedNodes(servers, each, group, found.out_mean / servers))

    def show() -> None:
        table = Table(("forecast", "low", "mean or p50", "high, p90 or p95"), (1, 2, 3))
        table.add("faults a week", f"{found.low:.1f}", f"{found.mean:.1f}", f"{found.high:.1f}")
        table.add("hours until a server is back", "", f"{found.repair_p50_h:.0f}", f"{found.repair_p90_h:.0f}")
        table.add("servers out at once", "", f"{found.out_mean:.1f}", f"{found.out_p95:.0f}")
        table.print()
        if idle:
            waste = Table((f"scale-up for groups of {group}", "healthy and idle", "how it joins servers"), (1,))
            for name, share in idle.items():
                waste.add(name, f"{100 * share:.2f} %", ways_to_join.get(name).summary)
            waste.print()

    headline = (
        f"Expect {found.mean:.1f} faults a week ({found.low:.1f} to {found.high:.1f}); with {found.out_p95:.0f} spare"
        " servers, the job has enough 95 % of the time."
    )
    return Reply(found, show, lambda: found.plain() | ({"idle_share": idle} if idle else {}), headline)


@verb(
    "explain",
    "Show where a step goes and what would shorten it.",
    example="railyard explain runs/first-*",
    group="simulate",
    json=True,
    details=True,
    quiet=True,
    order=3,
)
def explain(
    request: Request,
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, or its result.json.")],
    *,
    variant: Annotated[
        str | None, typer.Option("--variant", metavar="NAME", help="Which variant; the first without it.")
    ] = None,
    depth: Annotated[int, typer.Option("--depth", metavar="N", min=1, help="Levels of the tree.")] = 3,
    remedies: Annotated[
        bool, typer.Option("--remedies/--no-remedies", help="Simulate what each remedy would give.")
    ] = True,
) -> Reply:
    """Explain a run: where its step goes, and how much each remedy would shorten it."""
    from railyard.work.study.explain import explain as explained
    from railyard.work.study.presentation import ExplainDepth, presentations

    found = explained(run, variant=variant, with_remedies=remedies, progress=request.progress)
    depths = ExplainDepth(depth, details=request.details, quiet=request.quiet)
    headline, *parts = presentations.get(found.variant.kind).explained(found, depths)
    return Reply(found, lambda: print_parts(parts), found.to_json, str(headline))


@verb(
    "packet",
    "Simulate given flows packet by packet.",
    example="railyard packet --traffic examples/traces/incast.cm --fabric roce",
    group="simulate",
    json=True,
    details=True,
    quiet=True,
    order=4,
)
def packet(
    request: Request,
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
    fct: Annotated[Path | None, typer.Option("--fct", metavar="FILE.csv", help="Write one row per flow.")] = None,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE.html", help="Write the report, one page.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FOLDER", help="Write the run's folder there.")] = None,
) -> Reply:
    """Run given flows over a fat tree packet by packet and print their completion times."""
    from railyard.face.words import run as words
    from railyard.work.scenario.packet import chosen
    from railyard.work.study import study
    from railyard.work.traffic.simulate import TrafficRun

    preset = chosen(fabric, trust=trust)
    settings = words.settings_of(preset.settings, link_rate, set_ or [])
    given = TrafficRun(
        traffic, topology, preset, settings, seed=seed, threads=threads, probe=bool(report or out), faults=faults
    )
    finished = study.run(given, out=out, faces=[_page], progress=request.progress)
    found = finished.measured[0].report
    if fct is not None:
        found.write_flows(fct)
    if report is not None:
        try:
            _page(finished.result, report)
        except InputError as error:
            raise error.located(key="--report") from None

    def show() -> None:
        words.show_packets(found, details=request.details)
        for path in (report, finished.folder):
            if path is not None and not request.quiet:
                say(f"wrote {path}")

    notes = () if request.quiet else words.packet_notes(found)
    return Reply(found, show, found.to_json, words.flows_sentence(found), notes=notes)


def _page(result: Result, path: Path) -> None:
    """Writes the report into a folder, or as a file."""
    from railyard.face.reports import write_report

    write_report(result, path / "report.html" if path.is_dir() else path)


@verb(
    "export",
    "Write a run as a Perfetto trace, Parquet or Chakra.",
    example="railyard export runs/first-* --as perfetto",
    group="simulate",
    quiet=True,
    order=5,
)
def export(
    request: Request,
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run or of a variant, or a record in it.")],
    *,
    name: Annotated[str, typer.Option("--as", metavar="NAME", help="The exporter, such as perfetto.")],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="File to write; default: named after RUN.")
    ] = None,
) -> None:
    """Write what happened in a run, task by task, flow by flow or request by request, for another program."""
    from railyard.graph.exporters import exporters
    from railyard.graph.parquet import read_record

    try:
        exporter = exporters.get(name)
    except InputError as error:
        raise error.located(key="--as") from None
    path = out or Path(f"{run.stem}{exporter.suffix}")
    record = read_record(_record_of(run))
    try:
        exporter.write(record, path)
    except OSError as error:
        raise InputError(f"the file cannot be written: {error.strerror}", file=path, key="--out") from None
    if not request.quiet:
        say(f"wrote {path}")


_RECORDS = ("timeline.parquet", "flows.parquet", "requests.parquet")
"""Records in folders of runs: of tasks, of flows, of requests."""


def _record_of(run: Path) -> Path:
    """The record of a folder, or the file itself."""
    if not run.is_dir():
        return run
    found = next((run / name for name in _RECORDS if (run / name).is_file()), None)
    if found is None:
        raise InputError("the folder holds no record of a run", file=run, allowed=_RECORDS)
    return found
