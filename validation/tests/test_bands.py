"""Bands of left-out errors, by hand."""

from __future__ import annotations

import math
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from railyard.cluster.bill import NOTHING, BillOfMaterials, BillRow
from railyard.kit.errors import InputError
from railyard.measure.model_error import judged_software, record
from railyard.work.serving.software import CONSTANTS, LEVEL_SPREAD, constants
from railyard_validation import faults
from railyard_validation.bands import Miss, bands
from railyard_validation.bills import compare, counted
from railyard_validation.faults import compared, page
from railyard_validation.robust import Priors, Rows, minimise
from railyard_validation.serving import fit as serving
from railyard_validation.synthesis import Published, Row, published
from railyard_validation.synthesis import compared as synthesis_compared


def miss(error, source="s", group="g", family="f", question="step"):
    return Miss(question, family, source, group, error, "source")


def of(errors, **same):
    (found,) = bands([miss(error, **same) for error in errors])
    return found


def test_nine_rows_reach_to_their_ends():
    """Of nine rows the tenth is the new one: nine of ten times it is below the highest. ln 1.25 is 25 % more time."""
    errors = [math.log(1.0 + share) for share in (-0.2, -0.1, -0.05, 0.0, 0.02, 0.04, 0.1, 0.15, 0.25)]
    found = of(errors)
    assert (found.low, found.high) == pytest.approx((-0.2, 0.25))
    assert found.median == pytest.approx(0.1)
    assert (found.rows, found.sources, found.held_out) == (9, 1, "source")


def test_nineteen_rows_leave_out_one_at_each_end():
    """0.9 x (19 + 1) = 18: the eighteenth of nineteen."""
    found = of([step / 100 for step in range(-9, 10)])
    assert found.high == pytest.approx(math.expm1(0.08))
    assert found.low == pytest.approx(math.expm1(-0.08))


def test_a_band_holds_the_prediction():
    """Measurements that were all slower than predicted do not say that the prediction is impossible."""
    assert of([0.1, 0.2, 0.3, 0.4, 0.5]).low == 0.0


def test_a_large_source_does_not_drown_a_small_one():
    """300 rows of one source weigh as 30: of 40 in all, ten others at 0.5 are a quarter and make the high end."""
    large = [miss(0.0, source="large", group=str(number)) for number in range(300)]
    small = [miss(0.5, source="small", group=str(number)) for number in range(10)]
    (found,) = bands([*large, *small])
    assert found.high == pytest.approx(math.expm1(0.5))
    assert found.sources == 2


def test_what_rows_share_cancels_in_their_difference():
    """All rows of a group err by 0.30 and by 0, 0.01, 0.02, 0.03 besides: of six pairs 1, 1, 1, 2, 2, 3 hundredths.

    0.8 x (6 + 1) / 6 of them is the sixth.
    """
    found = of([0.30, 0.31, 0.32, 0.33])
    assert found.between == pytest.approx(math.expm1(0.03))
    assert found.high > 0.35


def test_with_too_few_pairs_nothing_cancels():
    """Three rows are three pairs: as if independent, sqrt(2) of the wider end."""
    assert of([0.1, 0.1, 0.1]).between == pytest.approx(math.expm1(math.sqrt(2.0) * 0.1))


def test_rows_of_other_groups_are_no_pairs():
    rows = [miss(0.1 * number, group=str(number)) for number in range(6)]
    (found,) = bands(rows)
    assert found.between == pytest.approx(math.expm1(math.sqrt(2.0) * 0.5))


def test_questions_and_families_are_apart():
    found = bands([miss(0.1), miss(0.2, family="other"), miss(0.3, question="tpot")])
    assert [(one.question, one.family) for one in found] == [("step", "f"), ("step", "other"), ("tpot", "f")]


def test_three_runs_of_the_same_owner_take_out_what_they_share():
    """Five rows that all err by 0.2 are right after calibration; with three rows nobody has three others."""
    found = of([0.2] * 5)
    assert (found.calibrated_low, found.calibrated_high) == pytest.approx((0.0, 0.0), abs=1e-12)
    assert of([0.2] * 3).calibrated_high == pytest.approx(math.expm1(0.2))


