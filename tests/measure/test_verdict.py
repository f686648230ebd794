"""What a comparison can say: bands of differences by hand, and ties."""

from __future__ import annotations

import math

import pytest

from railyard.measure import model_error
from railyard.measure import verdict as verdicts
from railyard.measure.model_error import ModelError, record, tax_row
from railyard.measure.result.money import ErrorRow
from railyard.measure.result.network import FaultFigures, NetworkFigures
from railyard.measure.result.section import Band
from railyard.measure.result.serving import ObjectiveFigures, RequestsFigures, ServingFigures
from railyard.measure.result.step import StepFigures, TaxFigures, UtilizationFigures
from railyard.measure.result.variants import ServedVariant, TrainingVariant
from railyard.measure.verdict import shared_by, verdict_of

# Half the width of the band is 40 %: e^-0.2 to e^0.6.
COLLECTIVE = ModelError(
    "collective", "1 to 64 MiB", math.exp(-0.2) - 1.0, math.exp(0.6) - 1.0, 0.1, 0.3, -0.1, 0.1, 100, 5, "operator"
)


# The farther end is e^0.5.
SLOWED = ModelError(
    "slowed kernels", "all", math.exp(-0.1) - 1.0, math.exp(0.5) - 1.0, 0.1, 0.3, -0.1, 0.1, 3, 2, "source"
)


@pytest.fixture(autouse=True)
def known(monkeypatch):
    monkeypatch.setattr(model_error, "collective_error", lambda: COLLECTIVE)
    for where in (verdicts, model_error):
        monkeypatch.setattr(where, "slowed_error", lambda: SLOWED)


def row(figure="cpmt", typical=1.0, low=0.9, high=1.3, between=0.1):
    return ErrorRow(
        figure=figure, family="f", low=low * typical, typical=typical, high=high * typical, between=between,
        rows=9, sources=2, held_out="source", prices=None,
    )  # fmt: skip


def taxed(exposed, slowed=0.0, outage=0.0):
    return TaxFigures.model_construct(
        tokens_lost=exposed + slowed + outage, exposed={"bandwidth": exposed, "outage": outage}, slowed_kernels=slowed
    )


def step(
    name,
    cost,
    exposed=0.0,
    slowed=0.0,
    *,
    settings=None,
    samples=(2.0,),
    layout="tp 8",
    ends=(0.5, 2.0),
    lost_s=0.0,
    rate=None,
    **error,
):
    """A variant that costs so much a million tokens, with these parts of its network tax."""
    return TrainingVariant.model_construct(
        name=name,
        settings=settings or {},
        bound=rate is not None and name == "ideal",
        outcome="died" if lost_s else "finished",
        faults=(FaultFigures.model_construct(lost_s=lost_s),),
        utilization=UtilizationFigures.model_construct(tokens_per_s_per_gpu=rate),
        network=NetworkFigures.model_construct(crosses=True, crosses_from=None),
        layout=layout,
        model_error=(row(typical=cost, **error),),
        step=StepFigures.model_construct(seconds=samples[0], samples=tuple(samples)),
        cpmt=Band(low=cost * ends[0], typical=cost, high=cost * ends[1]),
        tax=taxed(exposed, slowed),
        collectives=(),
    )


def only(*variants):
    found = verdict_of(variants)
    assert found is not None
    (difference,) = found.differences
    return found, difference


def test_one_variant_has_no_verdict():
    assert verdict_of([step("a", 1.0)]) is None


def test_the_network_alone():
    """Shares of 15 and 20 % at 40 %: 6 and 8 % of the step, 10 % together; 2 % of prices: 10.2 %."""
    fabric = [{"fabric": "roce"}, {"cluster.back_end.qps": 4}]
    found, difference = only(step("a", 1.0, 0.15, settings=fabric[0]), step("b", 1.1, 0.20, settings=fabric[1]))
    assert difference.shared == "computation"
    assert difference.model_band == pytest.approx(0.10)
    assert difference.price_band == pytest.approx(0.02)
    assert difference.difference == pytest.approx(0.1)
    assert difference.tied  # ln 1.1 = 9.5 % is inside 10.2 %
    assert (found.by, found.leading, found.best, found.ties) == ("cpmt", "a", None, ("b",))


def test_slowed_kernels_err_together():
    """Taxes of 15 and 20 % at 40 % are 10 % together; 6 and 14 % of slowed kernels at 50 % differ by 4 %: 10.8 %."""
    one, other = {"fabric": "roce"}, {"fabric": "uec"}
    _, difference = only(step("a", 1.0, 0.09, 0.06, settings=one), step("b", 1.1, 0.06, 0.14, settings=other))
    assert difference.model_band == pytest.approx(math.hypot(0.10, 0.04))


