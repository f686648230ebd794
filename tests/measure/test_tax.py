"""The law by which a tax is divided, on steps whose causes are given."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from railyard.measure.result.step import EXPOSED, TaxFigures
from railyard.measure.utilization import tax_of


def test_direct_causes_share_the_loss_in_proportion_to_their_growth():
    """10 s, 6 s without a scale-out network: bandwidth grew by 2, kernels by 1, and a bubble behind them by 1."""
    found = tax_of(
        {"compute": 6.0, "bandwidth": 2.5, "bubble": 1.5},
        {"compute": 5.0, "bandwidth": 0.5, "bubble": 0.5},
        {"compute": 4.5, "bubble": 0.5},
        "flow",
    )
    assert found.tokens_lost == pytest.approx(0.4)
    assert found.exposed == pytest.approx({"bandwidth": 0.4 * 2 / 3, "latency": 0, "contention": 0, "straggler": 0})
    assert found.slowed_kernels == pytest.approx(0.4 / 3)
    assert found.scale_up.tokens_lost == pytest.approx(0.1)
    assert found.scale_up.exposed["bandwidth"] == pytest.approx(0.05)
    assert found.scale_up.slowed_kernels == pytest.approx(0.05)
    assert found.rest == pytest.approx({"compute": 0.45, "bubble": 0.05})
    assert (found.step_without_scale_out_s, found.step_without_networks_s, found.engine) == (6.0, 5.0, "flow")


def test_an_outage_of_the_network_is_no_bandwidth():
    """10 s of a mean step, of which 4 are until the job goes on after a fault of the network, and 1 is bandwidth."""
    found = tax_of(
        {"compute": 5.0, "bandwidth": 1.0, "outage": 4.0}, {"compute": 5.0}, {"compute": 5.0}, "flow", slows=False
    )
    assert found.exposed["outage"] == pytest.approx(0.4)
    assert found.exposed["bandwidth"] == pytest.approx(found.of_collectives) == pytest.approx(0.1)


def test_an_outage_counts_in_full_where_a_wait_hides_behind_the_network():
    """3 s of bandwidth hid 2 s of the host, and nothing hides behind an outage: 3 s of 10 are outage, 1 s bandwidth."""
    spent = {"compute": 4.0, "bandwidth": 3.0, "outage": 3.0}
    without = {"compute": 4.0, "host": 2.0}
    found = tax_of(spent, without, without, "flow")
    assert found.tokens_lost == pytest.approx(0.4)
    assert found.exposed["outage"] == pytest.approx(0.3)
    assert found.exposed["bandwidth"] == pytest.approx(0.1)


def test_a_wait_that_the_network_hid_is_no_tax():
    """4 s of contention hid 3 s of loading: without the network 1 s is won."""
    with_it = {"compute": 6.0, "contention": 4.0}
    without = {"compute": 6.0, "data": 3.0}
    found = tax_of(with_it, without, without, "flow")
    assert found.tokens_lost == pytest.approx(0.1)
    assert found.exposed["contention"] == pytest.approx(0.1)
    assert found.rest["data"] == pytest.approx(0.3)


@pytest.mark.parametrize("cause", ["data", "checkpoint", "outer update"])
def test_what_storage_and_meetings_wait_for_the_network_is_bandwidth(cause):
    found = tax_of({"compute": 3.0, cause: 2.0}, {"compute": 3.0, cause: 1.0}, {"compute": 3.0, cause: 1.0}, "flow")
    assert found.exposed["bandwidth"] == pytest.approx(found.tokens_lost) == pytest.approx(0.2)


def test_computation_that_nothing_slows_is_a_consequence():
    """In a trace without slowed kernels, computations of a rank that no longer overlap make its computation longer."""
    steps = ({"compute": 5.0, "latency": 1.0}, {"compute": 4.0, "latency": 0.5}, {"compute": 4.0, "latency": 0.5})
    assert tax_of(*steps, "flow", slows=False).exposed["latency"] == pytest.approx(0.25)
    assert tax_of(*steps, "flow").slowed_kernels == pytest.approx(0.25 * 2 / 3)


def test_a_network_without_limit_is_not_slower():
    found = tax_of({"compute": 4.0}, {"compute": 4.0, "straggler": 0.1}, {"compute": 4.0, "straggler": 0.2}, "flow")
    assert (found.tokens_lost, found.scale_up.tokens_lost) == (0.0, 0.0)
    assert math.fsum(found.rest.values()) == pytest.approx(1.0)
    assert found.step_without_scale_out_s == pytest.approx(4.1)


def test_a_cause_that_hardly_grew_has_no_more_than_all_of_the_loss():
    """The smallest number above zero, times a share, is rounded to itself or to zero."""
    found = tax_of({"compute": 1.001, "bandwidth": 5e-324}, {"compute": 0.001}, {"compute": 0.001}, "flow", slows=False)
    assert found.exposed["bandwidth"] == pytest.approx(found.tokens_lost) == pytest.approx(1.0 / 1.001)


CAUSES = ("compute", *EXPOSED, "bubble", "data", "checkpoint", "outer update", "dependency", "host")
SPENT = st.dictionaries(st.sampled_from(CAUSES), st.floats(0.0, 1e3), max_size=len(CAUSES)).map(
    lambda spent: {**spent, "compute": spent.get("compute", 0.0) + 1e-3}
)


@given(SPENT, SPENT, SPENT, st.booleans())
def test_two_taxes_and_the_rest_are_the_step_whatever_the_causes(spent, without_scale_out, without_networks, slows):
    found = tax_of(spent, without_scale_out, without_networks, "flow", slows=slows)
    for shares in (found, found.scale_up):
        parts = [*shares.exposed.values(), shares.slowed_kernels]
        assert min(parts) >= 0
        assert math.fsum(parts) == pytest.approx(shares.tokens_lost, abs=1e-12)
    assert min(found.rest.values()) >= 0
    total = found.tokens_lost + found.scale_up.tokens_lost + math.fsum(found.rest.values())
    assert total == pytest.approx(1.0)
    won = sum(spent.values()) - sum(without_scale_out.values())
    assert found.tokens_lost == pytest.approx(max(won, 0.0) / sum(spent.values()), abs=1e-9)


def test_figures_that_do_not_add_up_are_refused():
    found = tax_of({"compute": 3.0, "latency": 1.0}, {"compute": 3.0}, {"compute": 3.0}, "flow").model_dump()
    with pytest.raises(ValidationError, match="are not the tokens lost"):
        TaxFigures.model_validate({**found, "slowed_kernels": 0.1})
    with pytest.raises(ValidationError, match="are not the step"):
        TaxFigures.model_validate({**found, "rest": {"compute": 0.5}})
