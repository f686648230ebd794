"""Where tokens go: bounds, closed forms, random draws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard import catalog
from railyard.model.architecture import busiest, groups_visited, imbalance, places_visited, touched

KNOWN = catalog.load()


@given(st.sampled_from([8, 16, 64, 256]), st.sampled_from([1, 2, 4, 8]), st.floats(0.0, 4.0))
def test_load_lies_between_the_mean_and_everything(experts, ranks, skew):
    assert 1.0 <= imbalance(experts, ranks, skew) <= ranks * (1.0 + 1e-12)


def test_one_expert_a_rank_is_the_most_popular_ones_share():
    share = np.arange(1, 9) ** -1.0
    assert imbalance(8, 8, 1.0) == pytest.approx(8 * share[0] / share.sum())


def test_more_experts_a_rank_even_out():
    loads = [imbalance(256, ranks, 0.5) for ranks in (2, 8, 32, 128)]
    assert loads == sorted(loads)
    assert imbalance(256, 64, 0.0) == 1.0


def test_experts_touched_are_those_of_even_draws():
    draws = np.random.default_rng(1)
    seen = [len({expert for _ in range(20) for expert in draws.choice(64, 4, replace=False)}) for _ in range(400)]
    assert touched(np.array([64.0]), np.array([4.0]), np.array([20.0]))[0] == pytest.approx(np.mean(seen), rel=0.01)
    assert touched(np.array([64.0]), np.array([4.0]), np.array([1.0]))[0] == pytest.approx(4.0)


def test_the_busiest_rank_finds_as_many_experts_as_draws_do():
    # 128 experts on 8 ranks, 8 tokens of 8 experts each: the mean rank finds 6.4, the busiest of 8 some three more.
    draws, found = np.random.default_rng(2), []
    for _ in range(2000):
        hit = np.zeros(128, bool)
        for _ in range(8):
            hit[draws.choice(128, 8, replace=False)] = True
        found.append(hit.reshape(8, 16).sum(axis=1).max())
    one_row = (np.array([value]) for value in (128.0, 8.0, 8.0, 8.0))
    assert busiest(*one_row)[0] == pytest.approx(np.mean(found), rel=0.05)


def test_tokens_go_to_as_many_groups_as_experts_are_in():
    """8 experts in 8 groups, 2 of them: two; in one group: one; half of 256 drawn by 8: all groups but a few."""
    eight = KNOWN.model("mixtral-8x22b")
    assert groups_visited(eight, 8) == pytest.approx(2.0)
    assert groups_visited(eight, 1) == 1.0
    # Two of eight without repetition in four groups of two: both in one with probability 1/7.
    assert groups_visited(eight, 4) == pytest.approx(2 - 1 / 7)
    assert groups_visited(KNOWN.model("llama-3-70b"), 4) == 1.0


def test_tokens_go_to_places_as_draws_do():
    """Eight experts each anywhere of 5 places: 5 (1 - (4/5)^8) = 4.161; one expert is at one place."""
    assert places_visited(np.array([5.0, 5.0]), np.array([8.0, 1.0])) == pytest.approx([4.16114, 1.0], rel=1e-5)
