"""Dollars per hour, and dollars per million goodput tokens.

    USD/h = capex x CRF(cost of capital, life) / 8760              capital
          + IT power x PUE x electricity price                     energy, metered
          + provisioned IT power x space price / 730               space, by nameplate
          + capex x operations share / 8760                        operations
    CPMT  = USD/h / goodput tokens per hour x 10^6

Goodput tokens are those of steps that count, over the whole time of the job: restarts, repeated work, checkpoint stalls
and all waiting are in the denominator. Metered energy and provisioned power are separate: the first follows the
simulated utilization, the second the nameplates. Every input is a range; low, typical and high cost take all inputs at
their cheap, middle and expensive values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from railyard.catalog import Range
from railyard.measure.cost import power as power_model
from railyard.measure.cost.assumptions import (
    CHEAP_END,
    ENDS,
    HOURS_PER_MONTH,
    HOURS_PER_YEAR,
    End,
    Source,
    at,
    band_of,
    by_end,
    named_band,
    of_entry,
    total,
)
from railyard.measure.cost.capital import (
    ACCELERATORS,
    MANAGEMENT,
    NETWORK_COMPONENTS,
    SERVERS,
    STORAGE,
    Capex,
    capex,
    capital_recovery_factor,
)
from railyard.measure.cost.power import Power, power
from railyard.measure.job import Checkpointing, JobTime, job_time
from railyard.measure.result.money import HourlyCost

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from railyard.catalog import Accelerator
    from railyard.measure.cost.assumptions import Assumptions
    from railyard.measure.cost.capital import Capex, CostPart
    from railyard.measure.cost.power import Power, StepShares


def hourly_inputs(bought: Capex, drawn: Power, assumptions: Assumptions) -> dict[str, Range]:
    """Inputs of an hourly price: capital by part (USD), power (W), and the environment.

    Management servers, fabric managers, racks and their power count among the servers.
    """
    return {
        "accelerators_usd": bought.line(ACCELERATORS),
        "servers_usd": bought.line(SERVERS) + bought.line(MANAGEMENT),
        "network_usd": total(bought.line(name) for name in NETWORK_COMPONENTS),
        "storage_usd": bought.line(STORAGE),
        "it_w": drawn.it_w,
        "provisioned_w": drawn.provisioned_w,
        "installation": assumptions.installation,
        "cost_of_capital": assumptions.cost_of_capital,
        "life_years": assumptions.life_years,
        "operations": assumptions.operations,
        "pue": assumptions.pue,
        "electricity_usd_per_kwh": assumptions.electricity_usd_per_kwh,
        "space_usd_per_kw_month": assumptions.space_usd_per_kw_month,
    }


N = TypeVar("N", bound=Any)

BREAKDOWN = ("capital", "energy", "space", "operations")


@dataclass(frozen=True)
class JobFacts:
    """The job, without its failure rate.

    Attributes:
        lost_s: Time that given faults take once.
    """

    tokens: float
    tokens_per_step: float
    step_s: float
    accelerators: int
    checkpointing: Checkpointing
    lost_s: float = 0.0

    def time(self, *, mtbf_h: float, restart_s: float) -> JobTime:
        """Duration of the job at this failure rate.

        Raises:
            InputError: The job would never end.
        """
        return job_time(**vars(self), mtbf_h=mtbf_h, restart_s=restart_s)


@dataclass(frozen=True)
class CostModel:
    """All inputs of a cost, each a range.

    Attributes:
        inputs: Ranges by name: `accelerators_usd`, `servers_usd`, `network_usd`, `storage_usd`, `installation`,
            `cost_of_capital`, `life_years`, `operations`, `it_w`, `pue`, `electricity_usd_per_kwh`, `provisioned_w`,
            `space_usd_per_kw_month`, `mtbf_h`, `restart_s`.
    """

    inputs: Mapping[str, Range]
    job: JobFacts

    def values(self, end: End) -> dict[str, float]:
        """All inputs at their cheap (`low`), middle, or expensive (`high`) values."""
        return values_at(self.inputs, end)

    def tokens_per_h(self, values: Mapping[str, float]) -> float:
        """Goodput tokens per hour."""
        taken = self.job.time(mtbf_h=values["mtbf_h"], restart_s=values["restart_s"])
        return taken.steps * self.job.tokens_per_step / taken.seconds * 3600

    def breakdown(self, values: Mapping[str, float]) -> dict[str, float]:
        """Dollars per million tokens, by part of `BREAKDOWN`."""
        per_million = 1e6 / self.tokens_per_h(values)
        return {name: dollars * per_million for name, dollars in usd_per_h(values).items()}

    def cpmt(self, values: Mapping[str, float]) -> float:
        """Dollars per million tokens."""
        return sum(self.breakdown(values).values())


def usd_per_h(values: Mapping[str, N]) -> dict[str, N]:
    """Dollars per hour of hardware, by part of `BREAKDOWN`.

    Args:
        values: One number, or float64[n], for each of `CostModel.inputs` except those of failures.
    """
    hardware: Any = sum(values[name] for name in ("accelerators_usd", "servers_usd", "network_usd", "storage_usd"))
    capital = hardware * (1 + values["installation"])
    yearly = capital_recovery_factor(values["cost_of_capital"], values["life_years"])
    return {
        "capital": capital * yearly / HOURS_PER_YEAR,
        "energy": values["it_w"] / 1000 * values["pue"] * values["electricity_usd_per_kwh"],
        "space": values["provisioned_w"] / 1000 * values["space_usd_per_kw_month"] / HOURS_PER_MONTH,
        "operations": capital * values["operations"] / HOURS_PER_YEAR,
    }


def input_end(name: str, end: End) -> End:
    """The end of the input's range that gives the cost at `end`."""
    if end == "typical" or CHEAP_END.get(name, "low") == "low":
        return end
    flipped: dict[End, Literal["low", "high"]] = {"low": "high", "high": "low"}
    return flipped[end]


