"""The commands and their options; what they do is in the modules beside this one, imported when a command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from railyard.cli.installed import Commands
from railyard.cli.operate import PLAY, Operating
from railyard.cli.planning import DESIGNS, Planning

app = typer.Typer(
    name="railyard",
    cls=Commands,
    help="How long do the GPUs of a cluster wait on the network, why, and what does it cost?",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
catalog = typer.Typer(
    help="What is known about hardware, models and prices, with sources.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(catalog, name="catalog")
calibration = typer.Typer(
    help="Measure the hardware at hand and keep what was read.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(calibration, name="calibrate")
planning = typer.Typer(
    cls=Planning, help="What should be built: `railyard plan PLAN`.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(planning, name="plan")

laboratory = typer.Typer(
    help="A lab on this machine: programs over shaped links, in network namespaces.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(laboratory, name="lab")

operating = typer.Typer(
    cls=Operating,
    help="Play many jobs on one cluster for months: `railyard operate SCENARIO`.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(operating, name="operate")

Scenario = Annotated[Path, typer.Argument(metavar="SCENARIO", help="The scenario, a YAML file.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Engine = Annotated[str | None, typer.Option("--engine", metavar="NAME", help="Engine, in place of the scenario's.")]
Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set one dotted key; may be repeated.")
]
Vary = Annotated[
    list[str] | None,
    typer.Option("--vary", metavar="KEY=A,B,C", help="Compare these values of a key; may be repeated."),
]
Out = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where the folder of the run is put.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No words and no progress, only data and errors.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")]
Extra = Annotated[
    Path | None, typer.Option("--catalog", metavar="FILE", help="A catalogue of your own over the built-in one.")
]

_RUNS = Path("runs")


def catalogue_names(incomplete: str) -> list[str]:
    """What a shell completes to names of the catalogue."""
    from railyard.cli import completion as completing

    return completing.entries(incomplete)


def command() -> Any:
    """The whole command line as one command."""
    return typer.main.get_command(app)


def _version(asked: bool) -> None:
    if asked:
        from railyard import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    del version


@app.command(short_help="Run a scenario and write the folder of the run.")
def run(
    scenario: Scenario,
    *,
    json: Json = False,
    engine: Engine = None,
    set_: Set = None,
    out: Out = _RUNS,
    quiet: Quiet = False,
) -> None:
    """Run a scenario, with every variant that it compares, and write the folder of the run."""
    from railyard.cli import running

    running.run(scenario, sets=set_ or [], varies=[], engine=engine, out=out, as_json=json, quiet=quiet)


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
    out: Out = _RUNS,
    quiet: Quiet = False,
) -> None:
    """Run a scenario once for every combination of the values given with --vary, or compare runs that were kept."""
    from railyard.cli import comparing

    comparing.compare(what, sets=set_ or [], varies=vary or [], engine=engine, out=out, as_json=json, quiet=quiet)


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
    from railyard.cli import explain as explaining

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
    from railyard.cli import packet as packets

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
    from railyard.cli import export as exporting

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
    from railyard.cli import lab

    lab.run(scenario, command, dilation=dilation, routing=routing, as_json=json)


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
    json: Json = False,
) -> None:
    """Place jobs on a cluster as a scheduler would; a scenario's job with its step by every policy."""
    from railyard.cli import place as placing

    placing.place(jobs, nodes=nodes, name=format, policy=policy, busy=busy, names=names, as_json=json)


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
    from railyard.cli import place as placing

    placing.topology(source, name=format, target=target, names=names, out=out, force=force)


