"""The law of jitter: against its closed forms, against drawn steps, and on published quantiles."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.work.training.jitter import Interruption, JitterLaw, law_of, median_delay_s

MEAN_S, RATE_HZ = 0.01, 1e-3


def plain(sigma: float = 0.0, *more: Interruption) -> JitterLaw:
    return JitterLaw("", sigma, (Interruption(RATE_HZ, MEAN_S), *more), "")


def test_one_kind_is_a_gumbel_distribution() -> None:
    """p95 - p50 is 2.60 means, however many ranks; the median is mean ln(rate N T / ln 2)."""
    for ranks in (10_000, 100_000):
        law = plain()
        middle, high = (law.delay_s(share, ranks, 5.0, 8) for share in (0.5, 0.95))
        assert high - middle == pytest.approx(MEAN_S * (math.log(math.log(2)) - math.log(-math.log(0.95))), rel=1e-6)
        assert middle == pytest.approx(MEAN_S * math.log(RATE_HZ * ranks * 5.0 / math.log(2)), rel=1e-6)


def test_without_interruptions_steps_are_normal() -> None:
    law = JitterLaw("", 0.01, (), "")
    assert law.delay_s(0.5, 8, 1.0, 4) == pytest.approx(0, abs=1e-6)
    assert law.delay_s(0.95, 8, 1.0, 4) == pytest.approx(1.645 * 0.01 / 2, rel=0.02)
    assert law.ratio(0.95, 8, 1.0, 400) < law.ratio(0.95, 8, 1.0, 4)


def test_the_law_is_the_maximum_of_drawn_interruptions() -> None:
    rng = np.random.default_rng(1)
    ranks, step_s = 2000, 2.0
    law = plain(0.005, Interruption(2e-5, 0.3))
    drawn = np.zeros(40_000)
    for kind in law.interruptions:
        times = rng.poisson(kind.rate_hz * ranks * step_s, len(drawn))
        for number in np.flatnonzero(times):
            drawn[number] = max(drawn[number], rng.exponential(kind.mean_s, times[number]).max())
    drawn += rng.normal(0, 0.005 * step_s / math.sqrt(8), len(drawn))
    for share in (0.5, 0.95, 0.99):
        found = law.delay_s(share, ranks, step_s, 8)
        assert (drawn <= found).mean() == pytest.approx(share, abs=0.006)


@settings(max_examples=50, deadline=None)
@given(ranks=st.integers(1, 200_000), step_s=st.floats(0.05, 100), batches=st.integers(1, 512))
def test_quantiles_are_ordered_and_grow_with_ranks(ranks: int, step_s: float, batches: int) -> None:
    law = plain(0.01, Interruption(1e-6, 0.5))
    found = [law.delay_s(share, ranks, step_s, batches) for share in (0.05, 0.5, 0.95, 0.99)]
    assert found == sorted(found)
    assert law.delay_s(0.5, 2 * ranks, step_s, batches) >= found[1] - 1e-9
    assert law.share_below(found[2], ranks, step_s, batches) == pytest.approx(0.95, abs=1e-3)


def test_the_median_of_many_designs_is_that_of_each(h100) -> None:
    law = law_of(h100)
    ranks, steps = np.array([8.0, 512.0, 4096.0, 16_384.0]), np.array([0.3, 11.0, 1.6, 5.0])
    steady = JitterLaw("", 0.0, law.interruptions, "")
    wanted = [max(steady.delay_s(0.5, int(n), t, 1), 0.0) for n, t in zip(ranks, steps, strict=True)]
    assert median_delay_s([h100] * 4, ranks, steps) == pytest.approx(wanted, abs=1e-6)
    assert median_delay_s([h100], ranks[:1], steps[:1])[0] == 0


# p95/p50 of steps on Eos (MLPerf Training v3.1 and v5.0): ranks, step in s, micro-batches, measured. Only those of 512
# and 768 were fitted. Left out: 2,560 (1.080), which no run beside it resembles.
EOS = [
    (512, 11.052, 128, 1.0014), (768, 11.0751, 128, 1.0016), (4096, 1.6088, 16, 1.0121), (6144, 1.6153, 16, 1.0134),
    (8192, 1.6193, 16, 1.0122), (10_240, 0.9256, 8, 1.0184), (10_752, 0.9296, 8, 1.0176), (512, 55.1341, 288, 1.0024),
    (2048, 14.2202, 72, 1.0054), (8192, 5.1801, 24, 1.0275),
]  # fmt: skip


@pytest.mark.parametrize(("ranks", "step_s", "batches", "measured"), EOS)
def test_eos_within_three_hundredths(h100, *, ranks: int, step_s: float, batches: int, measured: float) -> None:
    assert law_of(h100).ratio(0.95, ranks, step_s, batches) == pytest.approx(measured, abs=0.03)
