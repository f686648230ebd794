"""Fronts, constraints and chances on numbers that a hand can work out."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ask.plan.test_designs_plan import planned as finished
from tests.ask.plan.test_designs_plan import values

from railyard.ask.plan import confidence, judgement
from railyard.ask.plan import objectives as regret
from railyard.ask.plan.confidence import _chances, _measure, _sliced
from railyard.ask.plan.judgement import dominator, front, promising
from railyard.ask.plan.memo import memo_of_plan, other_winners, worth_page
from railyard.ask.plan.objectives import OBJECTIVES, BuildableDesign, Constraint, contradiction, measured_by, relaxed
from railyard.ask.plan.outcome import DesignOutcome
from railyard.ask.plan.planned import begin
from railyard.ask.plan.study import _remarks as remarks_of
from railyard.ask.plan.uncertainty import DesignWorth, Factor, Uncertainty, triangular
from railyard.ask.plan.worth import ServerOutages, availability, dearer, spares_for, to_json, worth
from railyard.catalog.grids import grid
from railyard.catalog.types import Range
from railyard.measure.cost.assumptions import carbon
from railyard.measure.result.choices import PlanAnswer, PlanConstraint, PlanRival, PlanSwing, PlanVerified
from railyard.work.scenario import load
from railyard.work.scenario.load import from_values
from railyard.work.study import study

POINTS = np.array([[1.0, 9.0], [2.0, 4.0], [3.0, 5.0], [4.0, 1.0], [2.0, 4.0], [9.0, 9.0]])


def test_the_front_is_what_nothing_beats():
    assert front(POINTS).tolist() == [True, True, False, True, True, False]
    assert dominator(POINTS, 2) in (1, 4)
    assert dominator(POINTS, 0) is None


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=25))
def test_the_front_is_that_of_all_pairs(rows):
    values = np.array(rows, np.float64)
    for at, on in enumerate(front(values)):
        beaten = any(np.all(other <= values[at]) and np.any(other < values[at]) for other in values)
        assert on != beaten


def test_promising_designs_begin_with_the_best_and_have_both_ends():
    assert promising(POINTS, 2) == [0, 3]
    assert promising(POINTS[:, :1], 3) == [0, 1, 4]
    assert len(promising(POINTS, 40)) == len(POINTS)


def looked(name: str, power: float, jct: float, cost: float, parts: tuple[str, ...] = ()) -> BuildableDesign:
    return BuildableDesign(name, ({"power": power, "jct": jct, "capex": cost},), frozenset(parts), cost)


DESIGNS = [
    looked("small", 1e5, 900.0, 5.0),
    looked("middle", 2e5, 500.0, 8.0, ("NVIDIA",)),
    looked("big", 4e5, 200.0, 9.0),
]


def test_the_fewest_constraints_that_exclude_each_other_are_named():
    power, deadline = Constraint("power", "power", 1.5e5), Constraint("deadline", "jct", 300.0)
    budget = Constraint("budget", "capex", 9.0)
    text = contradiction([budget, power, deadline], DESIGNS)
    assert text.startswith("`power` and `deadline` contradict each other")
    assert "power is at least 400 kW (big)" in text
    assert "jct is at least 900 s (small)" in text
    assert "budget" not in text
    assert "no design keeps `power`: power is at least 100 kW" in contradiction(
        [deadline, Constraint("power", "power", 5e4)], DESIGNS
    )


def test_what_a_constraint_costs_is_the_gain_without_it():
    rows = relaxed([Constraint("deadline", "jct", 480.0), Constraint("power", "power", 5e5)], DESIGNS)
    assert [(row.name, row.best) for row in rows] == [("deadline", "small"), ("power", "big")]
    assert rows[0].gain == pytest.approx(4 / 9)
    assert rows[0].gain_tenth == pytest.approx(1 / 9)
    assert rows[1].gain == 0.0


def test_excluded_makers_and_bounds_from_below():
    assert not Constraint("exclude", names=frozenset({"NVIDIA"})).keeps(DESIGNS[1].rows, DESIGNS[1].parts)
    least = Constraint("at_least.power", "power", 3e5, large=True)
    assert [least.keeps(one.rows, one.parts) for one in DESIGNS] == [False, False, True]


def test_chances_are_shares_of_draws_and_ties_are_divided():
    table = np.array([[1.0, 5.0, 2.0, 3.0], [2.0, 4.0, 2.0, 9.0]])
    assert _chances(table).tolist() == [0.625, 0.375]


def test_regret_is_the_share_behind_the_best_of_each_draw():
    table = np.array([[1.0, 6.0], [2.0, 4.0]])
    assert confidence.shortfall(table, share=True).tolist() == [[0.0, 0.5], [1.0, 0.0]]
    assert confidence.shortfall(np.array([[0.0, 0.5], [0.25, 0.25]]), share=False).tolist() == [
        [0.0, 0.25],
        [0.25, 0.0],
    ]


def test_designs_that_are_equal_within_error_are_ranked_by_expected_regret():
    """One is surely worse, one differs by luck alone, and one is better on the mean and worse in a quarter of draws."""
    many = 1000
    even = (np.arange(many) + 0.5) / many
    first = np.full(many, 0.10)
    better = 0.20 * even
    luck = first + np.where(np.arange(many) % 2, 0.09, -0.08)
    good_luck = first + np.where(np.arange(many) % 2, 0.08, -0.084)
    sure = first + 0.01
    assert confidence.ranking(np.array([first, sure, luck, better - 0.05])) == [3, 0, 2, 1]
    assert confidence.ranking(np.array([first, sure, good_luck])) == [0, 2, 1], (
        "a mean that luck explains changes nothing"
    )
    assert confidence.ranking(np.array([first, first + 0.001 * even])) == [0, 1]


@pytest.mark.parametrize(("third", "winner", "even"), [(29.5, "b", 7 / 6), (21.5, "c", 1.15)])
def test_a_design_wins_at_a_price_where_no_third_is_cheaper(monkeypatch, third, winner, even):
    """Switches of $1: a costs 10 + 10 p, b 17 + 4 p, level at p = 7/6 and $21.67; c has none and costs as given."""
    lines = {"a": (10.0, 10.0), "b": (17.0, 4.0), "c": (third, 0.0)}
    found = {name: [("switch", 1.0, lines[name][1] - 10.0)] for name in lines}
    monkeypatch.setattr(confidence, "_part_differences", lambda one, other: found[other.name])

    def worth(choice, at, shares, goodputs):
        fixed, count = lines[choice.name]
        return SimpleNamespace(figures={"cpmt": fixed + count * at["price of switch"]})

    monkeypatch.setattr(confidence, "worth", worth)
    rows = confidence.break_even([SimpleNamespace(name=name) for name in lines], [1.0])
    assert [(row.choice, row.dearer) for row in rows] == [(winner, True)]
    assert rows[0].even_usd == pytest.approx(even)


def test_what_would_change_the_choice_names_the_price_the_time_and_how_far_it_is():
    answer = PlanAnswer.model_validate_json((Path(__file__).parents[2] / "face/web/data/plan.json").read_text())
    swing = PlanSwing(
        **{"factor": "layout TP 2 of llama", "kind": "model", "low": -0.1, "high": 0.1},
        **{"lead_low": 0.1, "lead_high": -0.1, "best_low": answer.best or "", "best_high": "other"},
    )
    words = list(other_winners(answer.model_copy(update={"tornado": (swing,)})))
    assert words[0] == (
        '"spectrum-x, leaf-spine, oversubscription 4:1" wins if one tomahawk-5 costs 2 % more than today\'s $90.0k:'
        " treat them as equal."
    )
    assert words[2] == "other wins if the step time of layout TP 2 of llama is 11 % longer than the model says."


def test_what_the_best_design_lacks_is_said():
    """Each remark once, however many demands the design has; a plan without remarks has no such key."""
    machine = SimpleNamespace(cluster=SimpleNamespace(remarks=("cards do not fit; others do, for $1k more",)))
    planned = SimpleNamespace(choices=[SimpleNamespace(hardware=(machine, machine))])
    found = remarks_of(planned)
    assert found == {"remarks": ["cards do not fit; others do, for $1k more"]}
    assert remarks_of(SimpleNamespace(choices=[])) == {}
    text = (Path(__file__).parents[2] / "face/web/data/plan.json").read_text()
    answer = PlanAnswer.model_validate_json(text)
    assert "remarks" not in answer.plain()
    told = memo_of_plan(PlanAnswer.model_validate_json(json.dumps(json.loads(text) | found))).confidence
    assert [*memo_of_plan(answer).confidence, "Cards do not fit; others do, for $1k more."] == sorted(
        told, key=lambda line: line.startswith("Cards")
    )


def test_a_plan_says_that_expected_regret_chose_and_which_design_is_better_at_typical_values():
    """$0.301 is chosen, $0.3004 is 0.2 % less; the memo's bars are of the latter, and limits say what they bound."""
    answer = PlanAnswer.model_validate_json((Path(__file__).parents[2] / "face/web/data/plan.json").read_text())
    first, second = answer.front[0], (*answer.front[1:], *answer.runners_up)[0]
    chosen = first.model_copy(update={"objectives": first.objectives | {"cpmt": 0.301}, "expected_regret": 0.017})
    other = second.model_copy(update={"variant": "b, 4:1", "objectives": second.objectives | {"cpmt": 0.3004}})
    verified = PlanVerified(
        variant=chosen.variant, engine="flow", share_of_step=1.0, stands=False, packets_core_s=None,
        rivals=(PlanRival(variant="b, 4:1", value=0.3004, behind=-0.002),),
    )  # fmt: skip
    limit = {"gain_without": None, "gain_a_tenth_looser": None, "best_without": None}
    limits = (
        PlanConstraint(name="budget", limit=3e7, missed_by=0, **limit),
        PlanConstraint(name="at_most.step", limit=2.5, missed_by=1, **limit),
        PlanConstraint(name="exclude", limit=("roce",), missed_by=2, **limit),
    )
    more = {"front": (chosen,), "runners_up": (other,), "verified": verified, "constraints": limits}
    found = answer.model_copy(update=more)
    assert found.likely is other
    assert found.sentence().endswith('the least expected regret, 1.7 %; at typical values "b, 4:1" is 0.2 % better.')
    memo = memo_of_plan(found)
    assert [round(sum(bar.values()), 2) for bar in memo.chart.bars.values()] == [0.2, 0.0]
    assert memo.assumptions[:3] == [
        "Budget $30.0M: all designs fit.",
        "At_most.step 2.50 s: 1 design missed it.",
        "Exclude roce: 2 designs missed it.",
    ]
    assert any(
        line.endswith('at typical values "b, 4:1" is 0.2 % better, with more expected regret.')
        for line in memo.confidence
    )
    near = other.model_copy(update={"objectives": other.objectives | {"cpmt": 0.3009}})
    assert "expected regret" not in found.model_copy(update={"runners_up": (near,)}).sentence()


