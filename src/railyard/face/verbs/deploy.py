"""`railyard deploy` and `railyard audit`."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from railyard.face.terminal import System, Table, emit, say
from railyard.face.verb import DEPLOYMENTS, FormField, Page, Reply, Request, verb
from railyard.measure import numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.ask.audit.audit import Audit
    from railyard.ask.audit.symptom import AuditFinding
    from railyard.ask.deploy.cabling import CablingPlan
    from railyard.ask.deploy.emit.provision import Provision
    from railyard.ask.deploy.tenants import Demand
    from railyard.measure.cost.capital import Capex

SHOWN, _REPAIRS, _NOTES = 40, 12, 2


def _systems() -> Sequence[str]:
    from railyard.ask.deploy.system import system_names

    return system_names()


def _folder(request: Request) -> dict[str, Any]:
    """Folder of a deployment on the page: next to the runs."""
    from railyard.work.study.folder import slug

    assert request.runs is not None, "a server has a folder"
    return {"out": request.runs.parent / DEPLOYMENTS / slug(request.draft().title)}


@verb(
    "deploy",
    "Write racks, cables, addresses and configurations.",
    example="railyard deploy examples/first.yaml --out plan --os sonic",
    group="build",
    parts=["scenario"],
    json=True,
    quiet=True,
    details=True,
    order=40,
    page=Page(
        "Deploy",
        "Writes what gets cabled and configured: racks, cables, addresses, configurations.",
        order=7,
        view="page",
        given=_folder,
    ),
)
def deploy(
    request: Request,
    *,
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Write into this folder.")],
    os: Annotated[System, FormField("Ethernet switches run", allowed=_systems)] = "sonic",
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
            "--inventory",
            metavar="FILE.csv",
            help="With --provision, a table of the devices: device, mac, serial, circuit_id.",
        ),
    ] = None,
) -> Reply:
    """Write the plan of a scenario's cluster: every cable with both ends, racks, addresses, files for its devices."""
    from railyard.ask.deploy.cabling import as_set, capital_of, plan_of
    from railyard.ask.deploy.emit import folder
    from railyard.ask.deploy.emit.boots import read
    from railyard.ask.deploy.emit.collectives import collectives_of
    from railyard.ask.deploy.system import system_named
    from railyard.ask.deploy.tenants import demands
    from railyard.work.study import compose

    system_named(os)
    asked = _provision(provision, inventory)
    request.progress("reading the scenario", 0.0)
    draft = request.draft()
    plan = plan_of(as_set(compose.cluster_of(draft, compose.catalog_of(draft)), draft))
    if asked is not None and inventory is not None:
        asked = replace(asked, inventory=read(inventory, plan.devices.name))
    told = collectives_of(draft, plan.cluster, request.progress)
    capital = capital_of(draft, plan.cluster)
    total, installation = capital.total_usd.typical, capital.line("installation").typical
    own = [key for section in draft.scenario.workload.sections for key in section.own_hardware()]
    beyond = f", without the hardware of `{'`, `'.join(own)}`" if own else ", as in `railyard run`"
    headline = (
        f"Build {len(plan.devices):,} devices in {len(plan.racks):,} racks with {len(plan.cables):,} links: the"
        f" capital is {numbers.dollars(total)}{beyond}, {numbers.dollars(installation)} of it for installation."
    )
    if late := int(plan.too_long.sum()):
        headline += (
            f" But {late:,} of {len(plan.cables):,} cables are longer than their medium reaches: set their"
            " `cable_length` before you order."
        )
    files = folder.write(
        plan,
        out,
        os,
        draft.title,
        request.progress,
        provision=asked,
        collectives=told,
        installation_usd=installation,
        verdict=headline,
    )
    tables = demands(plan)
    figures = {
        "folder": str(out),
        "files": files,
        "devices": len(plan.devices),
        "racks": len(plan.racks),
        "links": len(plan.cables),
        "cable_km": float(plan.length_m.sum()) / 1e3,
        "beyond_copper": float(plan.beyond_copper.mean()) if len(plan.cables) else 0.0,
        "rows": int(plan.racks.floor.row.max()) + 1,
        "zones": int(plan.racks.floor.zone.max()) + 1,
        "power_w": float(plan.racks.power_w.sum()),
        "outside_w": {what: power.high for what, power in plan.outside_w.items()},
        "capital_usd": total,
        "installation_usd": installation,
        "remarks": [*plan.remarks, *told.left_out],
        "tables": [asdict(one) for one in tables],
    }

    def show() -> None:
        _print(plan, figures)
        if request.details:
            _bill(plan, capital)
        _tables(tables)
        if asked is not None and "front-end" not in plan.networks:
            say("note: servers have no front-end network, so `provision/` boots switches only")
        for words in (*plan.remarks, *told.left_out):
            say(words)
        if not request.quiet:
            say(f"wrote {len(files)} files to {out}; open {out / 'index.html'} first")

    return Reply(figures, show, lambda: figures, headline=headline, folder=out, page="index.html")


