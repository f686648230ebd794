"""What a deployment costs and draws: from pools of accelerators and a bill of materials to the prices of tokens.

The prices of `serving.py` divide all dollars by the input, the output, or all tokens. Beside them stands a split that
adds up, as price lists have it:

    input  = USD/h x (share of accelerator time that prompts take) / input tokens per hour x 10^6
    output = USD/h x (the rest)                                    / output tokens per hour x 10^6

Idle time is charged to both as busy time is. Metered power is what the pools drew, provisioned power the nameplates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.catalog import Range
from railyard.measure.cost.capital import MANAGEMENT, NICS, OPTICS, SERVERS, STORAGE, SWITCHES, Capex, capex, power_of
from railyard.measure.cost.cost import hourly_inputs
from railyard.measure.cost.power import Power, PowerLine
from railyard.measure.cost.ranges import Source, at, band_of, by_end, named_band, of_entry, total
from railyard.measure.cost.serving import ServingCost, owned, rented
from railyard.measure.result.money import ServingCostFigures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.catalog import Accelerator
    from railyard.measure.cost.assumptions import Assumptions
    from railyard.measure.cost.capital import Part
    from railyard.measure.cost.serving import PaidGoodput

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
    """How the accelerators of one pool spend their time.

    Attributes:
        accelerator: What they are.
        count: How many.
        drawn_w: Mean power of one of them.
        prompt: Share of the time in which prompts are computed.
        decode: Share in which answers are.
        collectives: Share in collectives that nothing hides.
        hidden: Share in which collectives run behind other work.
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
    """What a deployment costs.

    Attributes:
        power: By component.
        capex: By component.
        owned: Prices of tokens for its owner.
        rented: The same for who rents the accelerators on demand.
        prompt_share: Share of the accelerators' busy time that prompts take, by what they cost.
        sources: Of every price, power and assumption.
    """

    power: Power
    capex: Capex
    owned: ServingCost
    rented: ServingCost
    prompt_share: float
    sources: tuple[Source, ...]

    @property
    def usd_per_h(self) -> Range:
        """Of the whole deployment, owned."""
        return total(band for _, band in self.owned.parts)

    def section(self) -> ServingCostFigures | None:
        """The result's `cpmt`; None when no request met the objective, for nothing was bought then."""
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
    *, uses: Sequence[Use], parts: Sequence[Part], goodput: PaidGoodput, assumptions: Assumptions
) -> DeploymentCost:
    """What a deployment costs.

    Args:
        uses: How each pool's accelerators spend their time, idle ones too.
        parts: The bill of materials.
        goodput: The tokens that count.
        assumptions: The world around.

    Raises:
        InputError: The bill holds an unknown kind.
    """
    count = sum(use.count for use in uses)
    bought = capex(parts, assumptions.installation, count)
    drawn = _power(uses, parts, assumptions.pue, goodput.seconds)
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


def _power(uses: Sequence[Use], parts: Sequence[Part], pue: Range, span_s: float) -> Power:
    lines = [
        PowerLine("accelerator", total(use.drawn_w.scaled(use.count) for use in uses)),
        PowerLine("host", power_of(parts, SERVERS) + power_of(parts, MANAGEMENT)),
        PowerLine("nic", power_of(parts, NICS)),
        PowerLine("switch", power_of(parts, SWITCHES)),
        PowerLine("optics", power_of(parts, OPTICS)),
        PowerLine("storage", power_of(parts, STORAGE)),
    ]
    it, rest = total(line.power_w for line in lines), total(line.power_w for line in lines[1:])
    lines.append(PowerLine("cooling", by_end(lambda end: at(it, end) * (at(pue, end) - 1))))
    nameplate = sum(use.accelerator.tdp_w * use.count for use in uses)
    return Power(tuple(lines), Range(nameplate + rest.typical, nameplate + rest.high, nameplate + rest.high), span_s)