def test_the_triangular_distribution_has_its_mode_mean_and_ends():
    even = (np.arange(100_000) + 0.5) / 100_000
    values = triangular(even, 2.0, 3.0, 7.0)
    assert values[0] == pytest.approx(2.0, abs=0.02)
    assert values[-1] == pytest.approx(7.0, abs=0.02)
    assert values.mean() == pytest.approx(4.0, rel=1e-4)
    assert np.mean(values < 3.0) == pytest.approx(0.2, abs=1e-4)
    assert triangular(even[:3], 4.0, 4.0, 4.0).tolist() == [4.0, 4.0, 4.0]


def test_eight_of_ten_draws_of_the_model_are_inside_its_band():
    values = Factor("step", "model", -0.1, 0.05, 0.2).drawn((np.arange(1000) + 0.5) / 1000)
    assert np.mean((values > -0.1) & (values < 0.2)) == pytest.approx(0.8, abs=0.003)
    assert values.mean() == pytest.approx(0.05, abs=1e-6)


def test_knowing_what_decides_is_worth_the_mean_of_the_better():
    """A costs x, B costs 1/2, x even over 0 to 1: to know x gives E[min(x, 1/2)] = 3/8, without it 1/2."""
    x = (np.arange(20_000) + 0.5) / 20_000
    table = np.array([np.full(20_000, 0.5), x])
    gain, error, changes = _sliced(table, np.argsort(x), 0)
    assert gain == pytest.approx(1 / 8, rel=1e-2)
    assert gain > 20 * error
    assert changes == pytest.approx(0.5)
    shuffled = np.random.Generator(np.random.PCG64(1)).permutation(20_000)
    assert abs(_sliced(table, shuffled, 0)[0]) < 0.005
    assert math.isclose(float(table.mean()), 0.5, rel_tol=1e-3)