@app.command(short_help="A schedule of a collective for a given network of links.")
def synthesize(
    *,
    links: Annotated[
        Path, typer.Option("--links", metavar="FILE.csv", help="source, destination, gb_per_s (decimal), latency_us.")
    ],
    collective: Annotated[
        str, typer.Option("--collective", metavar="NAME", help="all-gather, reduce-scatter, all-reduce or all-to-all.")
    ] = "all-gather",
    size: Annotated[str, typer.Option("--size", metavar="SIZE", help="Of the whole output, such as 1 MB.")] = "1 MB",
    topology: Annotated[
        str | None, typer.Option("--topology", metavar="NAME", help="Which, where the table holds several.")
    ] = None,
    chassis: Annotated[
        str | None, typer.Option("--chassis", metavar="N", help="Which, where the table holds several.")
    ] = None,
    switches: Annotated[
        str | None, typer.Option("--switches", metavar="0,17", help="Nodes that only pass on; guessed without it.")
    ] = None,
    most_sends: Annotated[
        int, typer.Option("--most-sends", metavar="N", min=1, help="Finest schedule to try: more take longer.")
    ] = 200_000,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE.csv", help="Write a row a send.")] = None,
    msccl: Annotated[Path | None, typer.Option("--msccl", metavar="FILE.xml", help="Write an MSCCL algorithm.")] = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make a schedule of a collective for any network of links, and say what no schedule beats."""
    from railyard.cli import synthesize as synthesizing

    synthesizing.synthesize(
        links,
        collective=collective,
        size=size,
        topology=topology,
        chassis=chassis,
        switches=switches,
        most_sends=most_sends,
        out=out,
        msccl=msccl,
        force=force,
        as_json=json,
        quiet=quiet,
    )


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
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False,
    ray: Annotated[str | None, typer.Option("--ray", metavar="ADDRESS", help="Run on a Ray cluster.")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Search settings on some draws of the hashes, and judge them on draws and loads they have not seen."""
    from railyard.cli import tune as tuning

    tuning.tune(
        scenario,
        sets=set_ or [],
        engine=engine,
        ray=ray,
        env=env,
        table=tuner,
        force=force,
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
    from railyard.cli import trace as traces

    traces.trace(file, name=format, sort=sort, drop_empty=drop_empty, as_json=json)


@app.command(short_help="What traces of a cluster say: utilization, exposed communication, stragglers.")
def observe(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="Traces (files, a folder, an archive), or the folder of a run.")
    ],
    *,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.parquet", help="Write the record, for `railyard export`.")
    ] = None,
    cluster: Annotated[
        Path | None, typer.Option("--cluster", metavar="FILE", help="A scenario: what its cluster should have reached.")
    ] = None,
    json: Json = False,
) -> None:
    """Read what a cluster did and print where its time went, in the measures of a simulated run."""
    from railyard.cli import observe as observing

    observing.observe(path, out=out, cluster=cluster, as_json=json)


