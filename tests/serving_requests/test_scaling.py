"""Another load: what each way of scaling keeps, by index of dispersion, autocorrelation and conservation."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.kit.errors import InputError
from railyard.work.serving.requests import Sessions, synthetic
from railyard.work.serving.summary import autocorrelation, dispersion, gap_cv, repeated, scaled, summarize
from railyard.work.serving.traces import read_trace

if TYPE_CHECKING:
    from railyard.graph.request_table import RequestTable

AZURE = Path(__file__).parents[2] / "examples" / "serving" / "traces" / "AzureLLMInferenceTrace_code.csv"


@pytest.fixture(scope="module")
def azure() -> RequestTable:
    return read_trace(AZURE)


@pytest.fixture(scope="module")
def bursts() -> RequestTable:
    return synthetic(60_000, rate_per_s=20, kind="on-off", on_s=4, off_s=8, input_tokens=9, output_tokens=2)


@pytest.mark.parametrize("factor", [0.3, 2.5, 40.0])
def test_compression_keeps_counts_against_expected_count(azure: RequestTable, factor: float) -> None:
    other = scaled(azure, rate=factor * azure.rate_per_s)
    assert other.rate_per_s == pytest.approx(factor * azure.rate_per_s, rel=1e-9)
    assert gap_cv(other.arrival_ps) == pytest.approx(gap_cv(azure.arrival_ps), rel=1e-6)
    for window in (1.0, 10.0, 60.0):
        assert dispersion(other.arrival_ps, window / factor) == pytest.approx(
            dispersion(azure.arrival_ps, window), rel=0.01
        )
        assert autocorrelation(other.arrival_ps, window / factor) == pytest.approx(
            autocorrelation(azure.arrival_ps, window), abs=0.01
        )
    assert np.array_equal(other.input_tokens, azure.input_tokens)


@pytest.mark.parametrize("factor", [2.0, 6.0, 3.5])
def test_copies_keep_dispersion_and_autocorrelation_in_seconds(bursts: RequestTable, factor: float) -> None:
    other = scaled(bursts, rate=factor * bursts.rate_per_s, how="superpose", seed=3)
    assert other.rate_per_s == pytest.approx(factor * bursts.rate_per_s, rel=0.02)
    for window in (1.0, 5.0):
        index, before = dispersion(other.arrival_ps, window), dispersion(bursts.arrival_ps, window)
        assert index == pytest.approx(before, rel=0.15)
        assert autocorrelation(other.arrival_ps, window) == pytest.approx(
            autocorrelation(bursts.arrival_ps, window), abs=0.08
        )
    assert gap_cv(other.arrival_ps) < gap_cv(bursts.arrival_ps)


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_thinning_follows_its_law(bursts: RequestTable, share: float) -> None:
    other = scaled(bursts, rate=share * bursts.rate_per_s, how="thin")
    assert other.rate_per_s == pytest.approx(share * bursts.rate_per_s, rel=0.03)
    for window in (1.0, 5.0):
        law = 1 + share * (dispersion(bursts.arrival_ps, window) - 1)
        assert dispersion(other.arrival_ps, window) == pytest.approx(law, rel=0.12)


def test_thinning_keeps_whole_conversations() -> None:
    talks = synthetic(5000, rate_per_s=20, sessions=Sessions(turns=4), input_tokens=30, output_tokens=9)
    some = scaled(talks, rate=8, how="thin")
    before, after = Counter(talks.session.tolist()), Counter(some.session.tolist())
    assert 0 < len(after) < len(before)
    assert all(before[session] == turns for session, turns in after.items())


def test_copies_share_nothing_with_one_another() -> None:
    talks = synthetic(
        3000, rate_per_s=20, sessions=Sessions(turns=3, system_tokens=64), input_tokens=30, output_tokens=9
    )
    more = scaled(talks, rate=3 * talks.rate_per_s, how="superpose")
    assert len(more) == 9000
    assert len(np.unique(more.block_hash)) == 3 * len(np.unique(talks.block_hash))
    lengths = Counter(talks.input_tokens.tolist())
    assert Counter(more.input_tokens.tolist()) == {length: 3 * n for length, n in lengths.items()}
    assert len(np.unique(more.session)) >= 3 * len(np.unique(talks.session))


@settings(max_examples=25, deadline=None)
@given(factor=st.floats(0.01, 100), seed=st.integers(0, 2**32))
def test_nothing_is_lost_or_made(factor: float, seed: int) -> None:
    base = synthetic(300, rate_per_s=10, kind="gamma", cv=2, sessions=Sessions(turns=2), input_tokens=60, seed=seed)
    rate = factor * base.rate_per_s
    squeezed = scaled(base, rate=rate)
    assert np.array_equal(squeezed.block_hash, base.block_hash)
    assert squeezed.rate_per_s == pytest.approx(rate, rel=1e-6)
    if factor < 1:
        fewer = scaled(base, rate=rate, how="thin", seed=seed)
        assert set(fewer.arrival_ps.tolist()) <= set(base.arrival_ps.tolist())
        assert fewer.input_tokens.sum() <= base.input_tokens.sum()
    elif factor < 10:
        more = scaled(base, rate=rate, how="superpose", seed=seed)
        assert int(factor) * len(base) <= len(more) <= (int(factor) + 1) * len(base)
        assert more == scaled(base, rate=rate, how="superpose", seed=seed)
        assert more.arrival_ps[-1] <= base.arrival_ps[-1] + 2 * 10**12 / base.rate_per_s


@pytest.mark.parametrize(
    ("rate", "how", "message"),
    [
        (0.0, "compress", "more than 0"),
        (float("nan"), "compress", "more than 0"),
        (1e-9, "compress", "106 days"),
        (1.0, "superpose", "only add"),
        (100.0, "thin", "only takes"),
        (5.0, "shrink", "unknown way"),
    ],
)
def test_what_cannot_be_is_refused(bursts: RequestTable, rate: float, how: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        scaled(bursts, rate=rate, how=how)


def test_one_request_has_no_rate_to_scale(bursts: RequestTable) -> None:
    with pytest.raises(InputError, match="no rate"):
        scaled(bursts.head(1), rate=2)


def test_repeated_requests_are_the_same_from_other_users() -> None:
    """Rate and lengths stay, the copy comes a mean gap after the last; prefixes and sessions are shared within only."""
    talks = Sessions(turns=3, system_tokens=64)
    some = synthetic(50, rate_per_s=4, input_tokens=200, output_tokens=20, sessions=talks)
    many = repeated(some, 120)
    assert len(many) == 120
    assert repeated(some, 30) == some.head(30)
    assert many.head(50) == some
    assert repeated(some, 150).rate_per_s == pytest.approx(some.rate_per_s, rel=1e-6)
    second = many.take(np.arange(50, 100))
    assert np.array_equal(second.output_tokens, some.output_tokens)
    assert np.array_equal(np.diff(second.arrival_ps), np.diff(some.arrival_ps))
    assert not set(second.block_hash.tolist()) & set(some.block_hash.tolist())
    assert not set(second.session.tolist()) & set(some.session.tolist())
    assert summarize(second).cached_token_share == pytest.approx(summarize(some).cached_token_share)