FACTORS = {
    "switch": Factor("switch", "price", 2.0, 3.0, 7.0),
    "step": Factor("step", "model", -0.2, 0.05, 0.3),
    "power": Factor("power", "power", 1.0, 1.5, 2.0),
}


def costs(switch, step, power):
    """Three designs: with two switches, with seven and a shorter step, and one that hangs on the step most."""
    return np.array(
        [
            (20.0 + 2 * switch) * np.exp(0.2 * step) + power,
            17.3 + 2.55 * switch + power,
            23.2 * np.exp(0.9 * step) + 0.6 * switch + power + 0.0 * step,
        ]
    )


def exact(name):
    """What knowing one factor is worth, by sums over a fine grid of all of them: no slices, no draws."""
    even = (np.arange(120) + 0.5) / 120
    at = {key: factor.drawn(even) for key, factor in FACTORS.items()}
    grid = np.meshgrid(*at.values(), indexing="ij")
    table = costs(*grid)
    axis = list(at).index(name)
    others = tuple(1 + other for other in range(3) if other != axis)
    known, without = table.mean(axis=others), table.mean(axis=(1, 2, 3))
    return (without.min() - known.min(axis=0).mean()) / without.min(), known.argmin(axis=0), int(without.argmin())


def test_what_to_measure_first_is_what_sums_over_all_values_say():
    doubts = Uncertainty(FACTORS, (0.0, 0.05))
    values = doubts.sampled(40_000, seed=5)
    found = {row.factor: row for row in _measure(costs(*values.values()), doubts, values)}
    gains = {name: exact(name)[0] for name in FACTORS}
    assert gains["step"] > gains["switch"] > 0.002 > gains["power"]
    assert list(found) == ["step", "switch"], "what raises all costs alike is worth nothing"
    for name, row in found.items():
        _, best, chosen = exact(name)
        assert row.gain == pytest.approx(gains[name], rel=0.05)
        assert row.changes == pytest.approx((best != chosen).mean(), abs=0.06)


