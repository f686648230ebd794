"""Commands about what is built, cabled, configured and checked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from railyard.face.cli.completion import Json, Keep, Quiet, Scenario, Set
from railyard.face.cli.installed import app


@app.command(short_help="Write what gets cabled and configured: racks, cables, addresses, configurations.")
def deploy(
    scenario: Scenario,
    *,
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where the plan is put.")],
    os: Annotated[
        str, typer.Option("--os", metavar="NAME", help="Of Ethernet switches: frr, sonic, eos or junos.")
    ] = "sonic",
    provision: Annotated[
        str | None,
        typer.Option(
            "--provision",
            metavar="URL",
            help="Write DHCP (Kea) and first-boot files; the folder is served by this URL.",
        ),
    ] = None,
    inventory: Annotated[
        Path | None,
        typer.Option(
            "--inventory", metavar="FILE.csv", help="Of the devices: device, mac, serial, circuit_id, for --provision."
        ),
    ] = None,
    set_: Set = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write the plan of a scenario's cluster: every cable with both ends, racks, addresses, files for its devices."""
    from railyard.face.cli import deploy as deploying

    deploying.deploy(
        scenario,
        sets=set_ or [],
        out=out,
        system=os,
        provision=provision,
        inventory=inventory,
        as_json=json,
        quiet=quiet,
    )


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
    pilot: Annotated[
        bool,
        typer.Option("--pilot", help="Of a plan: tests of a pilot pod, and results at which another design is best."),
    ] = False,
    servers: Annotated[
        int | None, typer.Option("--servers", min=1, help="Of the pilot pod; the fewest for the job when left out.")
    ] = None,
    os: Annotated[
        str, typer.Option("--os", metavar="NAME", help="Of Ethernet switches, as in `deploy`: names of their ports.")
    ] = "sonic",
    set_: Set = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write what a cluster has to show, or judge what was measured; exit code 1 where a test failed or is missing."""
    from railyard.face.cli import accept as accepting
    from railyard.kit.errors import InputError

    if pilot:
        from railyard.face.cli import accept_pilot

        given = {"--out": out, "--junit": junit}
        wrong = next((name for name, value in given.items() if value is not None), None)
        if wrong:
            raise InputError("a pilot's tests are printed, not written", key=wrong, allowed="--results, --json")
        raise typer.Exit(
            accept_pilot.pilot(path, sets=set_ or [], servers=servers, results=results, as_json=json, quiet=quiet)
        )
    if servers is not None:
        raise InputError("only a pilot pod has so many servers", key="--servers", allowed="with --pilot")
    raise typer.Exit(
        accepting.accept(
            path, sets=set_ or [], out=out, results=results, report=junit, system=os, as_json=json, quiet=quiet
        )
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
    out: Keep = None,
    json: Json = False,
) -> None:
    """Compare a network as found with its plan, or with the regular design it was meant to be; price every fault."""
    from railyard.face.cli import deploy

    deploy.audit(
        ibnetdiscover=ibnetdiscover, lldp=lldp, netbox=netbox, plan=plan, reports=with_ or [], out=out, as_json=json
    )


@app.command("bring-up", short_help="How a cluster is built in time: first job, idle capital, which racks first.")
def bring_up(scenario: Scenario, *, set_: Set = None, json: Json = False, quiet: Quiet = False) -> None:
    """Play crews, deliveries, wrong cables and burn-in of a cluster that is built; compare orders and measures."""
    from railyard.face.cli import accept as bringing

    bringing.bring_up(scenario, sets=set_ or [], as_json=json, quiet=quiet)


@app.command(short_help="Whether what a scenario asserts holds: figures, lost parts, deadlock, headroom.")
def check(
    scenario: Scenario,
    *,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE.xml", help="Write a JUnit report, for build systems.")
    ] = None,
    set_: Set = None,
    out: Keep = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Judge the assertions under `check` of a scenario; exit code 1 where one does not hold, 2 where one is wrong."""
    from railyard.face.cli import check as checking

    raise typer.Exit(checking.check(scenario, sets=set_ or [], report=junit, out=out, as_json=json, quiet=quiet))
