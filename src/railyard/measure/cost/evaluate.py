"""Power, capital and token prices from a measured step, or pools of accelerators, and a bill of materials.

The prices of `serving.py` divide all dollars by the input, the output, or all tokens. There is also a split that sums
to the total, as in price lists:

    input  = USD/h x (share of accelerator time that prompts take) / input tokens per hour x 10^6
    output = USD/h x (the rest)                                    / output tokens per hour x 10^6

Idle time is charged to both in proportion to busy time. Metered power is that of the pools, provisioned power the
nameplates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.measure.cost import power as power_model
from railyard.measure.cost.assumptions import End, Source, at, band_of, by_end, named_band, of_entry, total
from railyard.measure.cost.capital import Capex, capex
from railyard.measure.cost.cost import CostModel, Cpmt, cost_of, cpmt, hourly_inputs
from railyard.measure.cost.power import Power, power, power_with
from railyard.measure.cost.serving import ServingCost, owned, rented
from railyard.measure.result.money import RentalFigures, ServingCostFigures, SwingRow, TrainingCost

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from railyard.catalog import Accelerator, Range
    from railyard.measure.cost.assumptions import Assumptions
    from railyard.measure.cost.capital import CostPart
    from railyard.measure.cost.cost import JobFacts
    from railyard.measure.cost.power import StepShares
    from railyard.measure.cost.serving import PaidGoodput
    from railyard.measure.job import JobTime


DRAW = Source(
    "accelerator draw",
    "serving",
    "0.20 of the limit, 0.33 more while it computes, and what memory traffic and math add; +- 12 %",
    "ML.ENERGY leaderboard, 838 configurations; the band is the median error with a model left out",
    2026,
    "measured",
)


@dataclass(frozen=True)
class Use:
    """Time shares of one pool's accelerators.

    Attributes:
        prompt: Share of the time spent on prompts.
        hidden: Share in which collectives overlap other work.
    """

    accelerator: Accelerator
    count: int
    drawn_w: Range
    prompt: float = 0.0
    decode: float = 0.0
    collectives: float = 0.0
    hidden: float = 0.0


@dataclass(frozen=True)
class DeploymentCost:
    """Cost of a deployment.

    Attributes:
        rented: The same for accelerators rented on demand.
        prompt_share: Share of the accelerators' busy time spent on prompts, weighted by cost.
    """

    power: Power
    capex: Capex
    owned: ServingCost
    rented: ServingCost
    prompt_share: float
    sources: tuple[Source, ...]

    @property
    def usd_per_h(self) -> Range:
        """Hourly cost of the whole deployment, owned."""
        return total(band for _, band in self.owned.parts)

    def section(self) -> ServingCostFigures | None:
        """The result's `cpmt`; None if no request met the objective, because then there is no price."""
        everything, asked, answered = (self.owned.tokens[kind] for kind in ("total", "input", "output"))
        if everything is None or asked is None or answered is None:
            return None
        hourly = self.usd_per_h
        scale = everything.typical / hourly.typical
        rent = self.rented.tokens["total"]
        return ServingCostFigures(
            total=band_of(everything),
            input=band_of(asked),
            output=band_of(answered),
            split_input=band_of(asked.scaled(self.prompt_share)),
            split_output=band_of(answered.scaled(1 - self.prompt_share)),
            rented_total=None if rent is None else band_of(rent),
            breakdown=tuple(named_band(name, band.scaled(scale)) for name, band in self.owned.parts),
            usd_per_h=band_of(hourly),
            prompt_share=self.prompt_share,
            cached_share=self.owned.goodput.cached_share,
        )


def deployment_cost(
    *, uses: Sequence[Use], parts: Sequence[CostPart], goodput: PaidGoodput, assumptions: Assumptions
) -> DeploymentCost:
    """Cost of a deployment.

    Args:
        uses: Time shares of each pool's accelerators, including idle ones.
        parts: The bill of materials.
        goodput: The tokens that count.
        assumptions: Prices and failure rates.

    Raises:
        InputError: The bill has an unknown kind.
    """
    count = sum(use.count for use in uses)
    bought = capex(parts, assumptions.installation, count)
    drawn = power_with(
        total(use.drawn_w.scaled(use.count) for use in uses),
        sum(use.accelerator.tdp_w * use.count for use in uses),
        parts,
        assumptions.pue,
        goodput.seconds,
    )
    inputs = hourly_inputs(bought, drawn, assumptions)
    rent = total(use.accelerator.rental_usd_per_h.scaled(use.count) for use in uses).scaled(1 / count)
    fields = ("price_usd", "tdp_w", "idle_power_w", "rental_usd_per_h")
    rows = [row for use in uses for row in of_entry(use.accelerator, *fields)]
    return DeploymentCost(
        power=drawn,
        capex=bought,
        owned=owned(inputs, goodput, count),
        rented=rented(rent, goodput, count),
        prompt_share=_prompt_share(uses),
        sources=tuple(dict.fromkeys([*rows, *assumptions.sources, DRAW])),
    )


