"""Cost of runs at other prices, updated as a user changes them, and the prices at which the choice changes.

Nothing is simulated again: tokens per hour are those of the run, and dollars per hour are recomputed by the one formula
(`economics.cost.usd_per_h`). With unchanged prices this must reproduce the run's dollars; otherwise the catalog or the
scenario differs from that of the run, and there is no answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railyard.catalog import Range
from railyard.face.web.views import view
from railyard.kit.errors import InputError, did_you_mean
from railyard.measure.cost.assumptions import ENDS, PRICES, End, at, exactly
from railyard.measure.cost.capital import ACCELERATORS, MANAGEMENT, NETWORK_COMPONENTS, SERVERS, STORAGE
from railyard.measure.cost.cost import BREAKDOWN, usd_per_h, values_at
from railyard.work.scenario import load
from railyard.work.study import compose
from railyard.work.study import folder as kept

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from railyard.measure.result.money import CapexFigures
    from railyard.measure.result.reading import Result
    from railyard.measure.result.variants import Bill
    from railyard.work.scenario.load import Draft


_BOUGHT = {
    "accelerators_usd": (ACCELERATORS,),
    "servers_usd": (SERVERS, MANAGEMENT),
    "network_usd": NETWORK_COMPONENTS,
    "storage_usd": (STORAGE,),
}
FACTORS = tuple(name.removesuffix("_usd") for name in _BOUGHT)
"""Prices that are scaled by a factor; those of `PRICES` are set to a value."""

LINEAR = (*FACTORS, "electricity_usd_per_kwh", "space_usd_per_kw_month", "pue")
"""Prices in which the cost is linear, so that two variants cross once."""

_FAR = 10.0
"""Changes beyond this factor are not considered."""

_SAME = 1e-6


@dataclass(frozen=True)
class Repriced:
    """A variant at other prices.

    Attributes:
        cpmt: USD per million tokens.
        parts: Typical USD per million tokens, by part of `BREAKDOWN`.
    """

    name: str
    cpmt: Range
    parts: dict[str, float]
    speed: float


@dataclass(frozen=True)
class Turn:
    """A price at which another variant costs as much as the cheapest.

    Attributes:
        value: Price at which both cost the same, typical; a factor of today's price, or the value itself.
    """

    name: str
    price: str
    value: float
    now: float


@dataclass(frozen=True)
class PriceLedger:
    """All inputs of the price of a variant's tokens.

    Attributes:
        inputs: Inputs of `usd_per_h`, by name.
        tokens_per_h: At the low-cost, middle and high-cost values.
    """

    name: str
    inputs: Mapping[str, Range]
    tokens_per_h: Range

    def at_prices(self, changes: Mapping[str, float]) -> Repriced:
        """The variant at other prices."""
        moved = dict(self.inputs)
        for name, value in changes.items():
            key = f"{name}_usd"
            moved[key if key in moved else name] = moved[key].scaled(value) if key in moved else exactly(value)
        ends = {end: usd_per_h(values_at(moved, end)) for end in ENDS}
        totals = [sum(ends[end].values()) / at(self.tokens_per_h, end) * 1e6 for end in ENDS]
        parts = {name: ends["typical"][name] / self.tokens_per_h.typical * 1e6 for name in BREAKDOWN}
        return Repriced(self.name, Range(*totals), parts, self.tokens_per_h.typical / 3600)

    def now(self, price: str) -> float:
        """Current value of a price of `LINEAR`: 1 for a factor."""
        return 1.0 if price in FACTORS else self.inputs[price].typical


def ledgers(result: Result, folder: Path) -> list[PriceLedger]:
    """The ledgers of a run's variants that have a price.

    Raises:
        InputError: No variant makes priced tokens, or the run's prices cannot be reproduced.
    """
    draft = load.load(folder / "scenario.yaml")
    drafts = [one.draft for one in load.ended(draft, result.absent)]
    if len(drafts) != len(result.variants):
        raise InputError("the folder holds another scenario than its result", file=folder)
    rows = [
        _ledger(one.name, of, one.bill) for one, of in zip(result.variants, drafts, strict=True) if one.bill is not None
    ]
    if not rows:
        raise InputError("no variant of this run makes tokens that have a price", file=folder)
    return rows


def checked(changes: Mapping[str, float]) -> dict[str, float]:
    """Changes of prices, each by a name of `FACTORS` or `PRICES`.

    Raises:
        InputError: A name is unknown, or a value is not a valid price.
    """
    known = (*FACTORS, *PRICES)
    for name, value in changes.items():
        if name not in known:
            raise InputError("there is no such price", found=name, allowed=known, hint=did_you_mean(name, known))
        least = {"pue": 1.0, "life_years": 0.25}.get(name, 0.0)
        if not (math.isfinite(value) and least <= value <= 1e6):
            raise InputError("the price is out of bounds", key=name, found=value, allowed=f"{least:g} to 1e6")
    return dict(changes)


def turns(rows: Sequence[PriceLedger], changes: Mapping[str, float]) -> list[Turn]:
    """Prices at which the cheapest variant stops being cheapest, per other variant and price, nearest first.

    The cost is a + b x in each price x of `LINEAR`, so two variants cross at (a2 - a1) / (b1 - b2).
    """
    best = min(rows, key=lambda row: row.at_prices(changes).cpmt.typical)
    found = []
    for other in rows:
        if other is best:
            continue
        for price in LINEAR:
            base = changes.get(price, best.now(price))
            mine, yours = (_line(row, changes, price) for row in (best, other))
            slope = mine[1] - yours[1]
            value = (yours[0] - mine[0]) / slope if slope else -1.0
            if max(base / _FAR, 1.0 if price == "pue" else 0.0) <= value <= base * _FAR:
                found.append(Turn(other.name, price, value, base))
    return sorted(found, key=lambda turn: abs(math.log(max(turn.value, 1e-9) / max(turn.now, 1e-9))))


def _line(row: PriceLedger, changes: Mapping[str, float], price: str) -> tuple[float, float]:
    """Cost at a price of zero, and its slope in the price."""
    zero, one = (row.at_prices({**changes, price: value}).cpmt.typical for value in (0.0, 1.0))
    return zero, one - zero


def _ledger(name: str, draft: Draft, bill: Bill) -> PriceLedger:
    """The ledger, after checking that an hour costs what it cost in the run."""
    hourly, cost = Range(*bill.usd_per_h), bill.usd_per_mtoken
    world = compose.economics_of(draft, compose.catalog_of(draft))
    inputs = {key: _bought(bill.capex, parts) for key, parts in _BOUGHT.items()}
    inputs |= {"it_w": Range(*bill.power.it_w.ends), "provisioned_w": Range(*bill.power.provisioned_w.ends)}
    inputs |= {key: getattr(world, key) for key in PRICES}
    for end in ENDS:
        if abs(_hour(inputs, end) - at(hourly, end)) > _SAME * at(hourly, end):
            raise InputError(
                f"an hour of `{name}` has changed its price since its run",
                found=f"${_hour(inputs, end):.6g}",
                allowed=f"${at(hourly, end):.6g}",
                hint="run it again: the catalogue or the scenario's files have changed since",
            )
    tokens = Range(*(at(hourly, end) / dollars * 1e6 for end, dollars in zip(ENDS, cost.ends, strict=True)))
    return PriceLedger(name, inputs, tokens)


def _hour(inputs: Mapping[str, Range], end: End) -> float:
    return sum(usd_per_h(values_at(inputs, end)).values())


def _bought(figures: CapexFigures, names: Iterable[str]) -> Range:
    rows = [row.ends for row in figures.components if row.name in tuple(names)]
    return Range(*(math.fsum(ends) for ends in zip(*rows, strict=True))) if rows else exactly(0.0)


_RUNS = 20


@view("prices")
def repriced(question: dict[str, Any]) -> dict[str, Any]:
    """Every variant of some runs at other prices, and where the choice turns.

    Args:
        question: `folders` of runs, and `changes` of prices by name.
    """
    changes = checked(question["changes"])
    rows = [row for folder in question["folders"] for row in _named(Path(folder), alone=len(question["folders"]) == 1)]
    found = [row.at_prices(changes) for row in rows]
    return {
        "factors": list(FACTORS),
        "prices": [{"name": name, **_band(rows[0].inputs[name])} for name in PRICES],
        "variants": [
            {"name": one.name, "cpmt": _band(one.cpmt), "parts": one.parts, "tokens_per_s": one.speed} for one in found
        ],
        "turns": [vars(turn) for turn in _turns(rows, changes)],
    }


def _turns(rows: Sequence[PriceLedger], changes: dict[str, float]) -> Sequence[Turn]:
    return turns(rows, changes) if len(rows) > 1 else []


def _named(folder: Path, *, alone: bool) -> list[PriceLedger]:
    file = folder / "result.json"
    found = _ledgers(folder, file.stat().st_mtime_ns)
    if alone:
        return found
    one = len(found) == 1
    return [
        type(row)(folder.name if one else f"{folder.name}: {row.name}", row.inputs, row.tokens_per_h) for row in found
    ]


@lru_cache(maxsize=_RUNS)
def _ledgers(folder: Path, changed_ns: int) -> list[PriceLedger]:
    del changed_ns
    return ledgers(kept.read_result(folder / "result.json"), folder)


def _band(values: Range) -> dict[str, float]:
    return {"low": values.low, "typical": values.typical, "high": values.high}
