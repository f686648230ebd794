"""Latencies of served requests: parts that add up, percentiles by nearest rank, goodput, capacity, fronts."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.face import api
from railyard.graph import Record
from railyard.measure.result.serving import LEVELS, LoadPoint
from railyard.measure.serving import objective as taxes
from railyard.measure.serving.latencies import counted, parts_by_percentile, quantiles, served
from railyard.measure.serving.objective import BINS, Objective, PoolRoom, capacity, front, goodput, queues
from railyard.measure.utilization import Window

S = 10**12


def run_of(rows):
    """Columns of a run from rows of (admitted, start, first token, done, transfer end or -1, network) in seconds."""
    column = np.array(rows, np.float64)
    count = len(rows)
    return Record(
        rows="requests",
        who=np.zeros(count, np.int32),
        what=np.zeros(count, np.int32),
        start_ps=np.zeros(count, np.int64),
        end_ps=(column[:, 3] * S).astype(np.int64),
        size_bytes=np.zeros(count, np.int64),
        optional={
            "admitted_ps": (column[:, 0] * S).astype(np.int64),
            "prefill_start_ps": (column[:, 1] * S).astype(np.int64),
            "first_token_ps": (column[:, 2] * S).astype(np.int64),
            "transfer_end_ps": np.where(column[:, 4] < 0, -1, column[:, 4] * S).astype(np.int64),
            "collectives_prefill_ps": (column[:, 5] * S).astype(np.int64),
            "collectives_ps": (column[:, 5] * S).astype(np.int64),
            "decode_replica": np.where(column[:, 4] < 0, -1, 1).astype(np.int32),
            "cached_tokens": np.zeros(count, np.int64),
            "status": np.zeros(count, np.uint8),
        },
    )


def test_parts_of_the_first_token():
    """Queue 1 s, loading 0.5 s, transfer 2 s, network 0.25 s; the rest of 6 s is computation."""
    found = served(np.array([0]), np.array([100]), np.array([3]), run_of([(1.0, 1.5, 4.0, 10.0, 6.0, 0.25)]))
    assert found.ttft_s[0] == pytest.approx(6.0)
    assert found.queue_s[0] == pytest.approx(1.0)
    assert found.transfer_s[0] == pytest.approx(2.5)
    assert found.collectives_s[0] == pytest.approx(0.25)
    assert found.compute_s[0] == pytest.approx(2.25)
    assert found.tpot_s[0] == pytest.approx(2.0)
    assert found.e2e_s[0] == pytest.approx(10.0)


def test_entry_is_no_queue():
    """The tokenizer's time is between arrival and the engine's queue."""
    run = run_of([(1.0, 1.0, 2.0, 3.0, -1, 0.0)])
    found = served(np.array([0]), np.array([1]), np.array([2]), run, entry_ps=S // 4)
    assert found.queue_s[0] == pytest.approx(0.75)
    assert found.compute_s[0] == pytest.approx(1.25)


def test_the_handover_is_the_engines_not_the_networks():
    """Of 2 s between first token and the end of the way 1.5 s are the engines'; never more than there is."""
    run = run_of([(1.0, 1.5, 4.0, 10.0, 6.0, 0.25)])
    asked = np.array([0]), np.array([100]), np.array([3])
    found = served(*asked, run, handover_ps=3 * S // 2)
    assert found.transfer_s[0] == pytest.approx(1.0)
    assert found.compute_s[0] == pytest.approx(3.75)
    assert served(*asked, run, handover_ps=9 * S).transfer_s[0] == pytest.approx(0.5)


def test_a_request_that_was_not_served_has_no_latency():
    """It counts against attainment all the same."""
    run = run_of([(1.0, 1.0, 2.0, 3.0, -1, 0.0), (-1, -1, -1, -1, -1, 0.0)])
    run.column("status")[1] = 2
    found = served(np.array([0, S]), np.array([10, 10]), np.array([1, 1]), run)
    assert np.isnan(found.ttft_s[1])
    assert np.isnan(found.tpot_s[0])
    assert goodput(found, Objective()).attainment == 0.5


@given(st.lists(st.tuples(*[st.floats(0, 100)] * 4), min_size=1, max_size=400))
def test_parts_of_every_percentile_add_up(rows):
    """Whatever the requests."""
    parts = {name: np.array(values) for name, values in zip("abcd", zip(*rows, strict=True), strict=True)}
    whole = np.sum(list(parts.values()), axis=0)
    levels = quantiles(whole)
    for name, row in parts_by_percentile(whole, parts).items():
        assert sum(row.values()) == pytest.approx(levels[name], abs=1e-9)


def test_percentiles_are_by_nearest_rank():
    """Of 1 to 1000 the 99th is 990."""
    found = quantiles(np.arange(1, 1001, dtype=float))
    assert (found["p50"], found["p90"], found["p99"], found["p999"]) == (500, 900, 990, 999)
    assert quantiles(np.array([np.nan])) == dict.fromkeys(("p50", "p90", "p99", "p999", "mean"))


def test_percentiles_of_a_histogram():
    """A value counts as the middle of its bin."""
    found = counted(np.array([0, 98, 2]), np.array([0.0, 1.0, 3.0]))
    assert found["p50"] == 2.0
    assert found["p99"] == 3.0


def test_goodput_counts_what_meets_every_limit():
    """One of three is late with its first token, one with the others."""
    run = run_of([(0, 0, 1, 2, -1, 0), (0, 0, 5, 6, -1, 0), (0, 0, 1, 9, -1, 0)])
    found = served(np.array([0, 0, 0]), np.full(3, 100), np.full(3, 2), run)
    good = goodput(found, Objective(ttft_s=2.0, tpot_s=3.0))
    assert good.attainment == pytest.approx(1 / 3)
    assert good.requests_per_s == pytest.approx(1 / 9)
    assert good.input_tokens_per_s == pytest.approx(100 / 9)
    assert good.all_output_tokens_per_s == pytest.approx(6 / 9)


@given(st.integers(1, 40), st.floats(0.1, 20), st.floats(0.1, 30))
def test_a_steady_load_is_served_at_its_rate(count, gap_s, answer_s):
    """One request a gap, each answered after as long: the window is from the first answer to the last arrival.

    As many end in it as gaps fit, whatever drain comes behind; where none fits, the whole run counts.
    """
    at = np.arange(count) * gap_s
    run = run_of([(one, one, one + answer_s / 2, one + answer_s, -1, 0) for one in at])
    found = served((at * S).astype(np.int64), np.full(count, 100), np.full(count, 2), run)
    good, last = goodput(found, Objective()), (count - 1) * gap_s
    assert good.span_s == pytest.approx(last + answer_s)
    fitting = (last - answer_s) / gap_s
    served_in = good.requests_per_s * good.window.seconds
    if fitting > 1.01:
        assert good.window.seconds == pytest.approx(last - answer_s)
        assert abs(served_in - fitting) < 1.001
    elif fitting < 0.0:
        assert served_in == pytest.approx(count)
        assert good.window.seconds == pytest.approx(good.span_s)
    assert good.output_tokens_per_s == pytest.approx(2 * good.requests_per_s)


def test_one_long_answer_does_not_set_the_rate():
    """100 requests a second apart, answered in 0.5 s, and one of 60 s that came last: 98 in 98.5 s, not 100 in 159."""
    run = run_of([(at, at, at + 0.2, at + (60.0 if at == 99 else 0.5), -1, 0) for at in range(100)])
    found = served(np.arange(100) * S, np.full(100, 10), np.full(100, 4), run)
    good = goodput(found, Objective())
    fill = (99 * 0.5 + 60.0) / 100
    assert good.window.start_s == pytest.approx(fill)
    # Answers of 1.5 s and later, until 98.5 s.
    assert good.requests_per_s == pytest.approx(98 / (99 - fill))
    assert good.span_s == pytest.approx(159.0)


def test_an_overload_is_served_at_its_capacity():
    """Ten a second come for 20 s to a server of one a second: no more than one a second is goodput."""
    at = np.arange(200) / 10
    run = run_of([(one, one, number + 0.5, number + 1.0, -1, 0) for number, one in enumerate(at)])
    found = served((at * S).astype(np.int64), np.full(200, 10), np.full(200, 4), run)
    assert goodput(found, Objective()).requests_per_s == pytest.approx(1.0, rel=0.01)


def test_rates_of_another_window():
    """Answers of 1 to 9 s: three end in 2 to 5 s."""
    run = run_of([(0, 0, at / 2, at, -1, 0) for at in range(1, 10)])
    found = served(np.zeros(9, np.int64), np.full(9, 10), np.full(9, 4), run)
    assert goodput(found, Objective(), Window(2.0, 5.0)).requests_per_s == pytest.approx(1.0)


def point(rate, attainment):
    """A load."""
    return LoadPoint(
        rate_per_s=rate,
        attainment=attainment,
        goodput_per_s=rate * attainment,
        ttft_p50_s=0.1,
        ttft_p99_s=0.2,
        tpot_p50_s=0.01,
        tpot_p99_s=0.02,
        output_tokens_per_s=100.0,
        requests=10,
        overloaded=False,
    )


@given(st.floats(0.01, 1e3), st.floats(0.01, 1e3))
def test_capacity_is_found_from_wherever_the_search_starts(limit, start):
    """The largest load that meets the objective, within the tolerance."""
    found = capacity(lambda rate: point(rate, 1.0 if rate <= limit else 0.0), start, 0.9, tolerance=0.02)
    if limit > start / 2**11 and limit < start * 2**11:
        assert found.bounded
        assert limit * 0.97 <= found.rate_per_s <= limit


def test_a_load_that_is_never_too_much():
    """The search ends and says that it found no bound."""
    found = capacity(lambda rate: point(rate, 1.0), 1.0, 0.9)
    assert not found.bounded
    assert found.rate_per_s == 2.0**12


def test_what_is_too_slow_is_not_tried():
    """A limit that one request alone misses is missed at any load."""
    found = capacity(lambda rate: point(rate, 0.5), 1.0, 0.9, slowest=0.1)
    assert found.rate_per_s == 0
    assert [each.rate_per_s for each in found.points] == [0.125, 0.25, 0.5, 1.0]


def test_the_front():
    """What another point beats in both is not on it; what is equal stays."""
    assert front([(1, 3), (2, 2), (3, 1), (1, 1), (2, 2)]) == [True, True, True, False, True]


# Queues of pools over time, by hand.


def record(columns, end_s, last_s):
    end = np.array(end_s, np.int64) * S
    count = len(end)
    return Record(
        rows="requests",
        who=np.zeros(count, np.int32),
        what=np.zeros(count, np.int32),
        start_ps=np.zeros(count, np.int64),
        end_ps=end,
        size_bytes=np.zeros(count, np.int64),
        optional=columns,
        meta={"end_ps": last_s * S},
    )


def test_waiting_before_prompts_and_before_answers():
    """Three requests wait 0, 3 and 7 s of 24 for a replica; of two that decode from 10 s to 20 s one has room."""
    columns = {
        "admitted_ps": np.array([0, 5, 10], np.int64) * S,
        "first_token_ps": np.array([8, 10, 10], np.int64) * S,
        "transfer_end_ps": np.array([-1, 10, 10 * 1], np.int64) * np.array([1, S, S]),
        "decode_replica": np.array([-1, 1, 1], np.int32),
    }
    run = record(columns, [9, 20, 20], 24)
    asked = SimpleNamespace(input_tokens=np.array([10, 90, 90]), output_tokens=np.array([1, 20, 20]))
    pools = (PoolRoom("prefill", 8.0, 1e9), PoolRoom("decode", 8.0, 100.0))
    before, behind = queues(run, pools, np.array([0, 2, 3], np.int64) * S, asked)
    # Spans are 1 s. From 2 to 3 s one waits, from 3 to 5 two, from 5 to 10 one: 1 + 4 + 5 = 10 request seconds.
    assert before.over_time == pytest.approx((0, 0, 1, 2, 2, 1, 1, 1, 1, 1, *[0.0] * 14))
    assert len(before.over_time) == BINS
    assert before.waiting_mean == pytest.approx(10 / 24)
    assert (before.waiting_peak, before.peak_s, before.wait_p50_s) == pytest.approx((2.0, 3.5, 3.0))
    # 100 cached tokens hold one of the two sequences of 90 + 20 / 2.
    assert behind.over_time == pytest.approx((*[0.0] * 10, *[1.0] * 10, *[0.0] * 4))
    assert behind.wait_p50_s is None


def test_as_many_sequences_as_a_pool_runs():
    columns = {
        "admitted_ps": np.zeros(4, np.int64),
        "first_token_ps": np.zeros(4, np.int64),
        "transfer_end_ps": np.zeros(4, np.int64),
        "decode_replica": np.ones(4, np.int32),
    }
    asked = SimpleNamespace(input_tokens=np.full(4, 10), output_tokens=np.full(4, 2))
    (behind,) = queues(record(columns, [24] * 4, 24), (PoolRoom("decode", 3.0, 1e9),), np.zeros(4, np.int64), asked)
    assert behind.over_time == pytest.approx([1.0] * BINS)


# The tax of a service by hand, and of services whose traffic is known to stay inside or to cross.

SERVING = {
    "model": "llama-3-8b",
    "precision": "fp8",
    "requests": {"synthetic": {"count": 200, "rate": 20, "input": 4096, "output": 16}},
    "pools": {"prefill": {"replicas": 4, "tp": 2}, "decode": {"replicas": 4, "tp": 2}},
    "slo": {"ttft": "1 s", "tpot": "50 ms"},
}


def serving_tax_served(first, further):
    return SimpleNamespace(ttft_s=np.array(first), tpot_s=np.array(further))


def test_shares_are_of_the_percentiles_as_they_are(monkeypatch):
    """Goodput 6 of 8 of 12; first tokens 1.0, 0.8, 0.5 s; further ones 20, 20, 15 ms."""
    runs = [
        serving_tax_served([1.0] * 5, [0.02] * 5),
        serving_tax_served([0.8] * 5, [0.02] * 5),
        serving_tax_served([0.5] * 5, [0.015] * 5),
    ]
    rates = dict(zip(map(id, runs), (6.0, 8.0, 12.0), strict=True))
    monkeypatch.setattr(taxes, "goodput", lambda run, *_: SimpleNamespace(requests_per_s=rates[id(run)], window=None))
    found = taxes.serving_tax(*runs, Objective(None, None, None, 0.95))
    assert found.goodput_lost == pytest.approx(1 - 6 / 8)
    assert found.scale_up.goodput_lost == pytest.approx(6 / 8 - 6 / 12)
    assert found.ttft == pytest.approx(dict.fromkeys(LEVELS, 0.2))
    assert found.scale_up.ttft == pytest.approx(dict.fromkeys(LEVELS, 0.3))
    assert found.tpot == pytest.approx(dict.fromkeys(LEVELS, 0.0))
    assert found.scale_up.tpot == pytest.approx(dict.fromkeys(LEVELS, 0.25))


def test_another_order_is_no_tax_below_zero(monkeypatch):
    runs = [serving_tax_served([1.0], [0.02]), serving_tax_served([1.1], [0.03]), serving_tax_served([1.2], [0.03])]
    rates = dict(zip(map(id, runs), (8.0, 7.0, 6.0), strict=True))
    monkeypatch.setattr(taxes, "goodput", lambda run, *_: SimpleNamespace(requests_per_s=rates[id(run)], window=None))
    found = taxes.serving_tax(*runs, Objective(None, None, None, 0.95))
    both = (found, found.scale_up)
    assert [one.goodput_lost for one in both] == [0.0, 0.0]
    assert not any(share for one in both for share in (*one.ttft.values(), *one.tpot.values()))


def run(pools, rate="400 Gb/s", **more):
    network = {"topology": "rail-optimized", "fabric": "roce", "link_rate": rate}
    cluster = {"accelerators": 16, "server": "hgx-h100", "back_end": network}
    serving = {**SERVING, "pools": pools, **more}
    (variant,) = api.run({"name": "s", "cluster": cluster, "workload": {"serving": serving}}, out=None).result.variants
    return variant


def test_replicas_inside_servers_pay_nothing_to_the_scale_out_network():
    found = run({"both": {"replicas": 8, "tp": 2}}).tax
    assert found.goodput_lost == 0.0
    assert not any((*found.ttft.values(), *found.tpot.values()))
    assert found.scale_up.tpot["p50"] > 0.02


def test_one_accelerator_a_replica_pays_nothing_at_all():
    found = run({"both": {"replicas": 16, "tp": 1}}).tax
    for one in (found, found.scale_up):
        assert one.goodput_lost == 0.0
        assert not any((*one.ttft.values(), *one.tpot.values()))


def test_keys_and_values_that_cross_are_in_the_first_token():
    """4,096 tokens of 32 layers x 8 heads x 128 x 2 bytes in 8 bits, 268 MB over 2 x 25 Gb/s: 43 ms at the least."""
    slow, fast = (
        run(SERVING["pools"], rate, transfer={"overlap": 0.0, "nic": "own"}) for rate in ("25 Gb/s", "400 Gb/s")
    )
    lost_s = slow.tax.ttft["p50"] * slow.serving.ttft_s.p50
    carried = 4096 * 32 * 8 * 128 * 2 * 8
    assert lost_s > 0.95 * carried / 2 / 25e9
    assert lost_s == pytest.approx(
        slow.serving.ttft_s.p50 - run(SERVING["pools"], "400 Gb/s").serving.ttft_s.p50, rel=0.15
    )
    assert slow.tax.ttft["p50"] > fast.tax.ttft["p50"] > 0
    assert slow.tax.tpot["p50"] == pytest.approx(0.0, abs=0.02)