def _prompt_share(uses: Sequence[Use]) -> float:
    prompt = sum(use.count * use.prompt * use.accelerator.price_usd.typical for use in uses)
    decode = sum(use.count * use.decode * use.accelerator.price_usd.typical for use in uses)
    return prompt / (prompt + decode) if prompt + decode > 0 else 0.5


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
"""Name and format of inputs for people."""


def sensitivity(model: CostModel) -> list[SwingRow]:
    """Every assumption with a range, the most influential first.

    Raises:
        InputError: The job would never end with some value.
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
class Economics:
    """Cost of a job on a cluster.

    Attributes:
        cpmt: Cost per million tokens when the cluster is owned.
        contract: Rented for three years, if the catalog has a price.
        joules_per_token: Metered energy with cooling, per goodput token.
        tokens_per_s_per_mw: Goodput tokens per second and megawatt drawn, typical.
    """

    power: Power
    capex: Capex
    cpmt: Cpmt
    sensitivity: tuple[SwingRow, ...]
    rental: RentalFigures
    contract: RentalFigures | None
    jct: JobTime
    joules_per_token: Range
    tokens_per_s_per_mw: float
    sources: tuple[Source, ...]

    def section(self) -> TrainingCost:
        """The result's `cpmt`, with sensitivity and the rented cluster."""
        total = self.cpmt.total
        return TrainingCost(
            low=total.low,
            typical=total.typical,
            high=total.high,
            breakdown=tuple(named_band(name, band) for name, band in self.cpmt.parts),
            usd_per_gpu_h=band_of(self.cpmt.usd_per_gpu_h),
            sensitivity=self.sensitivity,
            rental=self.rental,
            contract=self.contract,
            joules_per_token=band_of(self.joules_per_token),
            tokens_per_s_per_mw=self.tokens_per_s_per_mw,
        )


def cost_model(
    *,
    decomposition: StepShares,
    accelerator: Accelerator,
    parts: Sequence[CostPart],
    job: JobFacts,
    assumptions: Assumptions,
) -> tuple[Capex, Power, CostModel]:
    """Capital, power, and all other inputs of a cost; arguments as in `evaluate`."""
    bought = capex(parts, assumptions.installation, job.accelerators)
    drawn = power(decomposition, accelerator, parts, assumptions.pue)
    inputs = hourly_inputs(bought, drawn, assumptions)
    inputs |= {"mtbf_h": assumptions.mtbf_h, "restart_s": assumptions.restart_s}
    return bought, drawn, CostModel(inputs, job)


def evaluate(
    *,
    decomposition: StepShares,
    accelerator: Accelerator,
    parts: Sequence[CostPart],
    job: JobFacts,
    assumptions: Assumptions,
) -> Economics:
    """Cost of a job on a cluster.

    Args:
        decomposition: Time shares of its step.
        accelerator: The accelerator.
        parts: The bill of materials.
        job: Budget and step.
        assumptions: Prices and failure rates.

    Raises:
        InputError: The job would never end, or the bill has an unknown kind.
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
        sources=tuple(dict.fromkeys([*accelerator_rows, *assumptions.sources, *power_model.SOURCES])),
    )


def _tokens_per_s(model: CostModel, end: End) -> float:
    return model.tokens_per_h(model.values(end)) / 3600


def _rented(usd_per_gpu_h: Range, model: CostModel) -> RentalFigures:
    """Cost of renting the same accelerators."""
    hourly = usd_per_gpu_h.scaled(model.job.accelerators)
    dollars = by_end(lambda end: cpmt(at(hourly, end), model.tokens_per_h(model.values(end))))
    return RentalFigures(usd_per_gpu_h=band_of(usd_per_gpu_h), cpmt=band_of(dollars))
