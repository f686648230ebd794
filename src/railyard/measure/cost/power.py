"""Power by component, from the time shares of a step.

An accelerator draws, at every moment, idle + (TDP - idle) x a, where a depends on what its compute stream does:

    matrix kernels           near the limit: 0.80, 0.92, 1.00
    memory-bound kernels     (optimizer, data, writes) 0.58, 0.84, 0.98: H100 decoding, 440, 600, 691 of 700 W
    exposed communication    0.15, 0.30, 0.55
    waiting                  (bubble, straggler, data, writes) 0.05, 0.20, 0.45: kernels that poll keep the clocks up

Sources: near the limit while computing and near idle while synchronizing: Choukse et al., arXiv 2508.14318 (production
racks of DGX H100); decoding: ML.ENERGY leaderboard, 838 configurations; the two lower levels are estimates within those
bounds. Host, NICs, switches, optics and storage draw what the catalogue says, busy or not; cooling and losses are (PUE
- 1) times all of it.

The *data movement tax* is the share of NICs, switches, optics and cables in the IT power. Links inside a server or rack
belong to its accelerators and host. Provisioned power is a separate quantity: the nameplates, independent of the actual
power, because space is priced by it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from railyard.catalog import Range
from railyard.measure.cost.assumptions import End, Source, at, band_of, by_end, total
from railyard.measure.cost.capital import (
    ACCELERATORS,
    LINES,
    MANAGEMENT,
    NICS,
    OPTICS,
    SERVERS,
    STORAGE,
    SWITCHES,
    CostPart,
    power_of,
)
from railyard.measure.result.money import DeploymentPower, PowerComponent, StepPower

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.catalog import Accelerator
    from railyard.measure.decompose import TimeRow

MATRIX = Range(0.80, 0.92, 1.00)
MEMORY_BOUND = Range(0.58, 0.84, 0.98)
COMMUNICATION = Range(0.15, 0.30, 0.55)
WAITING = Range(0.05, 0.20, 0.45)

MEMORY_BOUND_PHASES = ("optimizer", "data", "checkpoint")
NETWORK_CAUSES = ("latency", "bandwidth", "contention")

SOURCES = (
    Source(
        "accelerator draw",
        "matrix kernels",
        "0.80, 0.92, 1.00 of idle to TDP",
        "Choukse et al., arXiv 2508.14318; ML.ENERGY leaderboard (H100, dense, large batches: 688 of 700 W)",
        2026,
        "estimated",
    ),
    Source(
        "accelerator draw",
        "memory-bound kernels",
        "0.58, 0.84, 0.98 of idle to TDP",
        "ML.ENERGY leaderboard: H100 while decoding, 440, 600, 691 W",
        2026,
        "measured",
    ),
    Source(
        "accelerator draw",
        "exposed communication",
        "0.15, 0.30, 0.55 of idle to TDP",
        "Railyard's estimate between idle and computing; Choukse et al., arXiv 2508.14318",
        2025,
        "estimated",
    ),
    Source(
        "accelerator draw",
        "waiting",
        "0.05, 0.20, 0.45 of idle to TDP",
        "Railyard's estimate between idle and communicating; Choukse et al., arXiv 2508.14318",
        2025,
        "estimated",
    ),
)


class StepShares(Protocol):
    """Time shares of a step: the part of a decomposition that is needed here."""

    @property
    def rows(self) -> tuple[TimeRow, ...]:
        """Rows by cause, group and phase."""

    @property
    def step_s(self) -> float:
        """Length of the step."""

    @property
    def ranks(self) -> int:
        """Accelerators that take part."""


@dataclass(frozen=True)
class EqualShares:
    """Time shares that are the same on every accelerator."""

    ranks: int
    step_s: float
    rows: tuple[TimeRow, ...]


@dataclass(frozen=True)
class PowerLine:
    """One component of the power."""

    name: str
    power_w: Range


@dataclass(frozen=True)
class Power:
    """Power of the running cluster."""

    lines: tuple[PowerLine, ...]
    provisioned_w: Range
    step_s: float

    @property
    def total_w(self) -> Range:
        """Power with cooling."""
        return total(line.power_w for line in self.lines)

    @property
    def it_w(self) -> Range:
        """Power without cooling."""
        return total(line.power_w for line in self.lines if line.name != "cooling")

    @property
    def energy_per_step_j(self) -> float:
        """Typical, with cooling."""
        return self.total_w.typical * self.step_s

    @property
    def data_movement_share(self) -> float:
        """Typical share of NICs, switches, optics and cables in the IT power."""
        moved = sum(line.power_w.typical for line in self.lines if line.name in ("nic", "switch", "optics"))
        return moved / self.it_w.typical if self.it_w.typical > 0 else 0.0

    def section(self) -> StepPower:
        """The result's `power` of a step."""
        return StepPower(energy_per_step_j=self.energy_per_step_j, **self._figures())

    def deployment_section(self) -> DeploymentPower:
        """The result's `power` of a service: metered and provisioned power."""
        return DeploymentPower(**self._figures())

    def _figures(self) -> dict[str, Any]:
        return {
            "components": tuple(
                PowerComponent(
                    name=line.name,
                    low_w=line.power_w.low,
                    typical_w=line.power_w.typical,
                    high_w=line.power_w.high,
                )
                for line in self.lines
            ),
            "total_w": band_of(self.total_w),
            "it_w": band_of(self.it_w),
            "provisioned_w": band_of(self.provisioned_w),
            "data_movement_share": self.data_movement_share,
        }