def test_one_odd_run_among_three_does_not_mislead():
    """Of 0, 0, 0, 0 and 0.3 the last is judged by the others: 0.3; the rest by a median that is 0 whoever is drawn."""
    found = of([0.0, 0.0, 0.0, 0.0, 0.3])
    assert found.calibrated_high == pytest.approx(math.expm1(0.3))
    assert found.calibrated_low == 0.0


# Least squares with Huber's weights and priors, against normal equations solved by hand.

AROUND_ZERO = Priors(np.zeros(1), np.array([0.1]))


def fitted(measured, rows, priors=AROUND_ZERO):
    """One constant x that every row measures: miss = x - measured."""
    found = minimise(
        lambda x: x[0] - np.array(measured),
        lambda x: np.ones((len(measured), 1)),
        priors,
        rows,
        iterations=60,
        precision=1e-14,
    )
    return float(found[0])


def test_rows_and_prior_weigh_by_their_spreads():
    # 2 / 0.04^2 x + x / 0.1^2 = (0.03 + 0.05) / 0.04^2
    assert fitted([0.03, 0.05], Rows(0.04, 2.0)) == pytest.approx(50 / 1350, rel=1e-6)


def test_a_row_far_off_pulls_no_harder_than_at_the_edge():
    # The third row adds 2 / 0.04 to the right side wherever it lies, half of it at half the weight.
    for far in (1.0, 3.0):
        assert fitted([0.03, 0.05, far], Rows(0.04, 2.0)) == pytest.approx(100 / 1350, rel=1e-5)
    halved = Rows(0.04, 2.0, np.array([1.0, 1.0, 0.5]))
    assert fitted([0.03, 0.05, 1.0], halved) == pytest.approx(75 / 1350, rel=1e-5)


def test_bounds_hold():
    bounded = Priors(np.zeros(1), np.array([0.1]), np.array([-1.0]), np.array([0.02]))
    assert fitted([0.03, 0.05], Rows(0.04, 2.0), bounded) == pytest.approx(0.02, rel=1e-9)


class OneConstant:
    """Evidence of rows that tell a constant by their seconds a token, and nothing of the first one.

    Args:
        name: The constant.
        measured: Logarithm of it over its prior, by row.
    """

    def __init__(self, name, measured):
        self.name, self.measured = name, np.array(measured)
        self.weight = np.stack([np.ones(len(measured)), np.zeros(len(measured))])

    def misses(self, known):
        ratio = getattr(known, self.name) / constants()[self.name].prior
        return np.concatenate([np.log(ratio) - self.measured, np.zeros(len(self.measured))])


def test_effects_of_levels_share_what_rows_have_in_common():
    """Two rows of one level, three of it and another: both effects by the normal equations."""
    name = "gemm_fraction"
    known = constants()[name]
    member = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 1.0], [1.0, 1.0], [1.0, 1.0]])
    near = np.tile([constants()[each].prior for each in CONSTANTS], (len(member), 1))
    made = serving.Design(((name, "all"), (name, "/a")), member, near)
    found = serving.fit(made, OneConstant(name, [-0.03, -0.03, -0.07, -0.07, -0.07]), iterations=60)
    counts = np.array([[5.0, 3.0], [3.0, 3.0]]) / 0.08**2 + np.diag([known.spread**-2.0, LEVEL_SPREAD**-2.0])
    wanted = np.linalg.solve(counts, np.array([-0.27, -0.21]) / 0.08**2)
    assert found == pytest.approx(wanted, rel=0.01)


# The page of believe.md and the shipped record follow from the committed errors.

TOOLS = Path(__file__).resolve().parents[1] / "tools"