@app.command(short_help="A running cluster by its Prometheus: measured against expected, alerts.")
def watch(
    *,
    prometheus: Annotated[
        str | None, typer.Option("--prometheus", metavar="URL", help="Such as http://localhost:9090.")
    ] = None,
    rehearse: Annotated[
        Path | None,
        typer.Option("--rehearse", metavar="RUN", help="A run with a fault: write its telemetry for promtool and end."),
    ] = None,
    cluster: Annotated[
        Path | None, typer.Option("--cluster", metavar="FILE", help="A scenario: what its cluster should reach.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FOLDER", help="Write rules, alerts, a Grafana dashboard and expected values."),
    ] = None,
    every: Annotated[
        float, typer.Option("--every", metavar="SECONDS", min=1.0, help="From one look to the next.")
    ] = 30,
    export: Annotated[
        str | None,
        typer.Option("--export", metavar="PORT", help="Serve expected values to Prometheus; ADDRESS:PORT for others."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Look once and end.")] = False,
    json: Json = False,
) -> None:
    """Ask a Prometheus what collectives reach, compare it with what the model expects, and show its alerts."""
    from railyard.cli import watch as watching

    if rehearse is not None:
        watching.rehearse(rehearse, cluster=cluster, out=out)
    else:
        watching.watch(prometheus, cluster=cluster, out=out, export=export, every_s=every, once=once, as_json=json)


@app.command(short_help="Which part of a cluster is to blame, if any.")
def diagnose(
    path: Annotated[
        Path | None,
        typer.Argument(metavar="PATH", help="The folder of a run, a record, operations, flight recorder dumps."),
    ] = None,
    *,
    cluster: Annotated[
        Path | None, typer.Option("--cluster", metavar="FILE", help="A scenario, of which only `cluster` is read.")
    ] = None,
    symptom: Annotated[
        str | None,
        typer.Option("--symptom", metavar="NAME", help="Instead of a path: slow, flapping, hang; the tests to run."),
    ] = None,
    json: Json = False,
) -> None:
    """Name the link, NIC, accelerator, host or rank that makes a cluster slow or hang, or none where none is sure.

    Then the tests that would settle it, in order, with what the model expects of each.
    """
    from railyard.cli import observe as observing
    from railyard.errors import InputError

    if symptom is not None and path is None:
        observing.symptom(symptom, cluster=cluster, as_json=json)
    elif path is not None and symptom is None:
        observing.diagnose(path, cluster=cluster, as_json=json)
    else:
        raise InputError("either a path or a symptom", key="PATH", allowed="a path, or --symptom alone")


@app.command(short_help="Write what gets cabled and configured: racks, cables, addresses, configurations.")
def deploy(
    scenario: Scenario,
    *,
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where the plan is put.")],
    os: Annotated[
        str, typer.Option("--os", metavar="NAME", help="Of Ethernet switches: frr, sonic, eos or junos.")
    ] = "sonic",
    set_: Set = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write the plan of a scenario's cluster: every cable with both ends, racks, addresses, files for its devices."""
    from railyard.cli import deploy as deploying

    deploying.deploy(scenario, sets=set_ or [], out=out, system=os, as_json=json, quiet=quiet)


@app.command(short_help="Tests that a new cluster has to pass: written from the model, and read back.")
def accept(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="The scenario, a YAML file; or the folder that --out wrote.")
    ],
    *,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FOLDER", help="Write the tests and their scripts.")
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option("--results", metavar="PATH", help="Judge: logs of nccl-tests and ib_write_bw, CSV `test,value`."),
    ] = None,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE.xml", help="Write a JUnit report, for build systems.")
    ] = None,
    set_: Set = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write what a cluster has to show, or judge what was measured; exit code 1 where a test failed or is missing."""
    from railyard.cli import accept as accepting

    raise typer.Exit(
        accepting.accept(path, sets=set_ or [], out=out, results=results, report=junit, as_json=json, quiet=quiet)
    )


@app.command(short_help="What is wrong with a network as it was cabled, and what each fault costs.")
def audit(
    *,
    ibnetdiscover: Annotated[
        Path | None, typer.Option("--ibnetdiscover", metavar="FILE", help="An InfiniBand fabric, as that prints it.")
    ] = None,
    lldp: Annotated[
        Path | None,
        typer.Option("--lldp", metavar="FOLDER", help="LLDP neighbours, a JSON file a device: lldpd, SONiC, EOS."),
    ] = None,
    netbox: Annotated[
        Path | None,
        typer.Option("--netbox", metavar="FILE", help="Cables of NetBox: alone as found, else as what was planned."),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option("--plan", metavar="SCENARIO", help="What was planned; without it the design is inferred."),
    ] = None,
    with_: Annotated[
        list[Path] | None,
        typer.Option(
            "--with", metavar="PATH", help="What devices say: counters, tables, BGP, settings, parts; repeat."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Compare a network as found with its plan, or with the regular design it was meant to be; price every fault."""
    from railyard.cli import deploy

    deploy.audit(ibnetdiscover=ibnetdiscover, lldp=lldp, netbox=netbox, plan=plan, reports=with_ or [], as_json=json)


@app.command("bring-up", short_help="How a cluster is built in time: first job, idle capital, which racks first.")
def bring_up(scenario: Scenario, *, set_: Set = None, json: Json = False, quiet: Quiet = False) -> None:
    """Play crews, deliveries, wrong cables and burn-in of a cluster that is built; compare orders and measures."""
    from railyard.cli import bring_up as bringing

    bringing.bring_up(scenario, sets=set_ or [], as_json=json, quiet=quiet)


