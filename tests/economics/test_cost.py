"""Dollars an hour and per million tokens against published arithmetic, and what must hold for any inputs."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from railyard.catalog import Range
from railyard.measure.cost.cost import cost_of, cpmt
from railyard.measure.cost.evaluate import SHOWN, sensitivity


def per_gpu(model, end="typical"):
    return {name: usd / 8 for name, usd in model.usd_per_h(model.values(end)).items()}


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
