"""What is not known of a choice between designs, and what each is worth for any value of it.

A *factor* is one thing that is uncertain: the price of a part, its draw, an assumption of the world, the error of the
model. Designs share factors: a switch that two of them have costs both. Prices and assumptions are triangular
over low, typical and high of the catalogue. The error of a step, as a logarithm, has four parts that are normal; how
wide each is was read off left-out measurements (`measure/model_error.py`):

- of accelerator and model, all designs that share them alike: the band of steps;
- of the layout: half of what two rows that share software, model and device still differ by (`between`);
- of the network, for each fabric: the band of collectives, on the part of the step that waits for communication;
- of the closed form, where no engine ran the design: what the engine found for others of the same plan.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.plan.price import HARDWARE, Goodputs
from railyard.kit.registry import Registry
from railyard.measure.cost.assumptions import NAMES
from railyard.measure.cost.capital import ACCELERATORS, MANAGEMENT, SERVERS, STORAGE
from railyard.measure.cost.evaluate import SHOWN
from railyard.measure.model_error import collective_error, step_error
from railyard.measure.result.section import EIGHT_OF_TEN
from railyard.measure.result.step import EXPOSED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.ask.plan.build import DesignBench, PlannedHardware
    from railyard.ask.plan.outcome import DesignOutcome
    from railyard.ask.plan.price import DesignPrice
    from railyard.catalog import Range
    from railyard.work.training.spec import Training

    F = NDArray[np.float64]


_INSTALLED = {
    ACCELERATORS: "accelerators_usd",
    SERVERS: "servers_usd",
    MANAGEMENT: "servers_usd",
    STORAGE: "storage_usd",
}
_OF_PLACES = frozenset({"electricity_usd_per_kwh", "pue", "space_usd_per_kw_month"})
_ACCELERATOR_DRAW = "draw of accelerators at work"


@dataclass(frozen=True)
class Factor:
    """One thing that is not known.

    Attributes:
        kind: `price`, `power`, `assumption`, `model`.
        low, typical, high: Its band; of `model` the ends within which eight of ten lie, as logarithms.
    """

    name: str
    kind: str
    low: float
    typical: float
    high: float

    def drawn(self, even: F) -> F:
        """Values for numbers that are spread evenly from 0 to 1."""
        if self.kind == "model":
            from statistics import NormalDist

            width = (self.high - self.low) / 2 / EIGHT_OF_TEN
            normal = NormalDist((self.low + self.high) / 2, max(width, 1e-12))
            return np.array([normal.inv_cdf(min(max(float(u), 1e-9), 1 - 1e-9)) for u in even])
        return triangular(even, self.low, self.typical, self.high)


def triangular(even: F, low: float, typical: float, high: float) -> F:
    """The triangular distribution's inverse: values for numbers that are spread evenly from 0 to 1."""
    if high <= low:
        return np.full_like(even, typical)
    turn = (typical - low) / (high - low)
    below = low + np.sqrt(even * (high - low) * (typical - low))
    above = high - np.sqrt((1.0 - even) * (high - low) * (high - typical))
    return np.where(even < turn, below, above)


@dataclass(frozen=True)
class TimeError:
    """A part of the model's error of one design under one demand.

    Attributes:
        factor: As logarithms of the true time over the one found.
        network: Whether it is the network's, which collectives alone show.
    """

    factor: Factor
    share: float = 1.0
    network: bool = False


@dataclass(frozen=True, eq=False)
class DesignChoice:
    """A design that may be chosen, with what was found of it under each demand.

    Attributes:
        layouts: How its work is laid out, by demand.
        outcomes: By demand, each of the most exact engine that ran it.
        missed: What the model may miss of it, by demand.
    """

    point: int
    name: str
    hardware: tuple[PlannedHardware, ...]
    layouts: tuple[str, ...]
    outcomes: tuple[DesignOutcome, ...]
    priced: tuple[DesignPrice, ...]
    missed: tuple[tuple[TimeError, ...], ...]
    figures: Mapping[str, float]

    @property
    def engine(self) -> str:
        """Engine that judges it: the cheapest of those that found its outcomes."""
        engines = {outcome.engine for outcome in self.outcomes}
        return next(name for name in ("analytic", "flow", "serving", "packet") if name in engines)


