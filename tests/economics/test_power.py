"""Power from how a step is spent, against measured servers, and the shares that must add up."""

from __future__ import annotations

import pytest

from railyard import catalog
from railyard.catalog import Range
from railyard.measure.cost.assumptions import exactly
from railyard.measure.cost.capital import ACCELERATORS, NICS, OPTICS, SERVERS, SWITCHES, CostPart
from railyard.measure.cost.power import accelerator_w, power


@pytest.fixture(scope="module")
def facts():
    return catalog.load()


def test_an_idle_accelerator_draws_its_idle_power_and_a_busy_one_its_limit(spent, facts):
    h100 = facts.accelerator("H100")
    busy = accelerator_w(spent({("compute", "", "forward"): 1.0}), h100)
    waiting = accelerator_w(spent({("bubble", "pp", "forward"): 1.0}), h100)
    assert busy.high == h100.tdp_w
    assert h100.idle_power_w.low < waiting.low < waiting.typical < busy.low
    assert busy.low > 0.75 * h100.tdp_w


def test_power_rises_with_utilization_and_lies_between_waiting_and_computing(spent, facts):
    h100 = facts.accelerator("H100")
    drawn = [
        accelerator_w(
            spent({("compute", "", "forward"): share, ("bandwidth", "dp", "gradient"): 1 - share}), h100
        ).typical
        for share in (0.0, 0.3, 0.6, 0.9, 1.0)
    ]
    assert drawn == sorted(drawn)
    assert drawn[2] == pytest.approx(0.4 * drawn[0] + 0.6 * drawn[-1])


def test_a_training_server_of_eight_h100_draws_what_was_measured(spent, facts):
    """8 x H100 while training: 76 % of 10.2 kW (arXiv 2506.14551), at most 8.4 kW seen (arXiv 2412.08602)."""
    server, nic = facts.server("hgx-h100"), facts.nic("cx7-400g")
    parts = [
        CostPart(SERVERS, server.name, 1, server.price_usd, server.host_power_w),
        CostPart(NICS, nic.name, 8, nic.price_usd, nic.power_w),
    ]
    shares = {("compute", "", "forward"): 0.85, ("compute", "", "optimizer"): 0.05, ("bandwidth", "tp", "forward"): 0.1}
    drawn = power(spent(shares), facts.accelerator("H100"), parts, exactly(1.0))
    assert drawn.it_w.low < 0.76 * 10_200 < drawn.it_w.high
    assert drawn.it_w.typical == pytest.approx(0.76 * 10_200, rel=0.12)


def test_components_add_up_and_the_data_movement_tax_is_the_network(spent, facts):
    parts = [
        CostPart(SERVERS, "s", 2, exactly(0), Range(2e3, 3e3, 4e3)),
        CostPart(NICS, "n", 16, exactly(0), exactly(25)),
        CostPart(SWITCHES, "sw", 4, exactly(0), exactly(800)),
        CostPart(OPTICS, "o", 64, exactly(0), exactly(9)),
    ]
    drawn = power(
        spent({("compute", "", "forward"): 1.0}, ranks=16), facts.accelerator("H100"), parts, Range(1.1, 1.2, 1.3)
    )
    network = 16 * 25 + 4 * 800 + 64 * 9
    assert drawn.data_movement_share == pytest.approx(network / drawn.it_w.typical)
    assert drawn.total_w.typical == pytest.approx(1.2 * drawn.it_w.typical)
    assert drawn.total_w.low == pytest.approx(1.1 * drawn.it_w.low)
    said = drawn.section().plain()
    assert said["total_w"]["typical"] == pytest.approx(1.2 * said["it_w"]["typical"])
    assert said["it_w"]["typical"] < said["provisioned_w"]["typical"]
    assert drawn.energy_per_step_j == pytest.approx(drawn.total_w.typical * 1.0)
    # Provisioned is nameplate: all limits at once, whatever the step draws.
    assert drawn.provisioned_w.typical == pytest.approx(16 * 700 + 2 * 4e3 + network)


def test_accelerators_beyond_those_of_the_job_idle(spent, facts):
    h100 = facts.accelerator("H100")
    shares = {("compute", "", "forward"): 1.0}
    bought = [CostPart(ACCELERATORS, h100.name, count, h100.price_usd, h100.power_w) for count in (16, 2)]
    full, spare = (power(spent(shares, ranks=16), h100, bought[:kept], exactly(1.0)) for kept in (1, 2))
    assert spare.it_w.typical - full.it_w.typical == pytest.approx(2 * h100.idle_power_w.typical)
    assert spare.provisioned_w.low - full.provisioned_w.low == pytest.approx(2 * h100.tdp_w)