def test_the_band_of_a_tax():
    """A tax of 20 %, of which 10 are slowed kernels: e^0.6 of all of it and e^0.5 of these, of a longer step."""
    row = tax_row(taxed(0.1, 0.1), ())
    longer = math.hypot(0.2 * math.expm1(0.6), 0.1 * math.expm1(0.5))
    shorter = math.hypot(0.2 * math.expm1(-0.2), 0.1 * math.expm1(-0.1))
    assert row.typical == 0.2
    assert row.high == pytest.approx((0.2 + longer) / (1.0 + longer))
    assert row.low == pytest.approx((0.2 - shorter) / (1.0 - shorter))
    assert (row.figure, row.rows, row.sources) == ("network_tax", 103, 7)


def test_outages_have_no_band():
    """50 % more that a fault took: the error of collectives is on the 20 % beside it alone."""
    row = tax_row(taxed(0.1, 0.1, 0.5), ())
    assert row.typical == pytest.approx(0.7)
    # the tokens that are left fall by the same factor
    assert (1.0 - row.high) / 0.3 == pytest.approx((1.0 - tax_row(taxed(0.1, 0.1), ()).high) / 0.8)


def test_no_tax_takes_more_than_every_token():
    row = tax_row(taxed(0.9, 0.09), ())
    assert 0.9 < row.low < row.typical < row.high < 1.0


def test_outside_the_band_one_is_best():
    """ln 1.11 = 10.4 % is outside 10.2 %."""
    apart = step("a", 1.0, 0.15, settings={"fabric": "roce"}), step("b", 1.11, 0.20, settings={"fabric": "uec"})
    found, difference = only(*apart)
    assert not difference.tied
    assert (found.best, found.ties) == ("a", ())


def test_another_layout_shares_software_and_model():
    """A layout differs though only the fabric was varied: `auto` chose anew. The wider of the two bands counts."""
    _, difference = only(step("a", 1.0, between=0.07), step("b", 1.05, layout="tp 4", between=0.11))
    assert difference.shared == "software and model"
    assert difference.model_band == pytest.approx(math.log(1.11))


def test_another_machine_shares_nothing():
    """Ends of 30 and 40 % are 0.262 and 0.336 in logarithms: 0.427 together, and 2 % of prices."""
    one = step("a", 1.0, settings={"cluster.server": "x"}, high=1.3)
    found, difference = only(one, step("b", 1.5, settings={"cluster.server": "y"}, high=1.4))
    assert difference.shared == "nothing"
    assert difference.model_band == pytest.approx(0.42667, rel=1e-4)
    assert difference.band == pytest.approx(0.53287, rel=1e-4)
    assert found.ties == ("b",)


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        ({"fabric": "roce"}, {}, "computation"),
        ({"cluster.back_end.topology.distance": "1 km"}, {}, "computation"),
        ({"workload.training.global_batch": 8}, {}, "software and model"),
        ({"cluster.accelerators": 8}, {}, "nothing"),
        ({"cluster.server": "a"}, {"cluster.server": "b"}, "nothing"),
        ({"cluster.server": "a", "fabric": "roce"}, {"cluster.server": "a", "fabric": "uec"}, "computation"),
        ({"cluster.overrides.h100.x": 1}, {}, "nothing"),
    ],
)
def test_what_two_share(one, other, shared):
    assert shared_by(step("a", 1.0, settings=one), step("b", 1.0, settings=other)) == shared


def test_draws_add_the_error_of_their_mean():
    """Samples 1.9, 2.0, 2.1: deviation 0.1, of the mean 0.1 / sqrt 3 / 2; times 1.2816, of both: sqrt 2 of it."""
    drawn = (2.0, 1.9, 2.1)
    _, difference = only(step("a", 1.0, samples=drawn), step("b", 1.01, samples=drawn))
    assert difference.model_band == 0.0
    assert difference.draw_band == pytest.approx(1.2816 * 0.1 / math.sqrt(3) / 2 * math.sqrt(2))
    assert difference.band == pytest.approx(math.expm1(math.hypot(difference.draw_band, difference.price_band)))


def test_prices_that_move_together_cancel():
    """Both cost half or double at the ends: nothing but the least is left. One that triples moves by ln 1.5."""
    assert only(step("a", 1.0), step("b", 1.05))[1].price_band == pytest.approx(0.02)
    apart = only(step("a", 1.0), step("b", 1.05, ends=(0.5, 3.0)))[1]
    assert apart.price_band == pytest.approx(math.log(1.5))


def test_without_a_price_steps_are_compared():
    fast, slow = step("a", 1.0, samples=(2.0,)), step("b", 1.0, samples=(2.6,))
    free = [one.model_copy(update={"cpmt": None}) for one in (slow, fast)]
    found, difference = only(*free)
    assert (found.by, found.best, difference.price_band) == ("step_s", "a", 0.0)
    assert difference.difference == pytest.approx(0.3)


def service(name, attainment, *, count=600, goodput=5.0):
    return ServedVariant.model_construct(
        name=name,
        settings={},
        bound=False,
        model_error=(row("tokens_per_s_per_gpu", 10.0, between=0.2),),
        serving=ServingFigures.model_construct(
            cpmt=None,
            requests=RequestsFigures.model_construct(count=count),
            slo=ObjectiveFigures.model_construct(target=0.95, attainment=attainment, goodput_rps=goodput),
        ),
    )


