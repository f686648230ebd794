"""What a whole service costs, from what its units are predicted to serve: rows that publish a day's tokens and dollars.

The published rate of a unit is not looked at: tokens per second of the prefill and the decode unit are the model's, of
the rows of the same source that say what the units are. Tokens of the day, its peak and the rent are the row's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from railyard.catalog import Range
from railyard.measure.cost.serving import Day, Unit, service_cost
from railyard_validation.serving import metrics
from railyard_validation.serving.cases import case_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.catalog import Catalog
    from railyard.measure.cost.serving import ServingCost
    from railyard_validation.serving.table import Row

_DAY = re.compile(r"24 h: ([\d.]+)B input tokens \(([\d.]+)B cached\), ([\d.]+)B output")
_RENT = re.compile(r"\$([\d.]+)/GPU-h")
_NODES = re.compile(r"([\d.]+) avg nodes")
_PEAK = re.compile(r"([\d.]+) at the peak")


def is_service(row: Row) -> bool:
    """Whether the row is of a whole service's day."""
    return _DAY.search(row.get("load")) is not None


def price_of(row: Row, rows: Sequence[Row], catalog: Catalog) -> ServingCost | str:
    """Prices of the tokens of a service's day, or why there are none.

    Args:
        row: Of the service.
        rows: Of the table, those of its units among them.
        catalog: For devices and models.
    """
    said, rent = _DAY.search(row.get("load")), _RENT.search(row.get("notes"))
    if said is None or rent is None:
        return "the row gives no price of an accelerator hour"
    asked, cached, answered = (1e9 * float(text) for text in said.groups())
    units = []
    for kind in ("prefill", "decode"):
        found = _unit(kind, row, rows, catalog)
        if isinstance(found, str):
            return found
        units.append(found)
    usd = float(rent.group(1))
    day = Day(asked, answered, cached_share=cached / asked, peak=_peak(row.get("notes")))
    return service_cost(day, units[0], units[1], Range(usd, usd, usd))


def _peak(notes: str) -> float:
    mean, most = _NODES.search(notes), _PEAK.search(notes)
    return float(most.group(1)) / float(mean.group(1)) if mean and most else 1.0


def _unit(kind: str, row: Row, rows: Sequence[Row], catalog: Catalog) -> Unit | str:
    """The unit of the same source that does this, with what the model says it serves."""
    own = [one for one in rows if one.get("source") == row.get("source") and one.get("pd_split") == f"{kind} unit"]
    if not own:
        return f"the table has no row of the service's {kind} unit"
    case = case_of(own[0], catalog)
    if isinstance(case, str):
        return f"its {kind} unit cannot be predicted: {case}"
    (rate,) = metrics.predict([case], "throughput")
    if isinstance(rate, str):
        return f"its {kind} unit cannot be predicted: {rate}"
    count = int(own[0].real["n_accel"])
    return Unit(count, count * rate.value)
