"""Commands about where jobs go, and by which schedules data move."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from railyard.face.cli.completion import Engine, Force, Json, Keep, Quiet, Scenario, Set
from railyard.face.cli.installed import app


@app.command(short_help="Which nodes jobs get, by a scheduler's rule.")
def place(
    jobs: Annotated[
        Path,
        typer.Argument(metavar="JOBS", help="A row a job, a job's scenario, or workloads of Kueue."),
    ],
    *,
    nodes: Annotated[
        Path,
        typer.Option(
            "--nodes",
            metavar="FILE",
            help="The cluster: topology.conf or .yaml, ibnetdiscover, CSV, objects; of a scenario its free nodes.",
        ),
    ],
    policy: Annotated[str, typer.Option("--policy", metavar="NAME", help="The rule.")] = "slurm-tree",
    format: Annotated[
        str | None, typer.Option("--format", metavar="NAME", help="Of the cluster's file; recognised without it.")
    ] = None,
    busy: Annotated[Path | None, typer.Option("--busy", metavar="FILE", help="A list of nodes that are taken.")] = None,
    names: Annotated[
        Path | None, typer.Option("--names", metavar="FILE", help="Names of a scenario's servers, in order.")
    ] = None,
    out: Keep = None,
    json: Json = False,
) -> None:
    """Place jobs on a cluster as a scheduler would; a scenario's job with its step by every policy."""
    from railyard.face.cli import place as placing
    from railyard.work.operate.placed import Where

    placing.place(Where(jobs, nodes, format, busy, names), policy=policy, out=out, as_json=json)


@app.command(short_help="How nodes hang together, in the words of a scheduler.")
def topology(
    source: Annotated[
        Path, typer.Argument(metavar="FILE", help="A scenario, a scheduler's file, a discovered fabric.")
    ],
    *,
    target: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="Write it as: slurm-tree, slurm-yaml, kueue and others.")
    ] = None,
    format: Annotated[
        str | None, typer.Option("--format", metavar="NAME", help="Of FILE; recognised without it.")
    ] = None,
    names: Annotated[
        Path | None, typer.Option("--names", metavar="FILE", help="Names of a scenario's servers, in order.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Where to; stdout without it.")] = None,
    force: Force = False,
) -> None:
    """Print how the nodes of a cluster hang together, or write it for Slurm, Kueue, Volcano or topograph."""
    from railyard.face.cli import place as placing

    placing.topology(source, name=format, target=target, names=names, out=out, force=force)


