"""Verbs about where jobs go, and by which schedules data move."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from railyard.face.terminal import Force, Names, Set, emit, say
from railyard.face.verb import FormField, Page, Reply, Request, verb
from railyard.face.verbs.tune import refuse_with
from railyard.kit.errors import InputError
from railyard.kit.files import keep_existing, write_text


def _policies() -> list[str]:
    from railyard.work.operate.discipline import policies

    return [name for name, _ in policies.shipped()]


@verb(
    "place",
    "Place jobs as a scheduler would.",
    example="railyard place examples/network/jobs.csv --nodes examples/network/topology.conf",
    group="operate",
    json=True,
    out="keep",
    order=20,
    page=Page(
        "Place",
        "Places jobs as a scheduler would; of a scenario's job it compares the step of every policy.",
        order=8,
    ),
)
def place(
    request: Request,
    jobs: Annotated[
        Path,
        typer.Argument(metavar="JOBS", help="One row per job, a job's scenario, or workloads of Kueue."),
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
    """Place jobs on a cluster as a scheduler would; of a scenario's job, compare the step of every policy."""
    from railyard.face.words import place as words
    from railyard.work.operate import placed

    request.progress("placing jobs", 0.0)
    found = placed.place(placed.Where(jobs, nodes, format, busy, names), policy)
    answer = placed.answer_of(found, jobs.stem, policy)
    return Reply(
        answer,
        lambda: words.show(found),
        lambda: words.plain(found),
        words.kueue_sentence(found),
        keep=answer,
        notes=words.warnings(found),
    )


@verb(
    "topology",
    "Write a cluster for Slurm, Kueue or Volcano.",
    example="railyard topology examples/first.yaml --as slurm-tree",
    group="operate",
    order=21,
)
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
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="File to write; default: stdout.")] = None,
    force: Force = False,
) -> None:
    """Print the levels of a cluster's network, or write them for Slurm, Kueue, Volcano or topograph."""
    from railyard.face.words import place as words
    from railyard.work.operate.place_input import read_nodes
    from railyard.work.operate.topology_file import topology_formats

    keep_existing(out, force=force)
    tree = read_nodes(source, format, names)
    if target is None:
        words.show_topology(tree)
        return
    record = topology_formats.get(target)
    if record.write is None:
        writable = [one.name for _, one in topology_formats.items() if one.write]
        raise InputError(f"`{target}` is only read", key="--as", found=target, allowed=writable)
    text = record.write(tree)
    if out is None:
        emit(text.rstrip("\n"))
        return
    write_text(out, text)
    say(f"wrote {out} ({record.filename}: {record.summary})")


@verb(
    "synthesize",
    "Find a schedule of a collective for any network.",
    example="railyard synthesize --links examples/network/dgx1.csv --collective all-gather",
    group="decide",
    json=True,
    quiet=True,
    patient=True,
    order=22,
)
def synthesize(
    request: Request,
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
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE.csv", help="Write one row per send.")] = None,
    msccl: Annotated[Path | None, typer.Option("--msccl", metavar="FILE.xml", help="Write an MSCCL algorithm.")] = None,
    mscclpp: Annotated[
        Path | None, typer.Option("--mscclpp", metavar="FILE.json", help="Write an execution plan of MSCCL++.")
    ] = None,
    force: Force = False,
) -> Reply:
    """Find a schedule of a collective for any network of links, and a lower bound of its time."""
    from railyard.collective.synthesis.collectives import collectives
    from railyard.collective.synthesis.msccl import MOST_MESSAGES, msccl_xml
    from railyard.face import terminal
    from railyard.face.words import synthesize as words

    if (links is None) == (cluster is None):
        raise InputError("a schedule is made for one network", key="--links", allowed="--links or --cluster")
    if matrix is not None:
        refuse_with("--matrix", {"--size": size})
    files = words.Files(out, msccl, mscclpp, force)
    files.check()
    collectives.get(collective)
    much = words.UnevenSize.of(matrix, collective) if matrix else words.EvenSize.of(size or "1 MB", collective)
    ground = None
    if cluster is not None:
        refuse_with("--cluster", {"--topology": topology, "--chassis": chassis, "--switches": switches})
        ground = words.ground_of(terminal.scenario(cluster, set_ or []), collective, ranks or much.ranks, engine or [])
        network = ground.network()
    elif links is not None:
        refuse_with("--links", {"--ranks": ranks, "--engine": engine, "--set": set_})
        network = words.network_of(links, topology, chassis, switches)
    laid = MOST_MESSAGES if engine else None
    most = words.FinestSchedule.of(most_sends, collective, len(network.ranks), files.most_messages or laid)
    found = much.searched(network, most, lambda share: request.progress("schedules", share))
    played = []
    if ground is not None and engine and not found.stopped:
        text = msccl_xml(network, found.schedule, collective, found.cut, keeps=found.pieces is None)
        played = ground.played(text, round(much.buffer_bytes), engine, found.pieces)
    files.write(network, found, collective)
    size_of = much.meaning(network)
    return Reply(
        found,
        lambda: words.show(network, found, size_of, played),
        lambda: words.plain(found, collective, size_of, played),
        headline=words.headline(found, collective, size_of, played),
        notes=[] if request.quiet or ground is not None else words.guessed(network, switches),
        stopped="the best schedule so far; finer ones were not tried, and no engine replayed it" * found.stopped,
    )


@verb(
    "trace",
    "Describe a trace of requests: rate, lengths, bursts.",
    example="railyard trace examples/serving/traces/AzureLLMInferenceTrace_code.csv",
    group="simulate",
    json=True,
    order=24,
)
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
) -> Reply:
    """Print what is in a trace of requests: rate, lengths, burstiness and how much of the prompts is shared."""
    from railyard.face.words import place as words
    from railyard.work.serving.summary import summarize
    from railyard.work.serving.traces import read_trace

    summary = summarize(read_trace(file, format, sort=sort, empty="drop" if drop_empty else "refuse"))
    return Reply(summary, lambda: words.show_trace(summary), summary.to_json, words.trace_sentence(summary))