@dataclass(frozen=True)
class PlanKind:
    """A kind of work that designs are planned for; its record is its registration.

    Attributes:
        sweep: Some points (numbers of points and demands) in closed form, with what they have of some makers and parts.
        run: A point and a demand on an engine with a layout; `budget_hops` that packets may take, 0: as written.
        look: Hardware, layout in words, price and what the model may miss of a point whose outcome is known.
    """

    sweep: Callable[[DesignBench, Sequence[tuple[int, int]], frozenset[str]], Iterable[DesignOutcome]]
    run: Callable[[DesignBench, tuple[int, int], str, Mapping[str, Any], float], DesignOutcome]
    look: Callable[
        [DesignBench, tuple[int, int], DesignOutcome], tuple[PlannedHardware, str, DesignPrice, tuple[TimeError, ...]]
    ]


plan_kinds: Registry[PlanKind] = Registry("kind of work to plan for")


@dataclass(frozen=True)
class Uncertainty:
    """Uncertain factors of some choices.

    Attributes:
        closed_form: Mean and spread of the logarithm of an engine's step over that in closed form.
    """

    factors: Mapping[str, Factor]
    closed_form: tuple[float, float]

    @classmethod
    def of(cls, choices: Sequence[DesignChoice], closed_form: tuple[float, float]) -> Uncertainty:
        """Factors of some choices that have a width."""
        found: dict[str, Factor] = {}
        for choice in choices:
            for factor in _factors(choice, closed_form):
                if factor.high > factor.low:
                    found.setdefault(factor.name, factor)
        return cls(found, closed_form)

    def sampled(self, draws: int, seed: int) -> dict[str, F]:
        """Every factor drawn so often, each value of its distribution equally often (a Latin hypercube)."""
        random = np.random.Generator(np.random.PCG64(seed))
        return {
            name: factor.drawn((random.permutation(draws) + random.random(draws)) / draws)
            for name, factor in self.factors.items()
        }

    def ends(self) -> dict[str, F]:
        """Rows in which all is typical but one factor, low and then high; the first row is typical throughout."""
        rows = 1 + 2 * len(self.factors)
        found = {name: np.full(rows, factor.typical) for name, factor in self.factors.items()}
        for number, (name, factor) in enumerate(self.factors.items()):
            found[name][1 + 2 * number] = factor.low
            found[name][2 + 2 * number] = factor.high
        return found


def _factors(choice: DesignChoice, closed_form: tuple[float, float]) -> list[Factor]:
    found = []
    for hardware, outcome, priced, missed in zip(
        choice.hardware, choice.outcomes, choice.priced, choice.missed, strict=True
    ):
        for part in hardware.parts:
            found.append(_banded(f"price of {part.name}", "price", part.price_usd))
            if part.component != ACCELERATORS:
                found.append(_banded(f"power of {part.name}", "power", part.power_w))
        found.append(Factor(_ACCELERATOR_DRAW, "power", 0.0, _typical_draw(priced), 1.0))
        known = [name for name in NAMES if name in priced.inputs]
        found += [_banded(_assumed(priced, name), "assumption", priced.inputs[name]) for name in known]
        found += [one.factor for one in missed]
        if outcome.engine == "analytic":
            found.append(modelled(_closed_name(choice), closed_form[0], closed_form[1] * EIGHT_OF_TEN))
    return found


def missed_of_step(
    hardware: PlannedHardware, training: Training, outcome: DesignOutcome, *, known: bool
) -> tuple[TimeError, ...]:
    """Error of the model for a step of training; `known`: whether its software is, as in `step_error`."""
    error = step_error(experts=bool(training.model.experts), precision=training.precision, known=known)
    bias = (math.log1p(error.low) + math.log1p(error.high)) / 2
    model = training.model.name
    layout = math.log1p(error.between) / math.sqrt(2)
    network = collective_error().scatter
    return (
        TimeError(modelled(f"step of {model} on {hardware.cluster.accelerator.name}", bias, error.scatter)),
        TimeError(modelled(f"layout {training.layout} of {model}", 0.0, layout)),
        TimeError(
            modelled(f"collectives on {hardware.cluster.fabric.name}", 0.0, network),
            outcome.share(*EXPOSED),
            network=True,
        ),
    )