def test_a_factor_that_says_nothing_is_not_to_be_measured():
    """Two designs that differ by luck alone: whatever is known, neither is better."""
    doubts = Uncertainty({"nothing": FACTORS["switch"]}, (0.0, 0.05))
    random = np.random.Generator(np.random.PCG64(3))
    values = doubts.sampled(2000, seed=1)
    assert _measure(1.0 + 0.1 * random.random((2, 2000)), doubts, values) == ()


# Regret by hand: three choices, two futures with odds of 3 to 1; the largest chooses another than the
# expected.

COSTS = {0: (1.0, 4.0), 1: (2.0, 2.0), 2: (1.2, 3.0)}
SHARES = (0.75, 0.25)


def test_by_hand():
    late = regret.relative(list(COSTS.values()))
    assert late == pytest.approx(np.array([[0.0, 1.0], [1.0, 0.0], [0.2, 0.5]]))
    assert regret.excess(list(COSTS.values())) == pytest.approx(np.array([[0.0, 2.0], [1.0, 0.0], [0.2, 1.0]]))
    both = regret.regrets(list(COSTS.values()), SHARES)
    assert both["regret"].tolist() == pytest.approx([1.0, 1.0, 0.5])
    assert both["expected_regret"].tolist() == pytest.approx([0.25, 0.75, 0.275])