@app.command(short_help="Whether what a scenario asserts holds: figures, lost parts, deadlock, headroom.")
def check(
    scenario: Scenario,
    *,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE.xml", help="Write a JUnit report, for build systems.")
    ] = None,
    set_: Set = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Judge the assertions under `check` of a scenario; exit code 1 where one does not hold, 2 where one is wrong."""
    from railyard.cli import check as checking

    raise typer.Exit(checking.check(scenario, sets=set_ or [], report=junit, as_json=json, quiet=quiet))


@app.command(short_help="Write a commented scenario to start from.")
def init(file: Annotated[Path | None, typer.Argument(metavar="FILE", help="The file to write.")] = None) -> None:
    """Write a commented scenario to start from, to stdout without FILE."""
    from railyard.cli import starting

    starting.init(file)


@app.command(short_help="Print the JSON schema of a scenario or of a result.")
def schema(
    document: Annotated[str, typer.Argument(metavar="[scenario|result]", help="Which document.")] = "scenario",
) -> None:
    """Print the JSON schema of a scenario, for completion and checks in an editor, or of a result."""
    from railyard.cli import starting

    starting.schema(document)


@app.command(short_help="The script with which a shell completes commands, options and names.")
def completion(
    shell: Annotated[str, typer.Argument(metavar="bash|zsh|fish|powershell", help="Which shell.")],
) -> None:
    """Print the script with which a shell completes commands, options and names of the catalogue.

    bash: `railyard completion bash > ~/.local/share/bash-completion/completions/railyard`
    """
    from railyard.cli import completion as completing

    completing.script(shell)


Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="Scenarios and runs.")]
Host = Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Where to listen; elsewhere than here: --tokens.")]
Port = Annotated[int, typer.Option("--port", metavar="N", min=1, max=65535, help="TCP port.")]
Tokens = Annotated[
    Path | None, typer.Option("--tokens", metavar="FILE", help="A line `name token` a person; each has a folder.")
]
Certificate = Annotated[Path | None, typer.Option("--certificate", metavar="FILE", help="TLS certificate (PEM).")]
Key = Annotated[Path | None, typer.Option("--key", metavar="FILE", help="Key of the certificate (PEM).")]
Proxied = Annotated[bool, typer.Option("--behind-proxy", help="A proxy in front encrypts.")]
Names = Annotated[
    list[str] | None, typer.Option("--name", metavar="HOST", help="Name that browsers use; may be repeated.")
]
AtOnce = Annotated[int, typer.Option("--runs", metavar="N", min=1, max=64, help="Runs at a time.")]


@app.command(short_help="The page: write, check, run and compare scenarios in a browser.")
def ui(
    folder: Folder = Path(),
    *,
    host: Host = "127.0.0.1",
    port: Port = 8421,
    tokens: Tokens = None,
    certificate: Certificate = None,
    key: Key = None,
    proxied: Proxied = False,
    names: Names = None,
    runs: AtOnce = 1,
    opened: Annotated[bool, typer.Option("--open/--no-open", help="Open a browser where there is a screen.")] = True,
) -> None:
    """Serve the page over a folder of scenarios and runs, the same files as the command line's."""
    from railyard.cli import ui as serving

    serving.serve(
        folder,
        host=host,
        port=port,
        tokens=tokens,
        certificate=certificate,
        key=key,
        proxied=proxied,
        names=names or (),
        runs=runs,
        processes=1,
        pages=True,
        opened=opened,
    )


@app.command("serve-api", short_help="The API of the page, for programs and behind a proxy.")
def serve_api(
    folder: Folder = Path(),
    *,
    host: Host = "127.0.0.1",
    port: Port = 8421,
    tokens: Tokens = None,
    certificate: Certificate = None,
    key: Key = None,
    proxied: Proxied = False,
    names: Names = None,
    runs: AtOnce = 1,
    processes: Annotated[
        int, typer.Option("--processes", metavar="N", min=1, max=64, help="That answer; one of them starts runs.")
    ] = 1,
) -> None:
    """Serve the API over a folder of scenarios and runs; its description is at /api/v1/openapi.json."""
    from railyard.cli import ui as serving

    serving.serve(
        folder,
        host=host,
        port=port,
        tokens=tokens,
        certificate=certificate,
        key=key,
        proxied=proxied,
        names=names or (),
        runs=runs,
        processes=processes,
        pages=False,
        opened=False,
    )


@catalog.command("list")
def catalog_list(
    kind: Annotated[str | None, typer.Argument(metavar="KIND", help="One kind only, such as accelerators.")] = None,
    json: Json = False,
    extra: Extra = None,
) -> None:
    """List what the catalogue holds."""
    from railyard.cli import shelves

    shelves.list_entries(kind, extra=extra, as_json=json)


@catalog.command("show")
def catalog_show(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name or alias of an entry.", autocompletion=catalogue_names)
    ],
    json: Json = False,
    extra: Extra = None,
) -> None:
    """Show an entry: every value with its unit, source, year and confidence."""
    from railyard.cli import shelves

    shelves.show_entry(name, extra=extra, as_json=json)


@catalog.command("server", short_help="Make a server for a catalogue of your own from NCCL's topology file.")
def catalog_server(
    file: Annotated[Path, typer.Argument(metavar="FILE.xml", help="As NCCL or RCCL wrote it: NCCL_TOPO_DUMP_FILE.")],
    *,
    accelerator: Annotated[
        str, typer.Option("--accelerator", metavar="NAME", help="Which it has, where the file does not say.")
    ] = "",
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Of the new entry.")] = "my-server",
    extra: Extra = None,
) -> None:
    """Make a server from NCCL's topology file: accelerators, NICs, domains, PCIe; the rest as its nearest like."""
    from railyard.cli import shelves

    shelves.server_of(file, accelerator=accelerator, name=name, extra=extra)


