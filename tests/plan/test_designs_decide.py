"""Fronts, constraints and chances on numbers that a hand can work out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.ask.plan.confidence import _chances, _measure, _sliced
from railyard.ask.plan.judgement import dominator, front, promising
from railyard.ask.plan.objectives import BuildableDesign, Constraint, contradiction, relaxed
from railyard.ask.plan.uncertainty import Factor, Uncertainty, triangular

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
