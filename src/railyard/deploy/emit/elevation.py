"""Racks drawn as SVG: what stands in which unit, row by row."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from railyard.deploy.plan.racks import UNITS

if TYPE_CHECKING:
    from railyard.deploy.plan.cabling import Plan

COLOURS = {
    "server": "#4c72b0",
    "storage": "#937860",
    "memory": "#8c8c8c",
    "leaf": "#55a868",
    "spine": "#dd8452",
    "core": "#c44e52",
}
_WIDE, _UNIT, _GAP, _TOP = 86, 9, 14, 30


def elevation(plan: Plan, most: int = 120) -> str:
    """An SVG of the racks, with all of which at most `most` are drawn, switches' racks first among equals in a row.

    Args:
        plan: The plan.
        most: Racks that are drawn.
    """
    racks = plan.racks
    chosen = np.lexsort((racks.column, racks.row))[:most]
    rows = np.unique(racks.row[chosen])
    place = {int(row): at for at, row in enumerate(rows)}
    columns = int(racks.column[chosen].max()) + 1
    tall = UNITS * _UNIT + _TOP + _GAP
    names = racks.names()
    parts = [_rack(plan, int(rack), names[int(rack)], place[int(racks.row[rack])] * tall) for rack in chosen]
    wide = columns * (_WIDE + _GAP) + _GAP
    rest = "" if len(racks) <= most else f'<text x="4" y="12">{most} of {len(racks):,} racks</text>'
    box = f"0 0 {wide} {len(rows) * tall + _GAP}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" font-family="sans-serif"'
    return "\n".join([f'{head} font-size="7" width="{wide}">', rest, *parts, "</svg>", ""])


def _rack(plan: Plan, rack: int, name: str, top: int) -> str:
    x = _GAP + int(plan.racks.column[rack]) * (_WIDE + _GAP)
    floor = top + _TOP + UNITS * _UNIT
    watts = plan.racks.power_w[rack] / 1e3
    parts = [
        f'<text x="{x}" y="{top + _TOP - 6}" font-size="9">{name} <tspan fill="#666">{watts:.1f} kW</tspan></text>',
        f'<rect x="{x}" y="{top + _TOP}" width="{_WIDE}" height="{UNITS * _UNIT}" fill="#f4f4f4" stroke="#999"/>',
    ]
    devices = plan.devices
    for number in np.flatnonzero(plan.racks.rack == rack).tolist():
        height = int(devices.height_u[number]) * _UNIT
        y = floor - (int(plan.racks.unit[number]) - 1) * _UNIT - height
        colour = COLOURS.get(str(devices.role[number]), "#8172b3")
        parts.append(f'<rect x="{x + 2}" y="{y + 0.5}" width="{_WIDE - 4}" height="{height - 1}" fill="{colour}"/>')
        parts.append(
            f'<text x="{x + _WIDE / 2}" y="{y + height / 2 + 2.5}" fill="#fff" text-anchor="middle">'
            f"{escape(devices.name[number])}</text>"
        )
    return "".join(parts)
