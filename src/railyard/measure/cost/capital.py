"""Capital: cost of the hardware, and its hourly equivalent.

    capex        = sum of parts + installation share of it
    CRF(r, n)    = r / (1 - (1 + r)^-n), what n equal yearly payments at interest r cost, each, for a loan of 1
    USD per hour = capex x CRF / 8760

The capital recovery factor is the annuity formula of any text on engineering economics; CRF(10 %, 4 years) = 0.3155.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from railyard.kit.errors import InputError
from railyard.measure.cost.assumptions import at, band_of, by_end, total
from railyard.measure.result.money import CapexComponent, CapexFigures

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

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
    "scale-up": SERVERS,
    "nic": NICS,
    "switch": SWITCHES,
    "optical-switch": SWITCHES,
    "optic": OPTICS,
    "laser": OPTICS,
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
class CostPart:
    """One line of the bill.

    Attributes:
        power_w: Power of one piece; not used for accelerators (`power.py` has a better model).
    """

    component: str
    name: str
    count: float
    price_usd: Range
    power_w: Range


def component_of(kind: str) -> str:
    """The component of an item kind of the bill.

    Raises:
        InputError: The kind is unknown.
    """
    if kind not in COMPONENT_OF_KIND:
        raise InputError("the bill of materials holds an unknown kind", found=kind, allowed=list(COMPONENT_OF_KIND))
    return COMPONENT_OF_KIND[kind]


def parts_of_rows(rows: Iterable[BillRow]) -> list[CostPart]:
    """The parts of a cluster's bill.

    Raises:
        InputError: A kind is unknown.
    """
    return [CostPart(component_of(row.kind), row.name, row.count, row.price_usd, row.power_w) for row in rows]


def price_of(parts: Sequence[CostPart], component: str) -> Range:
    """Price of a whole component, USD."""
    return total(part.price_usd.scaled(part.count) for part in parts if part.component == component)


def power_of(parts: Sequence[CostPart], component: str) -> Range:
    """Power drawn by a whole component, W."""
    return total(part.power_w.scaled(part.count) for part in parts if part.component == component)


def count_of(parts: Sequence[CostPart], component: str) -> float:
    """Pieces of a component."""
    return sum(part.count for part in parts if part.component == component)


@overload
def capital_recovery_factor(interest: float, years: float) -> float: ...
@overload
def capital_recovery_factor(interest: NDArray[np.float64], years: NDArray[np.float64]) -> NDArray[np.float64]: ...
def capital_recovery_factor(interest: Any, years: Any) -> Any:
    """Yearly payment for one dollar of capital.

    Args:
        interest: Per year, a share, 0 or more; a number, or float64[n].
        years: More than 0, of the same shape.
    """
    if isinstance(interest, np.ndarray):
        pairs = zip(interest.tolist(), years.tolist(), strict=True)
        return np.array([capital_recovery_factor(*pair) for pair in pairs])
    if interest * years < sys.float_info.epsilon:
        return 1 / years  # equal to the last digit; the quotient would be of denormals or zeros
    return interest / -math.expm1(-years * math.log1p(interest))


@dataclass(frozen=True)
class CapexLine:
    """One component of the capital."""

    name: str
    price_usd: Range
    count: float


@dataclass(frozen=True)
class Capex:
    """Cost of buying and installing the cluster.

    Attributes:
        accelerators: Divisor for the price per accelerator.
    """

    lines: tuple[CapexLine, ...]
    accelerators: int

    @property
    def total_usd(self) -> Range:
        """Price of the whole cluster, USD."""
        return total(line.price_usd for line in self.lines)

    @property
    def per_accelerator_usd(self) -> Range:
        """Price of the whole cluster per accelerator, USD."""
        return self.total_usd.scaled(1 / self.accelerators)

    def line(self, name: str) -> Range:
        """Price of one component; zero if the cluster has none."""
        return total(line.price_usd for line in self.lines if line.name == name)

    def section(self, fitting_nics_usd: float | None = None) -> CapexFigures:
        """The result's `capex`.

        Args:
            fitting_nics_usd: What NICs that suit the fabric would cost more, USD; None: these do.
        """
        fitting = {} if fitting_nics_usd is None else {"fitting_nics_usd": fitting_nics_usd}
        rows = (
            CapexComponent(
                name=line.name,
                low_usd=line.price_usd.low,
                typical_usd=line.price_usd.typical,
                high_usd=line.price_usd.high,
                count=line.count,
            )
            for line in self.lines
        )
        return CapexFigures(
            components=tuple(rows),
            total_usd=band_of(self.total_usd),
            per_gpu_usd=band_of(self.per_accelerator_usd),
            **fitting,
        )


def capex(parts: Sequence[CostPart], installation: Range, accelerators: int) -> Capex:
    """Cost of buying and installing the cluster.

    Args:
        parts: The bill of materials.
        installation: Share of the hardware's price.
        accelerators: At least 1.
    """
    lines = [CapexLine(name, price_of(parts, name), count_of(parts, name)) for name in COMPONENTS]
    lines = [line for line in lines if line.count]
    hardware = total(line.price_usd for line in lines)
    installed = by_end(lambda end: at(hardware, end) * at(installation, end))
    return Capex((*lines, CapexLine("installation", installed, 1)), accelerators)
