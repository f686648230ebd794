"""Everything that a plan is written as, in one folder."""

from __future__ import annotations

import io
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.deploy.cabling import drawn, is_infiniband
from railyard.ask.deploy.emit import configurations, labs, netbox, tables
from railyard.ask.deploy.emit import provision as provisioning
from railyard.ask.deploy.emit.collectives import NOTHING, CollectivesIntent
from railyard.ask.deploy.emit.labs import dot, infragraph, netlist
from railyard.ask.deploy.emit.tables import panel_names
from railyard.ask.deploy.files import replaced
from railyard.cluster.network_table import dialect
from railyard.measure import numbers
from railyard.measure.result.section import KeyFigure
from railyard.work.study import page as pages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import polars as pl

    from railyard.ask.deploy.cabling import CablingPlan
    from railyard.ask.deploy.emit.provision import Provision


COLOURS = {
    "server": "#4c72b0",
    "storage": "#937860",
    "memory": "#8c8c8c",
    "leaf": "#55a868",
    "spine": "#dd8452",
    "core": "#c44e52",
    "panel": "#55595f",
}
OTHER = "#8172b3"
"""Colour of roles without one of their own."""

_WIDE, _UNIT, _GAP, _TOP = 86, 9, 14, 30


def elevation(plan: CablingPlan, most: int = 120) -> str:
    """An SVG of the racks, front view.

    Args:
        plan: The plan.
        most: Racks that are drawn: whole rows from the first on, one at least.
    """
    floor, tall = plan.racks.floor, plan.racks.spec.rack_units
    order = np.lexsort((floor.column, floor.row))
    ends = np.flatnonzero(np.diff(floor.row[order], append=-1)) + 1
    chosen = order[: max(int(ends[np.searchsorted(ends, most, side="right") - 1]) if most >= ends[0] else most, 1)]
    high = tall * _UNIT + _TOP + _GAP
    first = int(floor.row[chosen].min())
    names = plan.racks.names()
    devices: dict[int, list[int]] = {}
    for number, rack in enumerate(plan.racks.rack.tolist()):
        devices.setdefault(rack, []).append(number)
    panels = _panels(plan)
    parts = []
    for rack in chosen.tolist():
        top = (int(floor.row[rack]) - first) * high
        parts.append(_rack(plan, (rack, names[rack]), top, devices.get(rack, []), panels.get(rack, [])))
    wide = (int(floor.column[chosen].max()) + 1) * (_WIDE + _GAP) + _GAP
    rows = int(floor.row[chosen].max()) - first + 1
    words = "" if len(chosen) == len(plan.racks) else f"{len(chosen)} of {len(plan.racks):,} racks"
    rest = f'<text x="4" y="12" {_look(9)}>{words}</text>' if words else ""
    return _svg(wide, rows * high + _GAP, [rest, *parts])


def _look(size: int, fill: str = "#333") -> str:
    """Size and colour of a text, also where the style of a page has others."""
    return f'style="font-size:{size}px;fill:{fill}"'


def _svg(wide: float, high: float, parts: list[str]) -> str:
    box = f'viewBox="0 0 {wide:g} {high:g}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {box} font-family="sans-serif" width="{wide:g}">'
    return "\n".join([head, *parts, "</svg>", ""])


def _rack(
    plan: CablingPlan, which: tuple[int, str], top: int, devices: list[int], panels: list[tuple[int, str]]
) -> str:
    rack, name = which
    x = _GAP + int(plan.racks.floor.column[rack]) * (_WIDE + _GAP)
    tall = plan.racks.spec.rack_units * _UNIT
    watts = plan.racks.power_w[rack] / 1e3
    parts = [
        f'<text x="{x}" y="{top + _TOP - 6}" {_look(9)}>{name} <tspan fill="#666">{watts:.1f} kW</tspan></text>',
        f'<rect x="{x}" y="{top + _TOP}" width="{_WIDE}" height="{tall}" fill="#f4f4f4" stroke="#999"/>',
    ]
    for number in devices:
        place = int(plan.racks.unit[number]), int(plan.devices.height_u[number])
        parts.append(_box(plan, place, (x, top), str(plan.devices.role[number]), plan.devices.name[number]))
    parts += [_box(plan, (unit, 1), (x, top), "panel", words) for unit, words in panels]
    return "".join(parts)


