"""A plan for PTM (the prescriptive topology manager of Cumulus): a graph whose edges are cables between named ports."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from railyard.cluster.asbuilt.discovery import Discovery


def dot(found: Discovery) -> str:
    """The graph; names hold no quotation marks, since plans make them of letters, digits and hyphens."""
    name = [device.name for device in found.devices]
    lines = [f'  "{name[c.a]}":"{c.a_port}" -- "{name[c.b]}":"{c.b_port}";' for c in found.cables]
    return "\n".join(["graph railyard {", *lines, "}", ""])