def test_six_hundred_requests_tell_a_share_to_a_point():
    """1.2816 sqrt(0.95 x 0.05 / 600) = 1.14 %: 93.9 % may be 95 %, 93.8 % is not."""
    assert service("a", 0.9387).may_win
    assert not service("a", 0.9385).may_win
    assert not service("a", 0.9387, count=60_000).may_win


def test_services_that_are_late_are_not_compared():
    found = verdict_of([service("late", 0.5, goodput=9.0), service("a", 0.96), service("b", 0.95, goodput=4.0)])
    assert found is not None
    assert (found.by, found.leading, found.ties) == ("goodput_rps", "a", ())
    (difference,) = found.differences
    assert (difference.variant, difference.band) == ("b", pytest.approx(0.2))
    assert difference.difference == pytest.approx(-0.2)  # 5 is 25 % more than 4: outside 20 %


def test_a_job_that_dies_never_leads_however_cheap():
    """Of the dead the one that loses least comes first; losses that differ by less than a thousandth are the same."""
    dead = [step("a", 0.5, lost_s=86_400.0), step("b", 0.4, lost_s=86_410.0), step("c", 0.3, lost_s=90_000.0)]
    found = verdict_of([*dead, step("d", 9.0)])
    assert found is not None
    assert (found.leading, found.best, found.ranking, found.ties) == ("d", "d", ("d", "b", "a", "c"), ())
    found = verdict_of(dead)
    assert found is not None
    assert (found.leading, found.best, found.ranking, found.ties) == (None, None, ("b", "a", "c"), ())


def test_the_bound_never_leads():
    """It makes 105 tokens where the best product makes 100."""
    found = verdict_of([step("ideal", 0.5, rate=105.0), step("a", 1.0, rate=100.0), step("b", 1.01, rate=100.0)])
    assert found is not None
    assert (found.leading, found.bound, found.ties) == ("a", "ideal", ("b",))
    assert found.above_bound == pytest.approx(0.05)
    assert [row.variant for row in found.differences] == ["b"]


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        ({"workload.training.tokens": "1 T"}, {"workload.training.tokens": "2 T"}, ("workload.training.tokens",)),
        ({"rate": 4}, {"rate": 9}, ("rate",)),
        ({"workload.serving.requests.synthetic.rate": 4}, {}, ("workload.serving.requests.synthetic.rate",)),
        (
            {"workload": {"training": {"model": "x"}}},
            {"workload": {"training": {"model": "y"}}},
            ("workload.training.model",),
        ),
        ({"workload.trace.file": "a.goal"}, {"workload.trace.file": "b.goal"}, ("workload.trace.file",)),
        ({"workload.training.parallelism.tp": 4}, {"workload.training.parallelism.tp": 8}, ()),
        ({"workload.serving.speculation.model": "x"}, {"workload.serving.speculation.model": "y"}, ()),
        ({"fabric": "roce", "model": "x"}, {"fabric": "uec", "model": "x"}, ()),
    ],
)
def test_variants_that_do_different_work_have_no_winner(one, other, apart):
    found = verdict_of([step("a", 1.0, settings=one), step("b", 2.0, settings=other)])
    assert found is not None
    assert found.unlike == apart
    assert (found.leading is None, found.ranking == ()) == (bool(apart), bool(apart))


def test_every_question_of_the_record_has_a_band():
    for error in record().values():
        assert -1.0 < error.low <= 0.0 <= error.high
        assert 0.0 < error.median <= error.widest
        assert error.rows >= error.sources >= 1
    questions = {question for question, _ in record()}
    assert questions == {"step", "tpot", "ttft", "throughput", "power", "collective", "slowed kernels"}


def test_a_rate_falls_as_a_step_grows():
    """A step 25 % longer makes a fifth fewer tokens; one 20 % shorter a quarter more."""
    error = ModelError("step", "f", -0.2, 0.25, 0.1, 0.1, -0.1, 0.1, 9, 2, "source")
    rate = error.row("tokens_per_s_per_gpu", 100.0, inverse=True)
    assert (rate.low, rate.high) == pytest.approx((80.0, 125.0))
    step_row = error.row("step_s", 10.0)
    assert (step_row.low, step_row.typical, step_row.high) == pytest.approx((8.0, 10.0, 12.5))
    assert step_row.widest == pytest.approx(0.25)


def test_one_choice_under_several_names():
    """The same step and the same prices: one choice. The same step at another price, or the reverse: two."""
    twins = [step(name, 1.0, samples=(2.0, 2.1)) for name in ("a", "b")]
    apart = [step("c", 1.01, samples=(2.0, 2.1)), step("d", 1.0, samples=(2.0, 2.2))]
    found = verdict_of([*twins, *apart])
    assert found is not None
    assert found.same == (("a", "b"),)
    assert set(found.ties) == {"b", "c", "d"}