@app.command(short_help="A schedule of a collective for given links, or for a scenario's cluster.")
def synthesize(
    *,
    links: Annotated[
        Path | None,
        typer.Option("--links", metavar="FILE.csv", help="source, destination, gb_per_s (decimal), latency_us."),
    ] = None,
    cluster: Annotated[
        Path | None,
        typer.Option("--cluster", metavar="SCENARIO", help="In place of a table: a scenario's cluster and faults."),
    ] = None,
    collective: Annotated[
        str, typer.Option("--collective", metavar="NAME", help="all-gather, reduce-scatter, all-reduce or all-to-all.")
    ] = "all-gather",
    size: Annotated[
        str | None,
        typer.Option(
            "--size",
            metavar="SIZE",
            help="Bytes of each rank, as nccl-tests counts: all-gather's output, reduce-scatter's input, all-reduce's"
            " buffer, what a rank sends in an all-to-all. Each pair of N ranks has 1/N of it. 1 MB without it.",
        ),
    ] = None,
    matrix: Annotated[
        Path | None,
        typer.Option("--matrix", metavar="FILE.csv", help="Of an uneven all-to-all: bytes, a row for each source."),
    ] = None,
    topology: Annotated[
        str | None, typer.Option("--topology", metavar="NAME", help="Which, where the table holds several.")
    ] = None,
    chassis: Annotated[
        str | None, typer.Option("--chassis", metavar="N", help="Which, where the table holds several.")
    ] = None,
    switches: Annotated[
        str | None, typer.Option("--switches", metavar="0,17", help="Nodes that only pass on; guessed without it.")
    ] = None,
    ranks: Annotated[
        int | None, typer.Option("--ranks", metavar="N", min=2, help="Of a cluster: the first so many; all without it.")
    ] = None,
    engine: Annotated[
        list[str] | None,
        typer.Option("--engine", metavar="NAME", help="On a cluster: play it on flow or packet; may be repeated."),
    ] = None,
    set_: Set = None,
    most_sends: Annotated[
        int, typer.Option("--most-sends", metavar="N", min=1, help="Finest schedule to try: more take longer.")
    ] = 200_000,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE.csv", help="Write a row a send.")] = None,
    msccl: Annotated[Path | None, typer.Option("--msccl", metavar="FILE.xml", help="Write an MSCCL algorithm.")] = None,
    mscclpp: Annotated[
        Path | None, typer.Option("--mscclpp", metavar="FILE.json", help="Write an execution plan of MSCCL++.")
    ] = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make a schedule of a collective for any network of links, and say what no schedule beats."""
    from railyard.face.cli import synthesize as synthesizing
    from railyard.kit.errors import InputError

    if (links is None) == (cluster is None):
        raise InputError("a schedule is made for one network", key="--links", allowed="--links or --cluster")
    files = synthesizing.Files(out, msccl, mscclpp, force)
    given: synthesizing.Table | synthesizing.Machine
    if cluster is not None:
        _refuse_with("--cluster", {"--topology": topology, "--chassis": chassis, "--switches": switches})
        given = synthesizing.Machine(cluster, set_ or [], ranks, engine or [])
    else:
        _refuse_with("--links", {"--ranks": ranks, "--engine": engine, "--set": set_})
        given = synthesizing.Table(links, topology, chassis, switches)  # type: ignore[arg-type]
    if matrix is not None:
        _refuse_with("--matrix", {"--size": size})
    much = matrix or size or "1 MB"
    synthesizing.synthesize(
        given, files, collective=collective, size=much, most_sends=most_sends, as_json=json, quiet=quiet
    )


def _refuse_with(ground: str, given: dict[str, object]) -> None:
    """Refuses options that mean nothing for what the schedule is made for."""
    from railyard.kit.errors import InputError

    wrong = next((option for option, value in given.items() if value), None)
    if wrong is not None:
        raise InputError(f"{wrong} has no meaning with {ground}", key=wrong, found=str(given[wrong]))


@app.command(short_help="Settings of collectives and fabric that make a step shorter.")
def tune(
    scenario: Scenario,
    *,
    engine: Engine = None,
    set_: Set = None,
    env: Annotated[Path | None, typer.Option("--env", metavar="FILE", help="Write NCCL's environment.")] = None,
    tuner: Annotated[
        Path | None, typer.Option("--tuner", metavar="FILE.csv", help="Write the table of NCCL's tuner plugin.")
    ] = None,
    configs: Annotated[
        Path | None,
        typer.Option("--configs", metavar="FOLDER", help="Write files of switches (SONiC, EOS, Junos) and servers."),
    ] = None,
    online: Annotated[
        bool, typer.Option("--online", help="In packets: settings that follow the run, against fixed ones.")
    ] = False,
    even_unsure: Annotated[
        bool, typer.Option("--even-unsure", help="Write these files where the gain may be chance, too.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False,
    ray: Annotated[str | None, typer.Option("--ray", metavar="ADDRESS", help="Run on a Ray cluster.")] = None,
    out: Keep = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Search settings on some draws of the hashes, and judge them on draws, loads and jobs they have not seen."""
    from railyard.face.cli import tune as tuning

    if online:
        _refuse_with(
            "--online", {"--engine": engine, "--env": env, "--tuner": tuner, "--configs": configs, "--out": out}
        )
        tuning.online(scenario, sets=set_ or [], ray=ray, as_json=json, quiet=quiet)
        return
    tuning.tune(
        scenario,
        sets=set_ or [],
        engine=engine,
        ray=ray,
        env=env,
        table=tuner,
        configs=configs,
        force=force,
        even_unsure=even_unsure,
        out=out,
        as_json=json,
        quiet=quiet,
    )


@app.command(short_help="What is in a trace of requests: rate, lengths, bursts, shared prefixes.")
def trace(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The trace; its format is recognised.")],
    *,
    format: Annotated[
        str | None, typer.Option("--format", metavar="NAME", help="Format, in place of the recognised one.")
    ] = None,
    sort: Annotated[bool, typer.Option("--sort", help="Sort rows that are out of order, instead of refusing.")] = False,
    drop_empty: Annotated[
        bool, typer.Option("--drop-empty", help="Drop rows without an answer, instead of refusing.")
    ] = False,
    json: Json = False,
) -> None:
    """Print what is in a trace of requests: rate, lengths, burstiness and how much of the prompts is shared."""
    from railyard.face.cli import place as traces

    traces.trace(file, name=format, sort=sort, drop_empty=drop_empty, as_json=json)
