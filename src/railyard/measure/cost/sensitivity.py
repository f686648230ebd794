"""Which assumption matters: each moved to its low and high value, all others typical (the bars of a tornado chart)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.measure.result.money import SwingRow

if TYPE_CHECKING:
    from collections.abc import Callable

    from railyard.measure.cost.cost import CostModel


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
