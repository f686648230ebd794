"""Everything that a plan is written as, in one folder."""

from __future__ import annotations

import io
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.deploy.cabling import drawn, is_infiniband
from railyard.ask.deploy.emit import configurations, labs, netbox, tables
from railyard.ask.deploy.emit.collectives import NOTHING, CollectivesIntent
from railyard.ask.deploy.emit.elevation import elevation, hall
from railyard.ask.deploy.emit.infragraph import infragraph
from railyard.ask.deploy.emit.labs import dot, netlist
from railyard.ask.deploy.emit.provision import files as provisioning
from railyard.ask.deploy.files import replaced
from railyard.cluster.asbuilt.discovery import dialect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import polars as pl

    from railyard.ask.deploy.cabling import Plan
    from railyard.ask.deploy.emit.provision.files import Provision

ELEVATION = 120
"""Racks on the page and in the drawing."""


def write(
    plan: Plan,
    out: Path,
    ethernet: str,
    title: str,
    progress: Callable[[str, float], None],
    *,
    provision: Provision | None = None,
    collectives: CollectivesIntent = NOTHING,
) -> list[str]:
    """Writes a plan.

    Args:
        plan: What is built.
        out: The folder; what is there is replaced.
        ethernet: Dialect of the Ethernet switches.
        title: For the page.
        progress: Told of each file.
        provision: How devices are given addresses and files at their first boot; None leaves that out.
        collectives: What the scenario fixes about them, for the libraries of servers.

    Returns:
        Names of the files, folders once.

    Raises:
        InputError: It cannot be written; what was there is there still.
    """
    return replaced(out, "cables.csv", _files(plan, ethernet, title, provision, collectives), progress)


def _files(
    plan: Plan, ethernet: str, title: str, provision: Provision | None, collectives: CollectivesIntent
) -> Iterator[tuple[str, str | bytes]]:
    names = dialect(ethernet)
    for name, frame in (
        ("cables.csv", tables.cables(plan, names)),
        ("devices.csv", tables.devices(plan)),
        ("racks.csv", tables.racks(plan)),
        ("addresses.csv", tables.addresses(plan)),
        ("bill.csv", tables.bill(plan)),
        *((f"netbox/{name}", frame) for name, frame in netbox.files(plan, names)),
    ):
        yield name, _csv(frame)
    for name, table in (("trunks.csv", tables.trunk_table(plan)), ("panels.csv", tables.panel_table(plan, names))):
        if table is not None:
            yield name, _csv(table)
    yield "racks.svg", elevation(plan, ELEVATION)
    yield "hall.svg", hall(plan)
    for number, network in enumerate(plan.networks):
        infiniband = is_infiniband(plan, number)
        found = drawn(plan, number, dialect("infiniband") if infiniband else names)
        if infiniband:
            yield f"{network}.ibnetdiscover", netlist(found)
        else:
            yield f"{network}.dot", dot(found)
    yield from labs.files(plan)
    yield "infragraph.json", infragraph(plan, title)
    small = labs.lab(plan, "railyard") if ethernet == "frr" else None
    if small is not None:
        yield "railyard.clab.yml", small
    yield from configurations.files(plan, ethernet, collectives)
    if provision is not None:
        yield from provisioning.files(plan, ethernet, provision)
    yield "index.html", page(plan, title, ethernet)


def _csv(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_csv(buffer)
    return buffer.getvalue()


_STYLE = """<style>body{font:14px sans-serif;margin:2em;max-width:100em}table{border-collapse:collapse}
td,th{padding:2px 10px 2px 0;text-align:left;border-bottom:1px solid #ddd}
.racks{overflow:auto;max-height:90vh}</style>"""


def page(plan: Plan, title: str, ethernet: str) -> str:
    """What is built, what does not fit, the bill, the hall, the racks, the first cables to pull."""
    frame = tables.bill(plan)
    rows = "".join(_row(list(map(_cell, row))) for row in frame.rows())
    first = tables.cables(plan, dialect(ethernet)).head(50) if len(plan.cables) <= 20_000 else None
    pulls = "" if first is None else _table(first.columns, [list(map(_cell, row)) for row in first.rows()])
    remarks = "".join(f"<li>{escape(words)}</li>" for words in plan.remarks)
    kilometres = float(np.sum(plan.cables.length_m)) / 1e3
    longer = float(plan.beyond_copper.mean()) if len(plan.cables) else 0.0
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{escape(title)}: plan</title>
{_STYLE}
<h1>{escape(title)}</h1>
<p>{len(plan.devices):,} devices in {len(plan.racks):,} racks, {len(plan.cables):,} links,
{kilometres:,.1f} km of cable, of which {longer:.0%} are longer than copper,
{plan.racks.power_w.sum() / 1e6:,.2f} MW at most.</p>
<ul>{remarks}</ul>
<h2>Bill of materials</h2>{_head(frame.columns)}{rows}</table>
<h2>Hall</h2><div class="racks">{hall(plan)}</div>
<h2>Racks</h2><div class="racks">{elevation(plan, ELEVATION)}</div>
<h2>First cables to pull</h2>{pulls or "<p>cables.csv has all, in order.</p>"}
</html>
"""


def _head(columns: list[str]) -> str:
    return "<table><tr>" + "".join(f"<th>{escape(column)}</th>" for column in columns) + "</tr>"


def _table(columns: list[str], rows: list[list[str]]) -> str:
    return _head(columns) + "".join(_row(row) for row in rows) + "</table>"


def _row(cells: list[str]) -> str:
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:,.10g}" if isinstance(value, float) else escape(str(value))