def _print(plan: CablingPlan, figures: dict[str, Any]) -> None:
    table = Table(("network", "tier", "links", "medium", "shortest", "longest"), (2, 4, 5))
    for number, tier in enumerate(plan.tiers):
        length = plan.length_m[plan.cables.tier == number]
        if len(length):
            ends = (f"{end:,g} m" for end in (length.min(), length.max()))
            table.add(tier.network, tier.name, f"{len(length):,}", tier.medium or "none fits", *ends)
    table.print()
    power, rows, zones = (
        numbers.power(figures["power_w"]),
        numbers.counted(figures["rows"], "row"),
        numbers.counted(figures["zones"], "zone"),
    )
    outside = ", ".join(f"{what} {numbers.power(watts)}" for what, watts in figures["outside_w"].items())
    beside = f"; outside them: {outside}" if outside else ""
    emit(f"\nThe racks draw at most {power} in {rows} and {zones} of power and cooling{beside}.")
    emit(
        f"{figures['cable_km']:,.1f} km of cables; {figures['beyond_copper']:.0%} of them are longer than copper of"
        " their rate reaches."
    )


def _bill(plan: CablingPlan, capital: Capex) -> None:
    """Capital and power by component; the power in sum is that of the racks and of what is outside them."""
    from railyard.cluster.bill import bill_of
    from railyard.measure.cost.capital import NICS, parts_of_rows, power_of

    emit("")
    table = Table(("component", "pieces", "capital", "draws at most"), (1, 2, 3))
    parts = parts_of_rows(bill_of(plan.cluster))
    for line in capital.lines:
        name = f"{line.name} (in the servers)" if line.name == NICS else line.name
        watts = power_of(parts, line.name).high
        drawn = numbers.power(watts) if watts else ""
        table.add(name, f"{line.count:,}", numbers.dollars(line.price_usd.typical), drawn)
    drawn = numbers.power(bill_of(plan.cluster).total_w.high)
    table.add("total", "", numbers.dollars(capital.total_usd.typical), drawn)
    table.print()


def _provision(url: str | None, inventory: Path | None) -> Provision | None:
    """Provisioning of devices; None if not asked for."""
    from railyard.ask.deploy.emit.boots import folder_of
    from railyard.ask.deploy.emit.provision import Provision
    from railyard.kit.errors import InputError

    if url is None:
        if inventory is not None:
            raise InputError(
                "an inventory is for provisioning", key="--inventory", found=inventory, allowed="with --provision URL"
            )
        return None
    return Provision(folder_of(url))


def _tables(tables: Sequence[Demand]) -> None:
    """Switch tables that tenants fill; what does not fit is an error."""
    if not tables:
        return
    emit("")
    shown = Table(("switches", "table", "rows", "at most", "box"), (2, 3))
    for one in tables:
        most = "not published" if one.most is None else f"{one.most:,}"
        shown.add(one.role, one.table.replace("_", " "), f"{one.rows:,}", most, one.box)
    shown.print()
    emit("")
    for one in tables:
        if not one.fits:
            rows = f"{one.rows:,} rows of {one.table.replace('_', ' ')}"
            words = f"{one.switch} needs {rows}, but {one.box} has {one.most:,}"
            say(f"{words} ({one.source})", "yellow")


@verb(
    "audit",
    "Find wrong cables in a network, each with its cost.",
    example="railyard audit --ibnetdiscover examples/network/ibnetdiscover.out",
    group="observe",
    json=True,
    details=True,
    out="keep",
    order=42,
    page=Page(
        "Audit",
        "Compares a network as found with its plan, or with the design it was meant to be; prices each fault.",
        order=5,
    ),
)
def audit(
    request: Request,
    *,
    ibnetdiscover: Annotated[
        Path | None,
        typer.Option("--ibnetdiscover", metavar="FILE", help="An InfiniBand fabric, as that prints it."),
        FormField("InfiniBand fabric", about="As `ibnetdiscover` prints it."),
    ] = None,
    lldp: Annotated[
        Path | None,
        typer.Option("--lldp", metavar="FOLDER", help="LLDP neighbours, a JSON file a device: lldpd, SONiC, EOS."),
        FormField("LLDP neighbours", takes="folder"),
    ] = None,
    netbox: Annotated[
        Path | None,
        typer.Option("--netbox", metavar="FILE", help="Cables of NetBox: alone as found, else as what was planned."),
        FormField("NetBox"),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option("--plan", metavar="SCENARIO", help="What was planned; without it the design is inferred."),
        FormField("What was planned", about="A scenario; without it the design is inferred."),
    ] = None,
    with_: Annotated[
        list[Path] | None,
        typer.Option(
            "--with", metavar="PATH", help="What devices say: counters, tables, BGP, settings, parts; repeat."
        ),
        FormField("What devices say", takes="either", about="Counters, tables, BGP, settings, parts."),
    ] = None,
) -> Reply:
    """Compare a network as found with its plan, or with the regular design it was meant to be; price every fault.

    Exit code 1 if no design can be inferred, so that nothing was checked.
    """
    from railyard.ask.audit.audit import AuditSources, audit_found

    request.progress("reading the network as found", 0.0)
    found, answer = audit_found(AuditSources(ibnetdiscover, lldp, netbox, plan, with_ or ()))

    def show() -> None:
        for problem in found.problems[:SHOWN]:
            say(problem.render())
        _work(found, details=request.details)
        if request.details:
            _design(found)
        _doubts(found, details=request.details)

    return Reply(answer, show, keep=answer, cluster=plan, code=int(answer.blind))