def begun(objectives: list[str]):
    demand = [{"name": "a", "weight": 3}, {"name": "b", "set": {"model": "llama-2-13b"}}]
    section = {"space": {"fabric": ["roce", "uec", "infiniband"]}, "demand": demand, "objectives": objectives}
    found = begin(load.from_values(values(**section)))[0]
    for point, costs in COSTS.items():
        for number, cost in enumerate(costs):
            figures = {"cpmt": cost, "tokens_per_s": 60.0 / cost, "capex": 5.0}
            found.outcomes[point, number, "analytic"] = DesignOutcome(
                point, number, "analytic", step_s=1.0, figures=figures
            )
    found.points = sorted(COSTS)
    judgement.judge(found)
    return found


@pytest.mark.parametrize(
    ("objectives", "best", "value"),
    [
        (["regret", "cpmt"], 2, 0.5),
        (["expected_regret", "cpmt"], 0, 0.25),
        (["regret"], 2, 0.5),  # of dollars per token where nothing else is asked for
        # Pace is 60, 15; 30, 30; 50, 20 and the most wins: 0 and 1/2; 1/2 and 0; 1/6 and 1/3.
        (["regret", "tokens_per_s"], 2, 1 / 3),
    ],
)
def test_plans_rank_by_it(objectives, best, value):
    found = begun(objectives)
    table = judgement.values(found, found.points)
    assert int(np.argmin(table[:, 0])) == best
    assert table[best, 0] == pytest.approx(value)


def test_what_constraints_cost_is_in_what_regret_is_measured_by():
    found = begun(["regret", "capex"])
    assert measured_by(found.objectives).name == "capex"
    assert judgement.looked(found, 1).value == 5.0
    assert judgement.looked(begun(["regret"]), 1).value == pytest.approx(2.0)


def test_draws_compare_designs_within_each_draw(monkeypatch):
    """Two draws: in the second all costs of the second future are halved, so that the first choice regrets less."""
    costs = np.array([[[1.0, 1.0], [4.0, 2.0]], [[2.0, 2.0], [2.0, 1.8]], [[1.2, 1.2], [3.0, 1.9]]])
    rows = {
        at: DesignWorth({"cpmt": np.tensordot(SHARES, each, 1)}, [{"cpmt": future} for future in each])
        for at, each in enumerate(costs)
    }
    monkeypatch.setattr(confidence, "worth", lambda choice, *_more: rows[choice])
    what = (OBJECTIVES["regret"], OBJECTIVES["expected_regret"])
    found = confidence.compared([0, 1, 2], {}, what, SHARES)
    assert [row["regret"].tolist() for row in found] == [
        pytest.approx([1.0, 2.0 / 1.8 - 1]),
        pytest.approx([1.0, 1.0]),
        pytest.approx([0.5, 0.2]),
    ]
    assert found[0]["expected_regret"].tolist() == pytest.approx([0.25, 0.25 * (2.0 / 1.8 - 1)])