@planning.command(DESIGNS, short_help="Look for the best cluster; the word may be left out.")
def plan_designs(
    file: Annotated[Path, typer.Argument(metavar="PLAN", help="A scenario with `plan.space`, a YAML file.")],
    *,
    set_: Set = None,
    ray: Annotated[str | None, typer.Option("--ray", metavar="ADDRESS", help="Run on a Ray cluster.")] = None,
    out: Out = _RUNS,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find which cluster to build: the front of its objectives, how sure it is, and what would change it."""
    from railyard.cli import plan_designs as designer

    raise typer.Exit(designer.designs(file, sets=set_ or [], out=out, ray=ray, as_json=json, quiet=quiet))


@planning.command("growth", short_help="What it costs to grow a cluster, by path and future.")
def plan_growth(file: Scenario, *, set_: Set = None, json: Json = False) -> None:
    """Price the paths from a cluster to larger ones: what is bought, stranded and cabled anew, and the regret."""
    from railyard.cli import plan_growth as grower

    grower.growth(file, sets=set_ or [], as_json=json)


@planning.command("serving")
def plan_serving(
    scenario: Scenario,
    *,
    set_: Set = None,
    write: Annotated[
        Path | None, typer.Option("--write", metavar="FILE.yaml", help="Write a scenario with the best plan.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find the cheapest hardware, layout and replicas for each stage of a pipeline, within its objective."""
    from railyard.cli import plan as planner

    planner.serving(scenario, sets=set_ or [], write=write, as_json=json, quiet=quiet)


@calibration.command("device")
def calibrate_device(
    *,
    device: Annotated[
        str,
        typer.Option("--device", metavar="KIND", help="auto or cuda (ROCm too) through PyTorch; cpu through NumPy."),
    ] = "auto",
    entry: Annotated[
        str | None, typer.Option("--entry", metavar="NAME", help="Catalogue entry that the device is.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.yaml", help="Write a catalogue file with what was measured.")
    ] = None,
    force: Force = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer shapes: seconds instead of minutes.")] = False,
    collectives: Annotated[
        bool, typer.Option("--collectives/--no-collectives", help="Measure collectives between several devices.")
    ] = True,
    json: Json = False,
) -> None:
    """Measure the accelerator at hand, compare it with the model, and write it as a catalogue file."""
    from railyard.cli import calibrate

    calibrate.device(device, entry=entry, out=out, force=force, quick=quick, collectives=collectives, as_json=json)


@calibration.command("runs")
def calibrate_runs(
    *,
    table: Annotated[
        Path, typer.Option("--table", metavar="FILE", help="Your measurements; what they are, their columns tell.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE.toml", help="Write the constants that were fitted.")
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Fit constants to a few measurements of your own, with how sure they are."""
    from railyard.cli import calibrate

    calibrate.runs(table, out=out, force=force, as_json=json)


@calibration.command("serving")
def calibrate_serving(
    *,
    runs: Annotated[Path, typer.Option("--runs", metavar="FOLDER", help="Recorded runs of a serving engine.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE.toml", help="Write the constants that were fitted.")
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Fit the constants of an engine on your devices from recorded runs, for `validate serving --profiles`."""
    from railyard.cli import calibrate

    calibrate.serving(runs, out=out, force=force, as_json=json)


@operating.command(PLAY, short_help="Play a scenario; the word may be left out.")
def operate_scenario(
    scenario: Scenario,
    *,
    vary: Vary = None,
    set_: Set = None,
    out: Out = _RUNS,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Play the jobs of a scenario: who waits, who runs where, what breaks, what an hour of use costs."""
    from railyard.cli import operate

    operate.scenario(scenario, sets=set_ or [], varies=vary or [], out=out, as_json=json, quiet=quiet)


@operating.command("failures", short_help="What recorded faults say of the coming weeks.")
def operate_failures(
    *,
    fit: Annotated[Path, typer.Option("--fit", metavar="FILE.csv", help="Faults: day, node, event.")],
    servers: Annotated[int, typer.Option("--servers", min=1, metavar="N", help="Servers that were watched.")],
    days: Annotated[float, typer.Option("--days", min=0.0, metavar="D", help="For how long, from day 0.")],
    json: Json = False,
) -> None:
    """Forecast faults a week, repair times and servers away at once, with bands, from recorded faults."""
    from railyard.cli import operate

    operate.failures(fit, servers=servers, days=days, as_json=json)
