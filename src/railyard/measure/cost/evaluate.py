"""From a measured step and a bill of materials to power, capital and cost per million tokens, with all sources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.measure.cost import power as power_model
from railyard.measure.cost.capital import Capex, capex
from railyard.measure.cost.cost import CostModel, Cpmt, cost_of, cpmt, hourly_inputs
from railyard.measure.cost.power import Power, power
from railyard.measure.cost.ranges import End, Source, at, band_of, by_end, named_band, of_entry
from railyard.measure.result.money import RentalFigures, SwingRow, TrainingCost

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from railyard.catalog import Accelerator, Range
    from railyard.measure.cost.assumptions import Assumptions
    from railyard.measure.cost.capital import Part
    from railyard.measure.cost.cost import JobFacts
    from railyard.measure.cost.power import StepShares
    from railyard.measure.job import JobTime


def _dollars(value: float) -> str:
    for scale, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= scale:
            return f"${value / scale:.3g}{letter}"
    return f"${value:.3g}"


def _percent(value: float) -> str:
    return f"{100 * value:.3g} %"


def _watts(value: float) -> str:
    for scale, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= scale:
            return f"{value / scale:.3g} {letter}W"
    return f"{value:.3g} W"


SHOWN: dict[str, tuple[str, Callable[[float], str]]] = {
    "accelerators_usd": ("price of accelerators", _dollars),
    "servers_usd": ("price of servers", _dollars),
    "network_usd": ("price of network", _dollars),
    "storage_usd": ("price of storage", _dollars),
    "installation": ("installation", _percent),
    "cost_of_capital": ("cost of capital per year", _percent),
    "life_years": ("economic life", lambda value: f"{value:g} years"),
    "operations": ("operations per year", _percent),
    "it_w": ("power drawn", _watts),
    "pue": ("PUE", lambda value: f"{value:g}"),
    "electricity_usd_per_kwh": ("electricity", lambda value: f"${value:g}/kWh"),
    "provisioned_w": ("power provisioned", _watts),
    "space_usd_per_kw_month": ("space", lambda value: f"${value:g}/kW-month"),
    "mtbf_h": ("hours between failures of one accelerator", lambda value: f"{value:.0f} h"),
    "restart_s": ("restart", lambda value: f"{value / 60:.3g} min"),
}
"""How an input is named and written for people."""


def sensitivity(model: CostModel) -> list[SwingRow]:
    """Every assumption that has a width, the one that matters most first.

    Raises:
        InputError: With some value the job would never end.
    """
    typical = model.values("typical")
    swings = []
    for name, band in model.inputs.items():
        if band.low == band.high:
            continue
        words, show = SHOWN[name]
        low, high = (model.cpmt({**typical, name: value}) for value in (band.low, band.high))
        swings.append(
            SwingRow(
                parameter=words,
                low_value=show(band.low),
                high_value=show(band.high),
                cpmt_low=low,
                cpmt_high=high,
            )
        )
    return sorted(swings, key=lambda swing: (-swing.width, swing.parameter))


@dataclass(frozen=True)
class Rental:
    """What the same accelerators cost when they are rented.

    Attributes:
        usd_per_gpu_h: Price of one accelerator.
        cpmt: USD per million goodput tokens.
    """

    usd_per_gpu_h: Range
    cpmt: Range

    def section(self) -> RentalFigures:
        """As a result holds it."""
        return RentalFigures(usd_per_gpu_h=band_of(self.usd_per_gpu_h), cpmt=band_of(self.cpmt))


@dataclass(frozen=True)
class Economics:
    """What a job costs on a cluster.

    Attributes:
        power: By component.
        capex: By component.
        cpmt: Cost per million tokens when the cluster is owned.
        sensitivity: Which assumption matters most.
        rental: On demand.
        contract: Rented for three years, where the catalogue knows a price.
        jct: The job at typical reliability.
        joules_per_token: Metered energy with cooling, per goodput token.
        tokens_per_s_per_mw: Goodput tokens per second and megawatt drawn, typical.
        sources: Of every price, power and assumption.
    """

    power: Power
    capex: Capex
    cpmt: Cpmt
    sensitivity: tuple[SwingRow, ...]
    rental: Rental
    contract: Rental | None
    jct: JobTime
    joules_per_token: Range
    tokens_per_s_per_mw: float
    sources: tuple[Source, ...]

    def section(self) -> TrainingCost:
        """The result's `cpmt`, with sensitivity and the rented cluster beside it."""
        total = self.cpmt.total
        return TrainingCost(
            low=total.low,
            typical=total.typical,
            high=total.high,
            breakdown=tuple(named_band(name, band) for name, band in self.cpmt.parts),
            usd_per_gpu_h=band_of(self.cpmt.usd_per_gpu_h),
            sensitivity=self.sensitivity,
            rental=self.rental.section(),
            contract=None if self.contract is None else self.contract.section(),
            joules_per_token=band_of(self.joules_per_token),
            tokens_per_s_per_mw=self.tokens_per_s_per_mw,
        )


