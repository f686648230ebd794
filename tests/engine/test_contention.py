"""Closed forms of sharing: what a link leaves, and how full hashing makes the fullest of equal links."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from railyard.engine.analytic import fullest, slowdown


def drawn(flows, links, sets, seed=5, draws=3_000):
    random = np.random.default_rng(seed)
    return np.mean([random.multinomial(flows, [1 / links] * links, size=sets).max() for _ in range(draws)])


def every_way(flows, links):
    """The mean maximum over all placements of so many flows on so many links."""
    return np.mean([np.bincount(way, minlength=links).max() for way in product(range(links), repeat=flows)])


@pytest.mark.parametrize(("flows", "links"), [(2, 2), (3, 2), (7, 2), (3, 3), (5, 4), (6, 3)])
def test_few_flows_as_every_placement_of_them(flows, links):
    assert fullest(float(flows), float(links), 1.0) == pytest.approx(every_way(flows, links), rel=0.012)


@pytest.mark.parametrize(
    ("flows", "links", "sets"), [(16, 2, 1), (3, 8, 1), (32, 8, 16), (64, 32, 8), (128, 16, 4), (4, 8, 32), (500, 3, 7)]
)
def test_many_flows_as_drawn(flows, links, sets):
    assert fullest(float(flows), float(links), float(sets)) == pytest.approx(drawn(flows, links, sets), rel=0.02)


def test_two_flows_on_two_links_meet_half_of_the_time():
    assert fullest(2.0, 2.0, 1.0) == pytest.approx(1.5, rel=0.002)


def test_one_link_takes_all_and_one_flow_is_alone():
    assert fullest(np.array([7.0, 1.0, 0.3]), np.array([1.0, 5.0, 5.0]), 9.0).tolist() == pytest.approx([7.0, 1.0, 1.0])


def test_hundreds_of_flows_on_a_link_do_not_underflow():
    assert fullest(40_000.0, 20.0, 1.0) == pytest.approx(drawn(40_000, 20, 1), rel=0.003)


def test_rows_of_any_shape_come_back_in_their_places():
    grid = fullest(np.array([[8.0], [16.0]]), np.array([2.0, 4.0, 2.0]), 1.0)
    assert grid.shape == (2, 3)
    assert (grid[:, 0] == grid[:, 2]).all()
    assert grid[1, 1] == fullest(16.0, 4.0, 1.0)


def test_what_fits_is_not_slowed():
    assert slowdown(np.array([0.61 + 0.39, 1.8])).tolist() == [1.0, 1.8]
