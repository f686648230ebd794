"""How much a cache serves, against what was measured."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.work.training.loading import hit_rate

POLICIES = ("pinned", "shared", "page-cache", "lru")


@pytest.mark.parametrize(("held", "missed"), [(0.35, 0.85), (0.65, 0.53)])
def test_linux_page_cache_under_shuffled_epochs(held, missed):
    """CoorDL (VLDB 2021, sections 4.3.2 and 7.1): ImageNet with 35 % and OpenImages with 65 % of it cached."""
    assert 1 - hit_rate("page-cache", held, 1.0) == pytest.approx(missed, abs=0.015)


def test_two_servers_fetch_what_the_other_one_has():
    """CoorDL, section 4.3.2: 146 GiB on two servers that cache 75 GiB each; each fetches 45 GiB an epoch."""
    missed = 1 - hit_rate("page-cache", 75.0, 146.0, servers=2)
    assert 146 / 2 * missed == pytest.approx(45, rel=0.03)
    assert hit_rate("shared", 75.0, 146.0, servers=2) == 1.0


@pytest.mark.parametrize(("held", "missed"), [(0.5, 0.91), (0.35, 0.94), (0.25, 0.97)])
def test_least_recently_used_is_bad_for_shards(held, missed):
    """CoorDL, figure 10: TFRecord under Linux; reading in long runs is the cache's worst case."""
    assert 1 - hit_rate("lru", held, 1.0) == pytest.approx(missed, abs=0.05)


def test_pinned_serves_what_it_holds():
    """CoorDL, section 7.1: 65 % held, 35 % fetched."""
    assert hit_rate("pinned", 0.65, 1.0) == 0.65


@given(st.floats(0.01, 1.2), st.integers(1, 64), st.sampled_from(POLICIES))
def test_a_hit_rate_is_a_share_and_no_cache_beats_one_that_keeps_what_it_has(held, servers, policy):
    rate = hit_rate(policy, held, 1.0, servers)
    assert 0 <= rate <= 1
    assert rate <= hit_rate("shared", held, 1.0, servers) + 1e-9
    if policy in {"page-cache", "lru"}:
        assert rate <= hit_rate("pinned", held, 1.0, servers) + 5e-3


@given(st.floats(0.05, 0.9), st.integers(1, 8), st.sampled_from(POLICIES))
def test_a_larger_cache_serves_more(held, servers, policy):
    assert hit_rate(policy, held, 1.0, servers) <= hit_rate(policy, held + 0.05, 1.0, servers) + 1e-6


@pytest.mark.parametrize(("policy", "servers"), [("page-cache", 1), ("page-cache", 3), ("lru", 1), ("lru", 3)])
def test_the_law_is_what_playing_the_cache_gives(policy, servers):
    draw, items, held = np.random.default_rng(1), 900, 0.4
    rooms = [{} for _ in range(servers)]
    hits = total = 0
    for epoch in range(24):
        for item, home in zip(draw.permutation(items).tolist(), draw.integers(0, servers, items).tolist(), strict=True):
            room, found = rooms[home], item in rooms[home]
            if epoch >= 16:
                hits, total = hits + found, total + 1
            if found and policy == "lru":
                del room[item]
            if not found and len(room) >= held * items:
                names = list(room)
                del room[names[0 if policy == "lru" else int(draw.integers(len(names)))]]
            room[item] = True
    assert hit_rate(policy, held, 1.0, servers) == pytest.approx(hits / total, abs=0.025)


@pytest.mark.parametrize(
    ("servers", "held", "hit"),
    [(2, 83 / 96, 13 / 16), (32, 0.795516, 0.792253), (32, 0.977845, 0.977491)],
    ids=["2 servers, T = 3", "32 servers, T = 50", "32 servers, T = 120"],
)
def test_least_recently_used_at_whole_characteristic_times(servers, held, hit):
    """The law in closed form where the characteristic time T is an integer of epochs, with q = 1 - 1/N.

    h = P(g <= T) = 1 - q^(T-1) + q^(T-1) / 2N, and c = E[min(g, T)] / N
      = (1 - 1/6N + (1 - 5/6N - q/6N) (1 - q^(T-1)) N) / N.
    N = 2, T = 3: h = 1 - 1/4 + 1/16 = 13/16; c = (11/12 + 13/24 x 3/4 x 2) / 2 = 83/96.
    N = 32, T = 50: q^49 = 0.211045, h = 1 - 0.211045 + 0.003298; c = (191/192 + 0.968913 x 0.788955 x 32) / 32.
    N = 32, T = 120: q^119 = 0.022866, h = 1 - 0.022866 + 0.000357; c = (191/192 + 0.968913 x 0.977134 x 32) / 32.
    """
    assert hit_rate("lru", held * 7e12, 7e12, servers) == pytest.approx(hit, abs=3e-6)
