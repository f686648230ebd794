"""What the price of an hour is worked out from, by name: every sensitivity moves one of these."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.measure.cost.parts import ACCELERATORS, MANAGEMENT, NETWORK_COMPONENTS, SERVERS, STORAGE
from railyard.measure.cost.ranges import total

if TYPE_CHECKING:
    from railyard.catalog import Range
    from railyard.measure.cost.assumptions import Assumptions
    from railyard.measure.cost.capital import Capex
    from railyard.measure.cost.power import Power


def hourly_inputs(bought: Capex, drawn: Power, assumptions: Assumptions) -> dict[str, Range]:
    """Inputs of an hour's price: capital by part (USD), power (W), and the world around.

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
