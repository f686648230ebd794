"""Cost of runs at other prices, updated as a user changes them."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railyard.face.web.views import view
from railyard.measure.cost.assumptions import PRICES
from railyard.work.study import folder as kept
from railyard.work.study import repricing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.catalog import Range
    from railyard.work.study.repricing import PriceLedger

_RUNS = 20


@view("prices")
def repriced(question: dict[str, Any]) -> dict[str, Any]:
    """Every variant of some runs at other prices, and where the choice turns.

    Args:
        question: `folders` of runs, and `changes` of prices by name.
    """
    changes = repricing.checked(question["changes"])
    rows = [row for folder in question["folders"] for row in _named(Path(folder), alone=len(question["folders"]) == 1)]
    found = [row.at_prices(changes) for row in rows]
    return {
        "factors": list(repricing.FACTORS),
        "prices": [{"name": name, **_band(rows[0].inputs[name])} for name in PRICES],
        "variants": [
            {"name": one.name, "cpmt": _band(one.cpmt), "parts": one.parts, "tokens_per_s": one.speed} for one in found
        ],
        "turns": [vars(turn) for turn in _turns(rows, changes)],
    }


def _turns(rows: Sequence[PriceLedger], changes: dict[str, float]) -> Sequence[repricing.Turn]:
    return repricing.turns(rows, changes) if len(rows) > 1 else []


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
    return repricing.ledgers(kept.read_result(folder / "result.json"), folder)


def _band(values: Range) -> dict[str, float]:
    return {"low": values.low, "typical": values.typical, "high": values.high}
