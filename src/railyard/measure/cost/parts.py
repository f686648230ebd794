"""The bill of materials as components of cost and power: what the report lists line by line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError
from railyard.measure.cost.ranges import total

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from railyard.catalog import Range
    from railyard.cluster.bill import BillRow

ACCELERATORS, SERVERS, NICS, SWITCHES, OPTICS, LINES, STORAGE, MANAGEMENT = (
    "accelerators",
    "servers",
    "NICs",
    "switches",
    "optics and cables",
    "lines between sites",
    "storage",
    "management and racks",
)
COMPONENTS = (ACCELERATORS, SERVERS, NICS, SWITCHES, OPTICS, LINES, STORAGE, MANAGEMENT)
NETWORK_COMPONENTS = (NICS, SWITCHES, OPTICS, LINES)

COMPONENT_OF_KIND = {
    "accelerator": ACCELERATORS,
    "server": SERVERS,
    "nic": NICS,
    "switch": SWITCHES,
    "optic": OPTICS,
    "cable": OPTICS,
    "fibre": OPTICS,
    "trunk": OPTICS,
    "panel": OPTICS,
    "dac": OPTICS,
    "aec": OPTICS,
    "amplifier": LINES,
    "terminal": LINES,
    "route": LINES,
    "storage": STORAGE,
    "memory-pool": STORAGE,
    "management-server": MANAGEMENT,
    "fabric-manager": MANAGEMENT,
    "pdu": MANAGEMENT,
    "rack": MANAGEMENT,
}


@dataclass(frozen=True)
class Part:
    """One line of the bill.

    Attributes:
        component: One of `COMPONENTS`.
        name: Catalogue name.
        count: Pieces.
        price_usd: Of one piece.
        power_w: Drawn by one piece; of an accelerator it is not used (`power.py` knows better).
    """

    component: str
    name: str
    count: float
    price_usd: Range
    power_w: Range


def component_of(kind: str) -> str:
    """The component to which an item kind of the bill belongs.

    Raises:
        InputError: The kind is unknown.
    """
    if kind not in COMPONENT_OF_KIND:
        raise InputError("the bill of materials holds an unknown kind", found=kind, allowed=list(COMPONENT_OF_KIND))
    return COMPONENT_OF_KIND[kind]


def parts_of_rows(rows: Iterable[BillRow]) -> list[Part]:
    """The parts of a cluster's bill.

    Raises:
        InputError: A kind is unknown.
    """
    return [Part(component_of(row.kind), row.name, row.count, row.price_usd, row.power_w) for row in rows]


def price_of(parts: Sequence[Part], component: str) -> Range:
    """Price of a whole component, USD."""
    return total(part.price_usd.scaled(part.count) for part in parts if part.component == component)


def power_of(parts: Sequence[Part], component: str) -> Range:
    """Power drawn by a whole component, W."""
    return total(part.power_w.scaled(part.count) for part in parts if part.component == component)


def count_of(parts: Sequence[Part], component: str) -> float:
    """Pieces of a component."""
    return sum(part.count for part in parts if part.component == component)
