"""Percentiles by nearest rank."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.kit.quantities import nearest_rank, percentile, percentile_bin


@pytest.mark.parametrize(
    ("share", "value"), [(0.0, 1), (0.01, 1), (0.5, 5), (0.51, 6), (0.9, 9), (0.99, 10), (1.0, 10)]
)
def test_of_ten_values(share, value):
    assert percentile(np.arange(1, 11), share) == value


def test_of_one_value():
    assert percentile(np.array([7]), 0.99) == 7


def test_a_hair_above_an_integer_is_that_integer():
    share = 0.07  # 0.07 x 100 is 7.000000000000001
    assert share * 100 > 7
    assert nearest_rank(share, 100) == 6


def test_of_a_histogram():
    count = np.array([0, 3, 0, 6, 1])
    assert [percentile_bin(count, share) for share in (0.01, 0.3, 0.31, 0.9, 0.91)] == [1, 1, 3, 3, 4]


@given(samples=st.lists(st.floats(0.1, 10), min_size=1, max_size=40), quantile=st.floats(0.01, 1))
def test_nearest_rank_is_a_sample_that_enough_do_not_exceed(samples, quantile):
    """The definition: the smallest value such that at least that share of the samples is not above it."""
    found = percentile(sorted(samples), quantile)
    assert found in samples
    assert sum(value <= found for value in samples) >= quantile * len(samples) - 1e-9
    smaller = [value for value in samples if value < found]
    if smaller:
        assert sum(value <= max(smaller) for value in samples) < quantile * len(samples) + 1e-9
