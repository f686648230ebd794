"""Degrees of a replica: what they are refused for, and what they multiply to."""

from __future__ import annotations

import pytest

from railyard.kit.errors import InputError
from railyard.work.serving.layout import ServingLayout


@pytest.mark.parametrize("degree", ["tp", "pp", "dp_attention", "ep", "cp"])
@pytest.mark.parametrize("value", [0, -3])
def test_a_degree_below_one_is_refused(degree, value):
    with pytest.raises(InputError) as caught:
        ServingLayout(**{degree: value})
    assert f"{degree} must be at least 1" in str(caught.value)
    assert (caught.value.problems[0].key, caught.value.problems[0].found) == (degree, str(value))


def test_ranks_are_the_product_of_what_splits_a_replica():
    """5 x 3 ranks of a stage, 7 stages, 2 context ranks: 210; experts share the ranks of a stage."""
    layout = ServingLayout(tp=5, pp=7, dp_attention=3, ep=15, cp=2)
    assert (layout.stage_ranks, layout.ranks) == (15, 210)


@pytest.mark.parametrize(("kv_bits", "stored"), [(4, 4.5), (8, 8.0), (16, 16.0)])
def test_a_cache_of_four_bits_stores_a_scale_of_8_for_16_elements(kv_bits, stored):
    assert ServingLayout(kv_bits=kv_bits).stored_kv_bits == stored
