"""Capital recovery against its definition, and the published arithmetic of an H100 an hour."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from railyard import catalog
from railyard.catalog import Range
from railyard.measure.cost.assumptions import exactly
from railyard.measure.cost.capital import (
    ACCELERATORS,
    NICS,
    OPTICS,
    SERVERS,
    SWITCHES,
    CostPart,
    capex,
    capital_recovery_factor,
)
from railyard.measure.cost.cost import cost_of, cpmt, usd_per_h
from railyard.measure.cost.evaluate import SHOWN, sensitivity
from railyard.measure.cost.power import accelerator_w, power


def test_ten_percent_over_four_years_is_the_known_annuity():
    assert capital_recovery_factor(0.10, 4) == pytest.approx(0.315471, abs=1e-6)


@given(interest=st.floats(1e-6, 0.5), years=st.integers(1, 40))
def test_the_payments_are_worth_the_loan(interest, years):
    """Present value of n equal payments at that interest is 1: the definition, summed term by term."""
    payment = capital_recovery_factor(interest, years)
    assert sum(payment / (1 + interest) ** year for year in range(1, years + 1)) == pytest.approx(1, rel=1e-9)


def test_without_interest_it_is_a_straight_line():
    assert capital_recovery_factor(0, 5) == 0.2
    assert capital_recovery_factor(1e-12, 5) == pytest.approx(0.2)
    assert capital_recovery_factor(5e-324, 0.5) == 2


def test_capex_adds_up_and_carries_its_ends():
    parts = [
        CostPart(ACCELERATORS, "a", 8, Range(25e3, 30e3, 36e3), exactly(0)),
        CostPart(SERVERS, "s", 1, Range(21e3, 45e3, 65e3), exactly(0)),
        CostPart(NICS, "n", 8, exactly(1700), exactly(25)),
        CostPart(SWITCHES, "leaf", 2, exactly(50e3), exactly(800)),
        CostPart(SWITCHES, "spine", 1, exactly(50e3), exactly(800)),
        CostPart(OPTICS, "dr4", 16, exactly(700), exactly(9)),
    ]
    found = capex(parts, Range(0.02, 0.03, 0.05), 8)
    hardware = 8 * 30e3 + 45e3 + 8 * 1700 + 150e3 + 16 * 700
    assert found.total_usd.typical == pytest.approx(hardware * 1.03)
    assert found.per_accelerator_usd.typical == pytest.approx(hardware * 1.03 / 8)
    low = 8 * 25e3 + 21e3 + 8 * 1700 + 150e3 + 16 * 700
    assert found.total_usd.low == pytest.approx(low * 1.02)
    lines = found.section().plain()["components"]
    assert [line["name"] for line in lines] == [
        "accelerators",
        "servers",
        "NICs",
        "switches",
        "optics and cables",
        "installation",
    ]
    assert lines[3]["count"] == 3


# Dollars an hour and per million tokens against published arithmetic, and what must hold for any inputs.


def per_gpu(model, end="typical"):
    return {name: usd / 8 for name, usd in usd_per_h(model.values(end)).items()}


def test_an_h100_costs_2_2_to_2_4_dollars_an_hour(model):
    """All-in capital of $46.9k to $51.6k, 4 years at 10 %, 1.3 kW at PUE 1.25 and $0.08, $180 for 1.73 kW provisioned.

    The band of the rental market of 2026 is 1.4 to 4.1.
    """
    cheap = per_gpu(model(accelerators_usd=8 * 46_900.0, servers_usd=0.0, network_usd=0.0))
    dear = per_gpu(model(accelerators_usd=8 * 51_600.0, servers_usd=0.0, network_usd=0.0))
    assert cheap["capital"] == pytest.approx(1.69, abs=0.005)
    assert dear["capital"] == pytest.approx(1.86, abs=0.005)
    assert cheap["energy"] == pytest.approx(0.13, abs=0.001)
    assert cheap["space"] == pytest.approx(0.43, abs=0.005)
    assert 2.2 <= sum(cheap.values()) <= sum(dear.values()) <= 2.45


def test_the_published_cost_of_deepseek_follows_from_its_own_numbers():
    """226.75 servers of 8 H800 at $2: $87,072 a day; 608 G input and 168 G output tokens (open-infra-index, day 6)."""
    per_hour = 226.75 * 8 * 2.0
    assert per_hour * 24 == pytest.approx(87_072)
    assert cpmt(per_hour, (608e9 + 168e9) / 24) == pytest.approx(0.112, abs=0.0005)
    assert cpmt(per_hour, 168e9 / 24) == pytest.approx(0.518, abs=0.0005)


def test_cpmt_is_the_rented_price_when_nothing_fails(model):
    """Eight GPUs at a price, one million tokens a second: dollars an hour over 3,600 million tokens an hour."""
    found = cost_of(model())
    hourly = found.usd_per_gpu_h.typical * 8
    assert found.total.typical == pytest.approx(hourly / 3600, rel=1e-6)
    assert found.total.typical == pytest.approx(cpmt(hourly, 3.6e9), rel=1e-6)


def test_failures_and_restarts_are_paid_for(model):
    sound, frail = cost_of(model()), cost_of(model(mtbf_h=8 * 3.0, restart_s=900.0))
    goodput = model().job.time(mtbf_h=8 * 3.0, restart_s=900.0).goodput
    assert goodput < 0.8
    assert frail.total.typical == pytest.approx(sound.total.typical / goodput, rel=1e-6)


def test_more_life_and_rarer_failures_are_the_cheap_end(model):
    unsure = model(life_years=Range(3, 4, 6), mtbf_h=Range(3e4, 5e4, 8e4), restart_s=900.0)
    assert unsure.values("low")["life_years"] == 6
    assert unsure.values("high")["life_years"] == 3
    assert unsure.values("low")["mtbf_h"] == 8e4
    found = cost_of(unsure)
    assert found.total.low < found.total.typical < found.total.high


def test_sensitivity_moves_one_input_at_a_time_and_ranks_by_width(model):
    unsure = model(
        pue=Range(1.08, 1.15, 1.25), life_years=Range(3, 4, 6), electricity_usd_per_kwh=Range(0.05, 0.08, 0.12)
    )
    swings = sensitivity(unsure)
    assert [swing.parameter for swing in swings] == ["economic life", "electricity", "PUE"]
    life = swings[0]
    assert (life.low_value, life.high_value) == ("3 years", "6 years")
    assert life.cpmt_low > life.cpmt_high
    assert swings[2].cpmt_high == pytest.approx(unsure.cpmt({**unsure.values("typical"), "pue": 1.25}))


def test_every_input_has_a_name_for_people(model):
    assert set(model().inputs) == set(SHOWN)


bands = st.lists(st.floats(0.01, 1e6), min_size=3, max_size=3).map(lambda values: Range(*sorted(values)))
shares = st.lists(st.floats(0, 0.5), min_size=3, max_size=3).map(lambda values: Range(*sorted(values)))


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    unsure=st.fixed_dictionaries(
        {
            "accelerators_usd": bands,
            "it_w": bands,
            "cost_of_capital": shares,
            "life_years": bands,
            "space_usd_per_kw_month": bands,
        }
    )
)
def test_the_parts_add_up_and_the_ends_are_in_order(model, unsure):
    found = cost_of(model(**unsure))
    assert found.total.low <= found.total.typical * (1 + 1e-9)
    assert found.total.typical <= found.total.high * (1 + 1e-9)
    for end in ("low", "typical", "high"):
        parts = sum(getattr(band, end) for _, band in found.parts)
        assert parts == pytest.approx(getattr(found.total, end), rel=1e-9)


# Power from how a step is spent, against measured servers, and the shares that must add up.


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
