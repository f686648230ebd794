"""Synthetic requests against the closed forms of their laws; the same whatever the pieces they are made in."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from railyard.graph.request_table import joined
from railyard.kit.errors import InputError
from railyard.work.serving.arrivals import KINDS, Arrivals, Empirical, FixedLength, LogNormal, Pairs
from railyard.work.serving.requests import RequestClass, Sessions, stream_synthetic, synthetic
from railyard.work.serving.section import RequestsSection
from railyard.work.serving.summary import autocorrelation, dispersion, gap_cv, repeated, scaled, summarize
from railyard.work.serving.traces import read_trace

if TYPE_CHECKING:
    from railyard.graph.request_table import RequestTable

COUNT = 200_000


@pytest.mark.parametrize(("kind", "cv"), [("poisson", 1.0), ("gamma", 0.5), ("gamma", 3.0), ("weibull", 2.0)])
def test_renewal_arrivals_have_their_rate_and_burstiness(kind: str, cv: float) -> None:
    requests = synthetic(COUNT, rate_per_s=40, kind=kind, cv=cv, input_tokens=10, output_tokens=1)
    assert requests.rate_per_s == pytest.approx(40, rel=4 * cv / math.sqrt(COUNT))
    assert gap_cv(requests.arrival_ps) == pytest.approx(cv, rel=0.05)
    assert dispersion(requests.arrival_ps, 10.0) == pytest.approx(cv**2, rel=0.2)  # tends to cv^2


def test_drawn_requests_without_a_load_come_at_the_rate_of_all() -> None:
    lengths = {"input": 100, "output": 10}
    section = RequestsSection.model_validate({"rate": 7, "synthetic": lengths})
    assert section == RequestsSection.model_validate({"rate": 7, "synthetic": {**lengths, "rate": 7}})
    assert RequestsSection.model_validate({"rate": 7, "synthetic": {**lengths, "rate": 5}}).synthetic.rate == 5
    for wrong in ({"rate": -7}, {}, {"rate": 7, "synthetic": {**lengths, "users": 3}}):
        with pytest.raises(ValidationError):
            RequestsSection.model_validate({"synthetic": lengths, **wrong})


def test_fixed_arrivals_are_even() -> None:
    requests = synthetic(1000, rate_per_s=8, kind="fixed", input_tokens=10, output_tokens=1)
    assert np.all(np.diff(requests.arrival_ps) == 125_000_000_000)


def test_interrupted_poisson_has_its_index_of_dispersion() -> None:
    on, off, rate = 0.5, 1.5, 50.0
    requests = synthetic(2 * COUNT, rate_per_s=rate, kind="on-off", on_s=on, off_s=off, input_tokens=1, output_tokens=1)
    busy = rate * (on + off) / on
    limit = 1 + 2 * busy * (1 / on) / (1 / on + 1 / off) ** 2
    assert requests.rate_per_s == pytest.approx(rate, rel=0.1)
    assert dispersion(requests.arrival_ps, 20.0) == pytest.approx(limit, rel=0.25)


def test_a_day_goes_up_and_down() -> None:
    requests = synthetic(
        COUNT, rate_per_s=100, kind="diurnal", period_s=100, swing=0.8, input_tokens=1, output_tokens=1
    )
    phase = (requests.arrival_ps % (100 * 10**12)) / 1e14
    held, _ = np.histogram(phase, bins=20, range=(0, 1))
    middle = (np.arange(20) + 0.5) / 20
    assert requests.rate_per_s == pytest.approx(100, rel=0.02)
    assert held / held.mean() == pytest.approx(1 - 0.8 * np.cos(2 * np.pi * middle), abs=0.06)


def test_log_normal_lengths_have_their_mean_and_percentile() -> None:
    law = LogNormal(mean=1000, value=3000, percent=95)
    requests = synthetic(COUNT, rate_per_s=1000, input_tokens=law, output_tokens=LogNormal(200, 200))
    assert requests.input_tokens.mean() == pytest.approx(1000, rel=0.01)
    assert np.percentile(requests.input_tokens, 95) == pytest.approx(3000, rel=0.02)
    assert np.all(requests.output_tokens == 200)  # no width at all


def test_found_lengths_stay_together() -> None:
    pairs = Pairs(np.array([10, 20, 30]), np.array([1, 2, 3]))
    requests = synthetic(3000, rate_per_s=10, pairs=pairs)
    assert np.array_equal(requests.input_tokens, 10 * requests.output_tokens)
    assert np.bincount(requests.output_tokens)[1:] == pytest.approx([1000] * 3, rel=0.1)
    alone = synthetic(3000, rate_per_s=10, input_tokens=Empirical(np.array([7, 9])), output_tokens=FixedLength(2))
    assert set(alone.input_tokens.tolist()) == {7, 9}


def test_classes_have_their_shares_and_lengths() -> None:
    classes = [RequestClass("chat", 3, 100, 10), RequestClass("code", 1, 900, 5)]
    requests = synthetic(40_000, rate_per_s=10, classes=classes)
    assert requests.kinds == ("chat", "code")
    assert summarize(requests).kinds["code"] == pytest.approx(0.25, abs=0.01)
    assert set(requests.input_tokens[requests.kind == 1].tolist()) == {900}


def test_turns_grow_by_what_was_said_and_share_it() -> None:
    plan = Sessions(turns=4, think_s=5, system_tokens=100, system_prompts=2, block_tokens=16)
    requests = synthetic(5000, rate_per_s=20, sessions=plan, input_tokens=50, output_tokens=30)
    first, begun = {}, 0
    for row in range(len(requests)):
        session, prompt = int(requests.session[row]), int(requests.input_tokens[row])
        assert len(requests.blocks_of(row)) == prompt // 16
        if session not in first:
            assert prompt >= 150
            assert (prompt - 150) % 80 == 0  # turns before the first request
            begun += prompt > 150
        else:
            before = first[session]
            assert prompt == int(requests.input_tokens[before]) + 30 + 50
            shared = requests.blocks_of(before)
            assert np.array_equal(shared, requests.blocks_of(row)[: len(shared)])
            assert requests.arrival_ps[row] - requests.arrival_ps[before] >= 30 * 20_000_000_000
        first[session] = row
    # Under way at any time: 20 / 4 starts a second, for three mean gaps of 5.6 s; a gap later each has sent or ended.
    assert begun == pytest.approx(20 / 4 * 3 * 5.6, rel=0.3)
    heads = {requests.blocks_of(row)[5] for row in range(len(requests))}  # tokens 80 to 96: in the system prompt
    assert len(heads) == 2
    assert len({requests.blocks_of(row)[6] for row in first.values()}) == len(first)  # beyond it: one's own


def test_hits_of_endless_conversations_are_counted_exactly() -> None:
    """Without other sharing, a turn hits exactly the whole blocks of the turn before."""
    plan = Sessions(turns=5, think_s=1, block_tokens=10)
    requests = synthetic(3000, rate_per_s=20, sessions=plan, input_tokens=40, output_tokens=20)
    blocks = hits = 0
    before: dict[int, int] = {}
    for session, prompt in zip(requests.session.tolist(), requests.input_tokens.tolist(), strict=True):
        blocks += prompt // 10
        hits += before.get(session, 0) // 10
        before[session] = prompt
    assert summarize(requests).prefix_hit_rate == pytest.approx(hits / blocks, rel=1e-12)


def test_conversations_have_the_rate_asked_for_from_the_first_request_on() -> None:
    plan = Sessions(turns=5, think_s=30)
    rates = [synthetic(200, rate_per_s=8, sessions=plan, output_tokens=100, seed=seed).rate_per_s for seed in range(30)]
    assert np.mean(rates) == pytest.approx(8, rel=0.05)


def test_conversations_reach_the_rate_asked_for() -> None:
    requests = synthetic(60_000, rate_per_s=20, sessions=Sessions(turns=3, think_s=10), input_tokens=5, output_tokens=5)
    assert requests.rate_per_s == pytest.approx(20, rel=0.03)


@settings(max_examples=25, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 2**64 - 1),
    chunk=st.integers(1, 400),
    turns=st.none() | st.floats(1, 6),
)
def test_pieces_do_not_change_what_is_made(kind: str, seed: int, chunk: int, turns: float | None) -> None:
    sessions = Sessions(turns=turns, think_s=0.3, system_tokens=20) if turns else None
    classes = (RequestClass("a", 1), RequestClass("b", 2, 5, LogNormal(9, 30)))
    law = Arrivals(50.0, kind, period_s=3, on_s=0.2, off_s=0.3)
    whole = joined(list(stream_synthetic(500, law, classes, sessions=sessions, seed=seed)))
    pieces = joined(list(stream_synthetic(500, law, classes, sessions=sessions, seed=seed, chunk=chunk)))
    assert len(whole) == 500
    assert pieces == whole


def test_another_seed_gives_other_requests() -> None:
    assert synthetic(50, rate_per_s=1, seed=1) == synthetic(50, rate_per_s=1, seed=1)
    assert synthetic(50, rate_per_s=1, seed=1) != synthetic(50, rate_per_s=1, seed=2)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"kind": "poison"}, "did you mean `poisson`"),
        ({"rate_per_s": 0.0}, "out of range"),
        ({"rate_per_s": math.nan}, "out of range"),
        ({"kind": "gamma", "cv": 0.0}, "out of range"),
        ({"cv": 2.0}, "no variation to choose"),
        ({"input_tokens": 0}, "at least one token"),
        ({"seed": -1}, "seed"),
        ({"rate_per_s": 1e-5, "count": 10**4}, "106 days"),
        ({"count": 0}, "at least one request"),
        ({"classes": [RequestClass("a"), RequestClass("a")]}, "same name"),
        ({"classes": [RequestClass("a", 0.0)]}, "shares"),
        ({"sessions": Sessions(most_input_tokens=10), "input_tokens": 11}, "no prompt is as short"),
    ],
)
def test_wrong_parameters_are_refused(wrong: dict[str, object], message: str) -> None:
    given: dict[str, object] = {"count": 10, "rate_per_s": 1.0, **wrong}
    with pytest.raises(InputError, match=message):
        synthetic(given.pop("count"), **given)


# Another load: what each way of scaling keeps, by index of dispersion, autocorrelation and conservation.

AZURE = Path(__file__).parents[3] / "examples" / "serving" / "traces" / "AzureLLMInferenceTrace_code.csv"


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
