"""Commands over a scenario and over runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from railyard.face.cli.completion import RUNS, Engine, Json, Out, Quiet, Ray, Scenario, Set, Vary
from railyard.face.cli.installed import app, laboratory


@app.command(short_help="Run a scenario and write the folder of the run.")
def run(
    scenario: Scenario,
    *,
    json: Json = False,
    engine: Engine = None,
    set_: Set = None,
    ray: Ray = None,
    out: Out = RUNS,
    quiet: Quiet = False,
) -> None:
    """Run a scenario, with every variant that it compares, and write the folder of the run."""
    from railyard.face.cli import running

    running.run(scenario, sets=set_ or [], varies=[], engine=engine, ray=ray, out=out, as_json=json, quiet=quiet)


@app.command(short_help="Run a scenario once for every value of a key, or set kept runs side by side.")
def compare(
    what: Annotated[
        list[Path], typer.Argument(metavar="SCENARIO|RUN...", help="A scenario, or two or more folders of runs.")
    ],
    *,
    vary: Vary = None,
    json: Json = False,
    engine: Engine = None,
    set_: Set = None,
    ray: Ray = None,
    out: Out = RUNS,
    quiet: Quiet = False,
) -> None:
    """Run a scenario once for every combination of the values given with --vary, or compare runs that were kept."""
    from railyard.face.cli import running

    running.compare(
        what, sets=set_ or [], varies=vary or [], engine=engine, ray=ray, out=out, as_json=json, quiet=quiet
    )


@app.command(short_help="Which figures moved between two results, and why.")
def diff(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="Folder of a run or plan, or its JSON file.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="The same question, run later or changed.")],
    *,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Say which figures moved between two results, of any versions, where the step moved, and what was changed."""
    from railyard.face.cli import diff as differ

    differ.diff(old, new, as_json=json, quiet=quiet)


@app.command(short_help="Where the step of a run goes, as a tree, and what each remedy would give.")
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
    from railyard.face.cli import explain as explaining

    explaining.explain(run, variant=variant, depth=depth, remedies=remedies, as_json=json, quiet=quiet)


@app.command(short_help="Run given flows packet by packet, without a model of training.")
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
    ] = "uec-htsim",
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
    from railyard.face.cli import packet as packets

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


@app.command(short_help="Write what happened in a run in a format for another program.")
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
    from railyard.face.cli import running as exporting

    exporting.export(run, name=name, out=out, quiet=quiet)


@laboratory.command("exec", short_help="Run a program as the ranks of a job, over a lab's links.")
def lab_exec(
    scenario: Annotated[Path, typer.Argument(metavar="SCENARIO", help="A scenario; of it the section `cluster`.")],
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND...", help="Run once for each rank; after two dashes.")
    ],
    *,
    dilation: Annotated[float, typer.Option("--dilation", min=1, help="Links are that many times slower.")] = 1.0,
    routing: Annotated[
        str, typer.Option("--routing", metavar="NAME", help="static, or frr (BGP unnumbered).")
    ] = "static",
    json: Json = False,
) -> None:
    """Run a program, such as a training script, unmodified as every rank: each in the namespace of its server."""
    from railyard.face.cli import lab

    lab.run(scenario, command, dilation=dilation, routing=routing, as_json=json)