def _design(found: Audit) -> None:
    design = found.design
    tiers = ", ".join(f"{count} {tier}" for tier, count in design["tiers"].items())
    switches = f"{tiers} switches" if tiers else "no tiers of switches"
    emit(f"{design['source']} design: {switches}, {design['host_ports']:,} host ports")
    for words, times in Counter(map(_block, design["blocks"])).items():
        emit(f"  {words}" if times == 1 else f"  {times} times {words}")
    if "forwarding" in design:
        _forwarding(design["forwarding"])


def _doubts(found: Audit, *, details: bool) -> None:
    """What is uncertain: two notes, all with `details`; and what prices assume."""
    doubts = found.design["doubts"]
    for words in doubts if details else doubts[:_NOTES]:
        say(f"uncertain: {words}")
    if not details and len(doubts) > _NOTES:
        say(f"more remarks with --details: {len(doubts) - _NOTES}")
    say(found.design["assumptions"])


def _block(block: dict[str, Any]) -> str:
    lows, highs = block["switches"]
    loads = block["worst_shift_load"]
    words = "" if loads is None else f"; worst load of a shift permutation {loads[0]:g} to {loads[1]:g}"
    return (
        f"{lows} {block['lower']} x {highs} above, {block['cables_a_pair']} cables a pair:"
        f" {block['found']:,} of {block['cables']:,} cables{words}"
    )


def _forwarding(figures: dict[str, Any]) -> None:
    emit(
        f"  forwarding tables of {figures['switches']:,} switches reach {figures['pairs_reached']:.2%} of all"
        f" {figures['destinations']:,} destinations from every leaf"
    )
    if "worst_shift_load" in figures:
        mine, usual = figures["worst_shift_load"], figures["worst_shift_load_min_hop"]
        emit(
            f"  with them, worst load of a shift permutation {mine[0]:g} to {mine[1]:g}; min-hop's on the same cables"
            f" {usual[0]:g} to {usual[1]:g}, all shifts in {1 / figures['slower_than_min_hop']:.2f} of the time"
        )


def _work(found: Audit, *, details: bool) -> None:
    """The work list: repairs in the order in which they pay; with `details` both ends, the loss and the basis."""
    from railyard.measure.result.answers import short_name

    if not found.findings:
        return
    most = SHOWN if details else _REPAIRS
    if details:
        table = Table(("", "kind", "end", "end", "loss", "$/month", "left", "repair"), (0, 4, 5, 6))
    else:
        table = Table(("", "kind", "where", "$/month", "left", "repair"), (0, 3, 4), prose=True)
    for number, one in enumerate(found.findings[:most], 1):
        left = f"{found.repairs[number - 1]:.2%}" if number <= len(found.repairs) else ""
        usd = "?" if one.unpriced else f"{one.usd_per_month:,.0f}"
        if details:
            loss = "?" if one.unpriced else f"{one.loss:.2%}"
            table.add(str(number), one.kind, one.a, one.b, loss, usd, left, one.detail)
        else:
            table.add(str(number), one.kind, short_name(one.a), usd, left, _repair(one))
    table.print()
    if details:
        _behind(found.findings[:most])
    if len(found.findings) > most:
        where = "`--json`" if details else "--details"
        emit(f"and {len(found.findings) - most} more: {where} has all")
    if details:
        emit("")


def _repair(one: AuditFinding) -> str:
    """What to do, with the short names of both ends."""
    from railyard.measure.result.answers import short_name

    verb = "connect it to" if one.kind == "missing" else "to"
    far = "" if one.b == "?" or one.b in one.detail else f"{verb} {short_name(one.b)}: "
    return f"{far}{short_name(one.detail)}"


def _behind(findings: Sequence[AuditFinding]) -> None:
    """Error bands of prices and how they were computed, or why there are none; repeated facts appear once."""
    words: dict[str, list[int]] = {}
    for number, one in enumerate(findings, 1):
        if one.unpriced:
            words.setdefault(f"no price: {one.unpriced}", []).append(number)
        elif one.priced_by:
            band = "" if one.band is None else f"{one.band[0]:.2%} to {one.band[1]:.2%}, by "
            words.setdefault(f"{band}{one.priced_by}", []).append(number)
    for text, rows in words.items():
        emit(f"  {', '.join(map(str, rows))}: {text}")