def test_a_whole_plan_by_expected_regret():
    demand = [{"name": "a"}, {"name": "b", "weight": 2, "set": {"model": "llama-2-13b"}}]
    section = {"space": {"fabric": ["roce", "infiniband"]}, "effort": {"flow": 0, "draws": 200}}
    found = finished(load.from_values(values(**section, demand=demand, objectives=["expected_regret", "cpmt"])))
    rows = {choice.point: [row["cpmt"] for row in found.rows(choice.point)] for choice in found.choices}
    least = [min(row[demand] for row in rows.values()) for demand in (0, 1)]
    for choice in found.choices:
        late = [cost / best - 1 for cost, best in zip(rows[choice.point], least, strict=True)]
        assert choice.figures["expected_regret"] == pytest.approx(late[0] / 3 + 2 * late[1] / 3, abs=1e-12)
    assert sum(found.sure.best["expected_regret"]) == pytest.approx(1.0)
    assert found.sure.bands["expected_regret"][1, 2] > 0.0
    assert found.sure.tornado


# What a little more is worth: against hand-computed points, the long-run law of outages, and runs made by
# hand.

SCENARIO = {
    "name": "worth",
    "cluster": {
        "accelerators": 32,
        "server": "hgx-h100",
        "back_end": {"topology": "rail-optimized", "fabric": {"name": "roce", "hop_latency": "1.5 us"}},
    },
    "workload": {
        "training": {
            "model": "llama-3-8b",
            "tokens": "1 B",
            "global_batch": 32,
            "sequence": 1024,
            "parallelism": {"tp": 1, "zero": 3, "micro_batch": 1},
        }
    },
    "plan": {"worth": {"draws": 1, "hop": "4 us", "tail": "2 %", "years": 40, "grids": ["NOR", "poland"]}},
}


@pytest.fixture(scope="module")
def found():
    return worth(from_values(SCENARIO), lambda _what, _share: None)


def runs(**changes):
    draft = from_values(SCENARIO).with_values({"repeat": 1, **changes}, "by hand")
    return study.run(draft, searched=False).result.variants[0]


def test_a_microsecond_is_the_difference_of_two_runs(found):
    one, other = runs(), runs(**{"cluster.back_end.fabric.hop_latency": "5.5 us"})
    assert other.step.seconds > one.step.seconds
    assert found.hop.steps == ((one.step.seconds, other.step.seconds),)
    # Tokens of a year at one price, bought at the other.
    tokens = one.cpmt.usd_per_gpu_h.typical * 32 * 8760 / one.cpmt.typical
    assert found.hop.usd_per_year.typical == pytest.approx((other.cpmt.typical - one.cpmt.typical) * tokens / 4)
    assert found.hop.usd_per_year.low < found.hop.usd_per_year.typical < found.hop.usd_per_year.high


def test_a_tail_is_a_spread_of_a_3_09th_of_it(found):
    one, other = runs(jitter={"law": "none"}), runs(jitter={"sigma": 0.02 / 3.0902323})
    assert found.tail.steps[0] == pytest.approx((one.step.seconds, other.step.seconds), rel=1e-12)
    hourly = one.cpmt.usd_per_gpu_h.typical * 32
    expected = (other.cpmt.typical / one.cpmt.typical - 1) * hourly * 8760 / 20
    assert found.tail.usd_per_year.typical == pytest.approx(expected)


def test_the_networks_share_is_that_of_the_bill(found):
    one = runs()
    bought = {row.name: row.typical_usd for row in one.capex.components}
    network = bought["NICs"] + bought["switches"] + bought["optics and cables"]
    share = network / (sum(bought.values()) - bought["installation"])
    assert found.network.capex.typical == pytest.approx(share)
    assert found.network.joules.typical == pytest.approx(one.power.data_movement_share)
    cost = {row.name: row.typical for row in one.cpmt.breakdown}
    drawn = one.power.data_movement_share * one.power.it_w.typical
    paid = share * (cost["capital"] + cost["operations"]) + one.power.data_movement_share * cost["energy"]
    paid += drawn / one.power.provisioned_w.typical * cost["space"]
    assert found.network.usd.typical == pytest.approx(paid / one.cpmt.typical)
    assert found.network.usd_per_year == pytest.approx(paid / one.cpmt.typical * found.usd_per_year.typical)