def cost_model(
    *,
    decomposition: StepShares,
    accelerator: Accelerator,
    parts: Sequence[Part],
    job: JobFacts,
    assumptions: Assumptions,
) -> tuple[Capex, Power, CostModel]:
    """Capital, power, and everything that a cost depends on; arguments as of `evaluate`."""
    bought = capex(parts, assumptions.installation, job.accelerators)
    drawn = power(decomposition, accelerator, parts, assumptions.pue)
    inputs = hourly_inputs(bought, drawn, assumptions)
    inputs |= {"mtbf_h": assumptions.mtbf_h, "restart_s": assumptions.restart_s}
    return bought, drawn, CostModel(inputs, job)


def evaluate(
    *,
    decomposition: StepShares,
    accelerator: Accelerator,
    parts: Sequence[Part],
    job: JobFacts,
    assumptions: Assumptions,
    sources: Sequence[Source] = (),
) -> Economics:
    """What a job costs on a cluster.

    Args:
        decomposition: How its step is spent.
        accelerator: On what.
        parts: The bill of materials.
        job: Budget and step.
        assumptions: The world around.
        sources: Of the parts' prices and powers; those of accelerator, assumptions and power model are added here.

    Raises:
        InputError: The job would never end, or the bill holds an unknown kind.
    """
    bought, drawn, model = cost_model(
        decomposition=decomposition, accelerator=accelerator, parts=parts, job=job, assumptions=assumptions
    )
    accelerator_rows = of_entry(
        accelerator, "price_usd", "tdp_w", "idle_power_w", "rental_usd_per_h", "contract_usd_per_h"
    )
    typical = model.values("typical")
    return Economics(
        power=drawn,
        capex=bought,
        cpmt=cost_of(model),
        sensitivity=tuple(sensitivity(model)),
        rental=_rented(accelerator.rental_usd_per_h, model),
        contract=None if accelerator.contract_usd_per_h is None else _rented(accelerator.contract_usd_per_h, model),
        jct=job.time(mtbf_h=typical["mtbf_h"], restart_s=typical["restart_s"]),
        joules_per_token=by_end(lambda end: at(drawn.total_w, end) / _tokens_per_s(model, end)),
        tokens_per_s_per_mw=_tokens_per_s(model, "typical") / drawn.total_w.typical * 1e6,
        sources=tuple(_unique([*accelerator_rows, *sources, *assumptions.sources, *power_model.SOURCES])),
    )


def _tokens_per_s(model: CostModel, end: End) -> float:
    return model.tokens_per_h(model.values(end)) / 3600


def _rented(usd_per_gpu_h: Range, model: CostModel) -> Rental:
    hourly = usd_per_gpu_h.scaled(model.job.accelerators)
    return Rental(usd_per_gpu_h, by_end(lambda end: cpmt(at(hourly, end), model.tokens_per_h(model.values(end)))))


def _unique(rows: Sequence[Source]) -> list[Source]:
    return list(dict.fromkeys(rows))
