"""Dollars an hour of a cluster, for work that makes no tokens: capital, metered energy, space, operations.

The same hour as in the cost per million tokens (`cost.py`), without what that divides it by.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.catalog import Range
from railyard.measure.cost import power as power_model
from railyard.measure.cost.capital import Capex, capex
from railyard.measure.cost.cost import BREAKDOWN, input_end, usd_per_h
from railyard.measure.cost.inputs import hourly_inputs
from railyard.measure.cost.power import Power, power
from railyard.measure.cost.ranges import ENDS, at, band_of, by_end, named_band
from railyard.measure.cost.sources import Source, of_entry
from railyard.measure.result.money import HourlyCost

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.catalog import Accelerator
    from railyard.measure.cost.assumptions import Assumptions
    from railyard.measure.cost.parts import Part
    from railyard.measure.cost.power import StepShares


@dataclass(frozen=True)
class Hourly:
    """What a cluster costs an hour while it does some work.

    Attributes:
        power: By component.
        capex: By component.
        parts: Dollars an hour by part of `BREAKDOWN`; at each end they add up to the total.
        total: Dollars an hour.
        run_s: How long the work takes.
        sources: Of every price, power and assumption.
    """

    power: Power
    capex: Capex
    parts: tuple[tuple[str, Range], ...]
    total: Range
    run_s: float
    sources: tuple[Source, ...]

    def section(self) -> HourlyCost:
        """The result's `cost`."""
        return HourlyCost(
            usd_per_h=band_of(self.total),
            usd_per_run=band_of(self.total.scaled(self.run_s / 3600)),
            breakdown=tuple(named_band(name, band) for name, band in self.parts),
        )


def hourly(
    decomposition: StepShares, accelerator: Accelerator, parts: Sequence[Part], assumptions: Assumptions
) -> Hourly:
    """What an hour of a cluster costs.

    Args:
        decomposition: How its time is spent.
        accelerator: On what.
        parts: The bill of materials.
        assumptions: The world around.
    """
    bought = capex(parts, assumptions.installation, decomposition.ranks)
    drawn = power(decomposition, accelerator, parts, assumptions.pue)
    inputs = hourly_inputs(bought, drawn, assumptions)
    cases = {end: usd_per_h({name: at(band, input_end(name, end)) for name, band in inputs.items()}) for end in ENDS}
    rows = tuple((name, Range(*(cases[end][name] for end in ENDS))) for name in BREAKDOWN)
    return Hourly(
        power=drawn,
        capex=bought,
        parts=rows,
        total=by_end(lambda end: sum(cases[end].values())),
        run_s=decomposition.step_s,
        sources=tuple(
            dict.fromkeys(
                [
                    *of_entry(accelerator, "price_usd", "tdp_w", "idle_power_w"),
                    *assumptions.sources,
                    *power_model.SOURCES,
                ]
            )
        ),
    )