@pytest.fixture
def tools(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    yield
    for name in ("believe_page", "model_errors"):
        sys.modules.pop(name, None)


def test_the_shipped_bands_follow_from_the_committed_errors(tools):
    import model_errors

    from railyard_validation.bands import bands

    shipped = {key: asdict(error) for key, error in record().items()}
    for band in bands(model_errors.recorded()):
        assert shipped.pop((band.question, band.family)) == model_errors._row(band)
    assert not shipped


def test_the_page_is_of_the_shipped_record(tools):
    import believe_page

    assert believe_page.PAGE.read_text(encoding="utf-8") == believe_page.page()


def test_a_line_of_the_page(tools):
    import believe_page

    from railyard.measure.model_error import ModelError

    error = ModelError("power", "all", -0.104, 0.206, 0.074, 0.126, -0.05, 0.04, 1250, 3, "source")
    assert believe_page.line(error) == (
        "| power of the accelerators | all | 7 % | -10 to +21 % | -5 to +4 % | 13 % | 1,250 rows, 3 sources |"
    )


def test_a_class_is_signed_on_when_every_family_of_it_is_near(tools):
    import believe_page

    by_name = {one.forecast.short: one for one in believe_page.judged()}
    known = by_name["training time and cost of known software"]
    assert len(known.errors) == 4
    assert known.before == (min(one.low for one in known.errors), max(one.high for one in known.errors))
    signed = [name for name, one in by_name.items() if one.near(one.before)]
    assert signed == ["collectives from 64 MiB"]


def test_nobody_signs_on_three_rows(tools):
    import believe_page

    few = next(one for one in believe_page.judged() if one.forecast.question == "slowed kernels")
    assert max(-few.before[0], few.before[1]) <= believe_page.NEAR
    assert not few.near(few.before)


def test_judged_software_is_of_the_judged_runs(tools):
    import model_errors

    from railyard import catalog

    assert list(judged_software()) == model_errors.judged_software(catalog.load())


# Bounds of comparisons under faults, by hand, and what breaks them.


def hand(name, spines=2, bundle=4):
    """A step of 60 ms, of which a NIC needs 16."""
    return faults._Hand(name, 0.06, 0.016, spines, bundle)


def test_bounds_by_hand():
    """7 of 8 cables are 8/7 of the time, one of 4 at a quarter leaves 3.25; half of the spines is twice the time."""
    assert hand("uec", 1, 8).dead_cable().high == pytest.approx(0.06 * 8 / 7)
    assert hand("uec").slow_cable().high == pytest.approx(0.06 * 4 / 3.25)
    assert hand("spectrum-x").slow_cable().high == pytest.approx(0.24)
    assert hand("infiniband").dead_spine().high == pytest.approx(0.12)
    assert hand("roce").dead_spine().low == pytest.approx(0.032)
    assert hand("roce", spines=1).dead_spine().dies
    assert not hand("ideal", spines=1).dead_spine().dies
    assert hand("uec").slow_nic().low == pytest.approx(0.06)
    assert faults._Hand("uec", 0.04, 0.016, 2, 4).slow_nic().low == pytest.approx(0.016 / 0.3)
    assert hand("roce").dies(30.0, "").low == pytest.approx(30 + 600 + 1.3158 * 86_400 + 374 + 900)


def test_what_is_outside_is_told():
    """Two fabrics and the bound: one is faster than the crossbar, the dead one leads."""
    step = lambda seconds: {"samples": [seconds], "without_faults_s": 0.06}  # noqa: E731
    ideal = {"name": "ideal", "bound": True, "outcome": "finished", "step": step(0.07)}
    fast = {"name": "uec", "bound": False, "outcome": "finished", "step": step(0.065), "cpmt": {"typical": 2.0}}
    dead = {"name": "roce", "bound": False, "outcome": "died", "step": step(0.07), "cpmt": {"typical": 1.0}}
    verdict = {"leading": "roce", "ranking": ["roce", "uec"]}
    by_name = {one["name"]: one for one in (ideal, fast, dead)}
    bounds = hand("uec").slow_nic()
    assert list(faults._problems("slow NIC", fast, bounds, 0.0, ideal)) == [
        "its step is shorter than on a crossbar under the same fault"
    ]
    assert list(faults._problems("slow NIC", dead, bounds, 9.0, ideal)) == ["died"]
    assert list(faults._misplaced(dead, verdict, by_name)) == ["it leads, and its job dies"]
    assert list(faults._misplaced(fast, verdict, by_name)) == ["ranked behind roce"]


def test_a_slow_nic_is_inside_on_every_fabric():
    rows = compared("slow NIC", [96])
    assert [row.problems for row in rows] == [()] * 6
    assert {row.hit for row in rows} == {"1 of 96 nic"}
    assert "**6 of 6 rows are inside of their bounds.**" in page(rows)


# Bills of published designs: every difference has its cause, and sums of rows are what they say.

TABLE = Path(__file__).parents[1] / "data" / "bills" / "bills.csv"


@pytest.fixture(scope="module")
def items():
    return compare(TABLE)


def test_every_difference_has_its_cause(items):
    assert all(one.cause for one in items if one.difference)
    assert sum(one.difference == 0 for one in items) == 80
    assert len(items) == 91


def test_switches_and_cables_of_the_compute_fabric_are_the_published_ones(items):
    judged = [one for one in items if one.table in ("table 3", "table 4")]
    assert len(judged) == 46
    assert not [one for one in judged if one.difference]


def test_sums():
    rows = [
        BillRow("optic", "a", 10, NOTHING, NOTHING, "back-end", "nic"),
        BillRow("optic", "b", 7, NOTHING, NOTHING, "storage", "nic"),
        BillRow("switch", "c", 3, NOTHING, NOTHING, "back-end", "leaf"),
    ]
    bill = BillOfMaterials(tuple(rows))
    assert counted(bill, "optic/*/nic") == 17
    assert counted(bill, "0.5 optic/back-end/nic + switch/*/*") == 8
    assert counted(bill, "optic/*/nic/b + -2 switch/*/*") == 1
    with pytest.raises(InputError, match="kind/network/tier"):
        counted(bill, "optic")


def test_a_wrong_table_is_said(tmp_path):
    table = tmp_path / "t.csv"
    head = TABLE.read_text(encoding="utf-8").splitlines()[0]
    table.write_text(f"{head}\nd,t,c,x.yaml,,i,many,a/b/c,\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        compare(table)
    assert caught.value.problems[0].key == "published"


# TE-CCL's published finishes: which of them a schedule can have, and what ours are beside them.

NDV2 = Published("ndv2", "2", "all-to-all", "1MB", 290.0, 1.25)


def row(**changes: float) -> Row:
    plain = Row("ndv2", "2", "all-to-all", "1MB", 62_500.0, 330.0, 325.0, 321.3, 320.0, 1.25, sound=True)
    return replace(plain, **changes)


@pytest.mark.parametrize(
    ("published_us", "epoch_us", "group"),
    [(330.0, 1.25, "compared"), (321.3, 1.25, "compared"), (320.5, 20.0, "rounded"), (320.5, 1.25, "unexplained"),
     (319.0, 20.0, "unexplained")],
)  # fmt: skip
def test_what_a_published_finish_is(published_us, epoch_us, group):
    assert row(published_us=published_us, epoch_us=epoch_us).group == group


def test_the_row_that_no_schedule_can_have_by_hand():
    """Eight ranks send 1/16 of 1 MB to each of eight others over one link of 12.5 GB/s, whose latency is 1.3 us."""
    (found,) = synthesis_compared([NDV2])
    assert found.pair_bytes == 62_500
    assert found.lower_bound_us == pytest.approx(64 * 62_500 / 12.5e3 + 1.3)
    assert found.rates_us == pytest.approx(320.0)
    assert found.group == "unexplained"
    assert found.finish_us == pytest.approx(found.lower_bound_us, rel=0.02)


def test_every_size_of_the_table_is_there_once():
    rows = published()
    assert len(rows) == 33
    assert next(one.finish_us for one in rows if (one.collective, one.size) == ("all-to-all", "1MB")) == 290.0


@pytest.mark.slow
def test_ours_is_as_good_wherever_a_schedule_can_be():
    rows = synthesis_compared(published())
    groups = [one.group for one in rows]
    assert (groups.count("compared"), groups.count("rounded"), groups.count("unexplained")) == (21, 4, 8)
    assert all(one.sound for one in rows)
    assert all(one.finish_us <= one.published_us for one in rows if one.group == "compared")
    assert all(one.finish_us <= 1.01 * one.published_us for one in rows if one.group == "rounded")