def _banded(name: str, kind: str, band: Range) -> Factor:
    return Factor(name, kind, band.low, band.typical, band.high)


def modelled(name: str, middle: float, half: float) -> Factor:
    """A part of the model's error: its middle, and how far eight of ten lie from that, as logarithms."""
    return Factor(name, "model", middle - half, 0.0 if middle == 0.0 else middle, middle + half)


def _assumed(priced: DesignPrice, name: str) -> str:
    """What electricity and space cost at one site says nothing of another; all else is the same everywhere."""
    words = SHOWN[name][0]
    return f"{words} at {priced.site}" if priced.site and name in _OF_PLACES else words


def _closed_name(choice: DesignChoice) -> str:
    return f"closed form of {choice.name}"


def _typical_draw(priced: DesignPrice) -> float:
    """Position of the accelerators' typical draw between low and high, 0 to 1."""
    line = priced.power.lines[0].power_w
    return (line.typical - line.low) / (line.high - line.low) if line.high > line.low else 0.5


@dataclass(frozen=True)
class DesignWorth:
    """A design for n values of everything that is not known; each float64[n], all demands together.

    Attributes:
        figures: Objectives by name; those that nothing moves are left out.
    """

    figures: Mapping[str, F]
    by_demand: Sequence[Mapping[str, F]]


def worth(choice: DesignChoice, values: Mapping[str, F], shares: Sequence[float], goodputs: Goodputs) -> DesignWorth:
    """Value of a choice at values of the factors."""
    count = len(next(iter(values.values()))) if values else 1
    rows = [_under(choice, number, values, count, goodputs) for number in range(len(shares))]
    weighted = np.array(shares)[:, None]
    return DesignWorth({name: np.sum(weighted * [row[name] for row in rows], axis=0) for name in rows[0]}, rows)


def _under(choice: DesignChoice, demand: int, values: Mapping[str, F], count: int, goodputs: Goodputs) -> dict[str, F]:
    inputs = _inputs(choice.priced[demand], choice.hardware[demand], values, count)
    return choice.priced[demand].under(inputs, np.exp(_time_error(choice, demand, values, count)), goodputs)


def _inputs(priced: DesignPrice, hardware: PlannedHardware, values: Mapping[str, F], count: int) -> dict[str, F]:
    """Inputs of the price of an hour, each float64[n]."""
    found = {name: np.full(count, value) for name, value in priced.typical.items()}
    for name in NAMES:
        band = priced.inputs.get(name)
        if band is not None and band.high > band.low:
            found[name] = values.get(_assumed(priced, name), found[name])
    for name in HARDWARE:
        found[name] = np.zeros(count)
    line = priced.power.lines[0].power_w
    share = values.get(_ACCELERATOR_DRAW, np.full(count, _typical_draw(priced)))
    watts = line.low + share * (line.high - line.low)
    for part in hardware.parts:
        price = values.get(f"price of {part.name}", np.full(count, part.price_usd.typical))
        found[_INSTALLED.get(part.component, "network_usd")] += part.count * price
        if part.component != ACCELERATORS:
            watts = watts + part.count * values.get(f"power of {part.name}", np.full(count, part.power_w.typical))
    found["it_w"] = watts
    return found


def _time_error(choice: DesignChoice, demand: int, values: Mapping[str, F], count: int) -> F:
    """Logarithm of the true time over the one found: float64[n]."""
    total = np.zeros(count)
    for one in choice.missed[demand]:
        drawn = values.get(one.factor.name)
        if drawn is not None:
            total = total + (drawn if one.share == 1.0 else np.log1p(one.share * np.expm1(drawn)))
    if choice.outcomes[demand].engine == "analytic":
        total = total + values.get(_closed_name(choice), np.zeros(count))
    return total