def _box(plan: CablingPlan, place: tuple[int, int], corner: tuple[int, int], role: str, name: str) -> str:
    """A device or panel in some units of a rack (the lowest, and how many), with its name."""
    (unit, height_u), (x, top) = place, corner
    middle = x + _WIDE / 2
    y = top + _TOP + (plan.racks.spec.rack_units - unit + 1 - height_u) * _UNIT
    high = height_u * _UNIT
    return (
        f'<rect x="{x + 2}" y="{y + 0.5}" width="{_WIDE - 4}" height="{high - 1}" fill="{COLOURS.get(role, OTHER)}"/>'
        f'<text x="{middle}" y="{y + high / 2 + 2.5}" {_look(7, "#fff")} text-anchor="middle">{escape(name)}</text>'
    )


def _panels(plan: CablingPlan) -> dict[int, list[tuple[int, str]]]:
    out: dict[int, list[tuple[int, str]]] = {}
    one = plan.racks.patching
    if one is not None:
        columns = one.panel_rack.tolist(), one.panel_unit.tolist(), panel_names(plan)
        for rack, unit, name in zip(*columns, strict=True):
            out.setdefault(rack, []).append((unit, name))
    return out


_PIXELS, _MOST, _MARGIN, _NAMED = 70.0, 1500.0, 28.0, 26.0
"""Most pixels of a metre, width of the drawing, margins, and width of a rack that shows its name."""


def hall(plan: CablingPlan) -> str:
    """An SVG of the floor from above, to scale: racks by what is in them, zones of power and cooling by shade."""
    floor, spec = plan.racks.floor, plan.racks.spec
    scale = min(_PIXELS, _MOST / (float(max(np.ptp(floor.x_m), np.ptp(floor.y_m))) + spec.rack_depth_m))
    left, front = float(floor.x_m.min()) - spec.rack_width_m / 2, float(floor.y_m.min()) - spec.rack_depth_m / 2

    def box(x: float, y: float, wide: float, deep: float, look: str) -> str:
        place = f'x="{(x - left) * scale + _MARGIN:.1f}" y="{(y - front) * scale + _MARGIN:.1f}"'
        return f'<rect {place} width="{wide * scale:.1f}" height="{deep * scale:.1f}" {look}/>'

    parts = [box(x, y, wide, deep, f'fill="{("#eef3f8", "#f8f2ea")[number % 2]}"') for number, x, y, wide, deep in
             _zones(plan)]  # fmt: skip
    role, names = _highest(plan), plan.racks.names()
    for rack, (x, y) in enumerate(zip(floor.x_m.tolist(), floor.y_m.tolist(), strict=True)):
        look = f'fill="{COLOURS.get(role[rack], OTHER)}" stroke="#fff" stroke-width="0.4"'
        corner = x - spec.rack_width_m / 2, y - spec.rack_depth_m / 2
        parts.append(box(*corner, spec.rack_width_m, spec.rack_depth_m, look))
        if spec.rack_width_m * scale >= _NAMED:
            place = f'x="{(x - left) * scale + _MARGIN:.1f}" y="{(y - front) * scale + _MARGIN:.1f}"'
            parts.append(f'<text {place} {_look(11, "#fff")} text-anchor="middle">{names[rack]}</text>')
    wide, deep = float(floor.x_m.max()) - left, float(floor.y_m.max()) - front
    wide, deep = wide + spec.rack_width_m / 2, deep + spec.rack_depth_m / 2
    below = deep * scale + 2 * _MARGIN + min(spec.cold_aisle_m, spec.hot_aisle_m) / 2 * scale
    parts += _legend(plan, role, below)
    return _svg(max(wide * scale + 2 * _MARGIN, 640), below + 30, parts)