def values_at(inputs: Mapping[str, Range], end: End) -> dict[str, float]:
    """All inputs of a cost at their cheap (`low`), middle, or expensive (`high`) values."""
    return {name: at(band, input_end(name, end)) for name, band in inputs.items()}


Parts = tuple[tuple[str, Range], ...]
"""A cost by part; at each end the parts add up to it."""


def by_part(cost: Callable[[End], Mapping[str, float]]) -> Parts:
    """The parts of `BREAKDOWN` from those of each end."""
    cases = {end: cost(end) for end in ENDS}
    return tuple((name, Range(*(cases[end][name] for end in ENDS))) for name in BREAKDOWN)


def hourly_parts(inputs: Mapping[str, Range]) -> Parts:
    """Dollars per hour of hardware, by part of `BREAKDOWN`, from `hourly_inputs`."""
    return by_part(lambda end: usd_per_h(values_at(inputs, end)))


def cpmt(cost_per_hour_usd: float, tokens_per_h: float) -> float:
    """Definition of dollars per million tokens.

    Args:
        cost_per_hour_usd: Cost of everything that runs the job.
        tokens_per_h: Goodput, more than 0.
    """
    return cost_per_hour_usd / tokens_per_h * 1e6


@dataclass(frozen=True)
class Cpmt:
    """Cost per million tokens, by part of `BREAKDOWN`."""

    total: Range
    parts: Parts
    usd_per_gpu_h: Range


def cost_of(model: CostModel) -> Cpmt:
    """Cost per million tokens at its low, typical and high end.

    Raises:
        InputError: The job fails so often that it would never end.
    """
    parts = by_part(lambda end: model.breakdown(model.values(end)))
    hourly = by_end(lambda end: sum(usd_per_h(model.values(end)).values()) / model.job.accelerators)
    return Cpmt(total(band for _, band in parts), parts, hourly)


@dataclass(frozen=True)
class Hourly:
    """Hourly cost of a cluster under some load.

    Attributes:
        parts: Dollars per hour by part of `BREAKDOWN`.
    """

    power: Power
    capex: Capex
    parts: Parts
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
    decomposition: StepShares, accelerator: Accelerator, parts: Sequence[CostPart], assumptions: Assumptions
) -> Hourly:
    """Hourly cost of a cluster."""
    bought = capex(parts, assumptions.installation, decomposition.ranks)
    drawn = power(decomposition, accelerator, parts, assumptions.pue)
    rows = hourly_parts(hourly_inputs(bought, drawn, assumptions))
    return Hourly(
        power=drawn,
        capex=bought,
        parts=rows,
        total=total(band for _, band in rows),
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