def test_nines_cost_spares_and_give_time(found):
    spare = sum(row.typical for row in runs().cpmt.breakdown if row.name != "energy") / runs().cpmt.typical
    each = spare * found.usd_per_year.typical / 4
    for one, before in zip(found.nines[1:], found.nines, strict=False):
        assert one.usd_per_year.typical == pytest.approx(one.spares[1] * each)
        assert one.step_usd_per_year == pytest.approx((one.spares[1] - before.spares[1]) * each)
        assert one.worth_usd_per_year == pytest.approx((one.reached - before.reached) * found.usd_per_year.typical)
        assert one.reached >= one.wanted


def test_outages_are_poisson_in_the_long_run():
    # 512 servers, one outage each 4,000 h; median 28 h, nine in ten within 72 h: sigma = ln(72/28)/1.28155 = 0.73696,
    # mean 28 exp(0.27156) = 36.736 h. On the mean 512 x 36.736 / 4,000 = 4.7022 are out.
    outages = ServerOutages(512, 4000.0, 28.0, 72.0, 600, 1)
    mean = 4.7022
    out = outages.out()
    assert out.sum() == pytest.approx(1.0)
    assert out @ np.arange(len(out)) == pytest.approx(mean, rel=1e-2)
    poisson = [math.exp(-mean) * mean**count / math.factorial(count) for count in range(12)]
    assert out[:12] == pytest.approx(poisson, abs=5e-3)
    # Sums of that law: 8 spares reach 0.9493, 9 do 0.9765, 10 do 0.9901: 99 % take 10.
    assert availability(out, 9) == pytest.approx(sum(poisson[:10]), abs=5e-3)
    assert spares_for(out, 0.985, 512) == 10
    assert spares_for(out, 0.985, 16) is None


def test_the_same_outages_meet_every_number_of_spares():
    out = ServerOutages(40, 3000.0, 24.0, 60.0, 50, 3).out()
    steps = [availability(out, spares) for spares in range(len(out))]
    assert steps == sorted(steps)
    assert steps[-1] == pytest.approx(1.0)


def test_carbon_by_hand():
    # 100 kW for a year at Norway's 30.1 g/kWh: 876,000 kWh, 26.37 t; 0.9 J a token are 0.25 kWh a million: 7.525 g.
    here = carbon(grid("nor", "here"), Range(50e3, 100e3, 200e3), Range(0.9, 0.9, 0.9))
    assert here.tonnes_per_year.typical == pytest.approx(26.3676)
    assert here.tonnes_per_year.high == pytest.approx(52.7352)
    assert here.grams_per_million.typical == pytest.approx(7.525)
    assert grid("Poland", "here").g_per_kwh == 661.9
    assert grid("world", "here").g_per_kwh == 481.0


def test_dearer_by_hand():
    # $2 an hour each of 3, $0.10 a million tokens become $0.11: 10 % of $52,560 a year.
    def variant(cpmt):
        band = SimpleNamespace(low=2.0, typical=2.0, high=4.0)
        return SimpleNamespace(cpmt=SimpleNamespace(low=cpmt, typical=cpmt, high=cpmt, usd_per_gpu_h=band))

    assert dearer(variant(0.10), variant(0.11), 3) == pytest.approx((5256.0, 5256.0, 10512.0))


def test_the_page_draws_what_the_json_holds(found):
    result = to_json(found)
    drawn = worth_page("One more microsecond costs $196 a year.", result)
    assert "One more microsecond costs $196 a year." in drawn
    assert "1 us more in every switch" in drawn
    assert "Norway (30.1 g/kWh, 2023)" in drawn
    assert drawn.count('class="bars"') == 3
    assert [row["grid"] for row in result["carbon"]["grids"]] == ["Norway", "Poland"]