def _zones(plan: CablingPlan) -> Iterator[tuple[int, float, float, float, float]]:
    """Number, left, front, width and depth of each zone, with half of the aisles around it."""
    floor, spec = plan.racks.floor, plan.racks.spec
    aside = spec.rack_width_m / 2 + spec.cross_aisle_m / 4
    before = spec.rack_depth_m / 2 + min(spec.cold_aisle_m, spec.hot_aisle_m) / 2
    for zone in np.unique(floor.zone).tolist():
        mine = floor.zone == zone
        x, y = floor.x_m[mine], floor.y_m[mine]
        wide, deep = float(np.ptp(x)) + 2 * aside, float(np.ptp(y)) + 2 * before
        yield zone, float(x.min()) - aside, float(y.min()) - before, wide, deep


def _highest(plan: CablingPlan) -> list[str]:
    out = [""] * len(plan.racks)
    order = np.argsort(plan.devices.level, kind="stable")
    for number in order.tolist():
        out[int(plan.racks.rack[number])] = str(plan.devices.role[number])
    return out


def _legend(plan: CablingPlan, role: list[str], y: float) -> list[str]:
    floor, spec = plan.racks.floor, plan.racks.spec
    parts, x = [], _MARGIN
    for name in dict.fromkeys(sorted(role, key=list(COLOURS).index if set(role) <= set(COLOURS) else None)):
        words = f"{name} ({role.count(name):,})"
        parts.append(f'<rect x="{x:g}" y="{y - 8:g}" width="9" height="9" fill="{COLOURS.get(name, OTHER)}"/>')
        parts.append(f'<text x="{x + 13:g}" y="{y:g}" {_look(10)}>{escape(words)}</text>')
        x += 30 + 6 * len(words)
    wide = float(np.ptp(floor.x_m)) + spec.rack_width_m
    deep = float(np.ptp(floor.y_m)) + spec.rack_depth_m
    rows, zones = int(floor.row.max()) + 1, int(floor.zone.max()) + 1
    facing = "; rows A and B face each other" * (rows > 1)
    words = (
        f"{wide:.0f} m x {deep:.0f} m, {rows:,} row{'s' * (rows > 1)} in {floor.banks} bank{'s' * (floor.banks > 1)},"
        f" {zones:,} zone{'s' * (zones > 1)} of power and cooling (shaded){facing}"
    )
    return [*parts, f'<text x="{_MARGIN}" y="{y + 16:g}" {_look(10)}>{words}</text>']


ELEVATION, _PULLED = 120, 50
"""Racks on the page and in the drawing, and cables on the page."""


def write(
    plan: CablingPlan,
    out: Path,
    ethernet: str,
    title: str,
    progress: Callable[[str, float], None],
    *,
    provision: Provision | None = None,
    collectives: CollectivesIntent = NOTHING,
    installation_usd: float = 0.0,
    verdict: str = "",
) -> list[str]:
    """Writes a plan.

    Args:
        plan: What is built.
        out: The folder; what is there is replaced.
        ethernet: Dialect of the Ethernet switches.
        title: For the page.
        progress: Called for each file.
        provision: How devices are given addresses and files at their first boot; None leaves that out.
        collectives: What the scenario fixes about them, for the libraries of servers.
        installation_usd: Cost of the installation, which the bill adds to the parts.
        verdict: The plan in one sentence, for its page.

    Returns:
        Names of the files, folders once.

    Raises:
        InputError: It cannot be written; what was there is there still.
    """
    files = _files(plan, ethernet, title, provision, collectives, installation_usd=installation_usd, verdict=verdict)
    return replaced(out, "cables.csv", files, progress)


