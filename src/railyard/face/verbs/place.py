"""Verbs about where jobs go, and by which schedules data move."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from railyard.face.options import Force, Json, Names, Quiet, Set
from railyard.face.verb import FormField, Page, Reply, Request, verb
from railyard.face.verbs.tune import refuse_with


def _policies() -> list[str]:
    from railyard.work.operate.discipline import policies

    return [name for name, _ in policies.shipped()]


@verb(
    "place",
    "Which nodes jobs get, by a scheduler's rule.",
    json=True,
    out="keep",
    order=20,
    page=Page(
        "Place",
        "Gives jobs their nodes as a scheduler would; of a scenario's job with its step by every policy.",
        order=8,
    ),
)
def place(
    request: Request,
    jobs: Annotated[
        Path,
        typer.Argument(metavar="JOBS", help="A row a job, a job's scenario, or workloads of Kueue."),
        FormField("Jobs"),
    ],
    *,
    nodes: Annotated[
        Path,
        typer.Option(
            "--nodes",
            metavar="FILE",
            help="The cluster: topology.conf or .yaml, ibnetdiscover, CSV, objects; of a scenario its free nodes.",
        ),
        FormField("The cluster"),
    ],
    policy: Annotated[
        str, typer.Option("--policy", metavar="NAME", help="The rule."), FormField("Rule", allowed=_policies)
    ] = "slurm-tree",
    format: Annotated[
        str | None, typer.Option("--format", metavar="NAME", help="Of the cluster's file; recognised without it.")
    ] = None,
    busy: Annotated[
        Path | None,
        typer.Option("--busy", metavar="FILE", help="A list of nodes that are taken."),
        FormField("Taken nodes"),
    ] = None,
    names: Annotated[Names, FormField("Names of servers")] = None,
) -> Reply:
    """Place jobs on a cluster as a scheduler would; a scenario's job with its step by every policy."""
    from railyard.face.words import place as words
    from railyard.work.operate import placed

    request.progress("placing jobs", 0.0)
    found = placed.place(placed.Where(jobs, nodes, format, busy, names), policy)
    answer = placed.answer_of(found, jobs.stem, policy)
    return Reply(
        answer,
        lambda: words.as_json(found),
        lambda: words.show(found, policy),
        keep=answer,
        notes=words.warnings(found),
    )


@verb("topology", "How nodes hang together, in the words of a scheduler.", order=21)
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
    names: Names = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Where to; stdout without it.")] = None,
    force: Force = False,
) -> None:
    """Print how the nodes of a cluster hang together, or write it for Slurm, Kueue, Volcano or topograph."""
    from railyard.face.words import place as placing

    placing.topology(source, name=format, target=target, names=names, out=out, force=force)


@verb("synthesize", "A schedule of a collective for given links, or for a scenario's cluster.", order=22)
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
    from railyard.face.words import synthesize as synthesizing
    from railyard.kit.errors import InputError

    if (links is None) == (cluster is None):
        raise InputError("a schedule is made for one network", key="--links", allowed="--links or --cluster")
    files = synthesizing.Files(out, msccl, mscclpp, force)
    given: synthesizing.Table | synthesizing.Machine
    if cluster is not None:
        refuse_with("--cluster", {"--topology": topology, "--chassis": chassis, "--switches": switches})
        given = synthesizing.Machine(cluster, set_ or [], ranks, engine or [])
    else:
        refuse_with("--links", {"--ranks": ranks, "--engine": engine, "--set": set_})
        given = synthesizing.Table(links, topology, chassis, switches)  # type: ignore[arg-type]
    if matrix is not None:
        refuse_with("--matrix", {"--size": size})
    much = matrix or size or "1 MB"
    synthesizing.synthesize(
        given, files, collective=collective, size=much, most_sends=most_sends, as_json=json, quiet=quiet
    )


@verb("trace", "What is in a trace of requests: rate, lengths, bursts, shared prefixes.", order=24)
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
    from railyard.face.words import place as traces

    traces.trace(file, name=format, sort=sort, drop_empty=drop_empty, as_json=json)