def activity(row: TimeRow) -> Range:
    """Power of an accelerator above idle during one line of the decomposition, as a share of TDP minus idle."""
    if row.cause == "compute":
        return MEMORY_BOUND if row.phase in MEMORY_BOUND_PHASES else MATRIX
    return COMMUNICATION if row.cause in NETWORK_CAUSES else WAITING


def accelerator_w(decomposition: StepShares, accelerator: Accelerator) -> Range:
    """Power of one accelerator, averaged over ranks and step, W."""
    idle = accelerator.idle_power_w

    def drawn(end: End) -> float:
        busy = math.fsum(row.share * at(activity(row), end) for row in decomposition.rows)
        low = at(idle, end)
        return low + (accelerator.tdp_w - low) * busy

    return by_end(drawn)


def power(decomposition: StepShares, accelerator: Accelerator, parts: Sequence[CostPart], pue: Range) -> Power:
    """Power of the cluster while it runs the step.

    Args:
        decomposition: Time shares of the step.
        accelerator: What it runs on.
        parts: The bill of materials; accelerators beyond the ranks of the job are powered but idle.
        pue: Facility power over IT power.
    """
    ranks = decomposition.ranks
    unused = max(0.0, sum(part.count for part in parts if part.component == ACCELERATORS) - ranks)
    busy = accelerator_w(decomposition, accelerator)
    drawn = total([busy.scaled(ranks), accelerator.idle_power_w.scaled(unused)])
    return power_with(drawn, accelerator.tdp_w * (ranks + unused), parts, pue, decomposition.step_s)


def power_with(drawn_w: Range, nameplate_w: float, parts: Sequence[CostPart], pue: Range, span_s: float) -> Power:
    """Power of accelerators that draw this much, with everything around them.

    Args:
        drawn_w: Of all accelerators.
        nameplate_w: Of the same.
        parts: The bill of materials.
        pue: Facility power over IT power.
        span_s: Length of the step, or of the run.
    """
    lines = [
        PowerLine("accelerator", drawn_w),
        PowerLine("host", power_of(parts, SERVERS) + power_of(parts, MANAGEMENT)),
        PowerLine("nic", power_of(parts, NICS)),
        PowerLine("switch", power_of(parts, SWITCHES)),
        PowerLine("optics", power_of(parts, OPTICS) + power_of(parts, LINES)),
        PowerLine("storage", power_of(parts, STORAGE)),
    ]
    it = total(line.power_w for line in lines)
    rest = total(line.power_w for line in lines[1:])
    lines.append(PowerLine("cooling", by_end(lambda end: at(it, end) * (at(pue, end) - 1))))
    provisioned = Range(nameplate_w + rest.typical, nameplate_w + rest.high, nameplate_w + rest.high)
    return Power(tuple(lines), provisioned, span_s)