def _files(
    plan: CablingPlan,
    ethernet: str,
    title: str,
    provision: Provision | None,
    collectives: CollectivesIntent,
    *,
    installation_usd: float,
    verdict: str,
) -> Iterator[tuple[str, str | bytes]]:
    names = dialect(ethernet)
    for name, frame in (
        ("cables.csv", tables.cables(plan, names)),
        ("devices.csv", tables.devices(plan)),
        ("racks.csv", tables.racks(plan)),
        ("addresses.csv", tables.addresses(plan)),
        ("bill.csv", tables.bill(plan, installation_usd)),
        *((f"netbox/{name}", frame) for name, frame in netbox.files(plan, names)),
    ):
        yield name, _csv(frame)
    for name, table in (("trunks.csv", tables.trunk_table(plan)), ("panels.csv", tables.panel_table(plan, names))):
        if table is not None:
            yield name, _csv(table)
    yield "racks.svg", elevation(plan, ELEVATION)
    yield "hall.svg", hall(plan)
    for number, network in enumerate(plan.networks):
        found = drawn(plan, number, names)
        if is_infiniband(plan, number):
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
    yield "index.html", page(plan, title, ethernet, installation_usd, verdict)


def _csv(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_csv(buffer)
    return buffer.getvalue()


def page(plan: CablingPlan, title: str, ethernet: str, installation_usd: float = 0.0, verdict: str = "") -> str:
    """What is built, what does not fit, the bill, the floor, the racks, the first cables to pull."""
    frame = tables.bill(plan, installation_usd)
    first = tables.cables(plan, dialect(ethernet)).head(_PULLED) if len(plan.cables) <= 20_000 else None
    kilometres = float(np.sum(plan.length_m)) / 1e3
    longer = float(plan.beyond_copper.mean()) if len(plan.cables) else 0.0
    outside = (f"{what} outside them {numbers.power(watts.high)}" for what, watts in plan.outside_w.items())
    figures = (
        KeyFigure("Bill of materials", numbers.dollars(float(frame["total_usd"].sum())), "with installation"),
        KeyFigure("Racks", f"{len(plan.racks):,}", f"{len(plan.devices):,} devices"),
        KeyFigure("Links", f"{len(plan.cables):,}", f"{kilometres:,.1f} km of cable, {longer:.0%} beyond copper"),
        KeyFigure(
            "Power", numbers.power(float(plan.racks.power_w.sum())), ", ".join(["of the racks at most", *outside])
        ),
    )
    remarks = "".join(f"<li>{escape(words)}</li>" for words in plan.remarks)
    pulls = "<p>cables.csv has all, in order.</p>" if first is None else _pulls(first)
    parts = [
        pages.folding("Floor plan", f'<div class="scroll">{hall(plan)}</div>'),
        *([pages.folding("What does not fit", f"<ul>{remarks}</ul>")] if remarks else []),
        pages.folding("Bill of materials", _bill(frame)),
        pages.folding("Racks", f'<div class="scroll">{elevation(plan, ELEVATION)}</div>', folded=True),
        pages.folding("First cables to pull", pulls, folded=True),
    ]
    return pages.document(f"{title}: plan", verdict, figures, parts)


def _bill(frame: pl.DataFrame) -> str:
    """The bill with its sum, in dollars."""
    heads = ("kind", "item", "pieces", "network", "tier", "price, $", "total, $")
    rows = [
        (kind, item, f"{count:,}", network, tier, f"{price:,.0f}", f"{total:,.0f}")
        for kind, item, count, network, tier, price, total in frame.rows()
    ]
    rows.append(("total", "", "", "", "", "", f"{frame['total_usd'].sum():,.0f}"))
    return pages.html_table(heads, rows, (2, 5, 6))


def _pulls(frame: pl.DataFrame) -> str:
    """Cables with what is read at each end; cables.csv has all columns."""
    heads = ("pull", "label", "from", "rack, unit", "to", "rack, unit", "length, m", "medium")
    rows = []
    for row in frame.iter_rows(named=True):
        ends = [
            (f"{row[f'{at}_device']} {row[f'{at}_port']}", f"{row[f'{at}_rack']}, {row[f'{at}_unit']}") for at in "ab"
        ]
        rows.append((row["pull"], row["label"], *ends[0], *ends[1], row["length_m"], row["medium"]))
    return pages.html_table(heads, rows, (0, 6))
