"""Host memory and a store below the KV cache, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from railyard.engine.serving import Cost, Deployment, Pool, Router, Store, simulate

from .columns import hashed, rows

S = 10**12
BYTES = 1000.0
"""Of a token: a unit of 16 tokens is 128 kbit."""
COST = Cost(np.array([0, 1024]), np.array([0.0, 1.024]), np.zeros(2))
"""A millisecond a token."""
A, B, C = [1, 2, 3, 4], [11, 12, 13, 14], [21, 22, 23, 24]


def pool(kv_blocks, replicas=1, **changed):
    given = {"max_batched_tokens": 1024, "prefix_cache": True, "kv_bytes_per_token": BYTES} | changed
    return Pool("x", COST, replicas, kv_blocks=kv_blocks, **given)


def first_token_s(run, row):
    return run.column("first_token_ps")[row] / S


def again(rate_bps, latency_s=0.0, room=1e9):
    """A, then B that drives three of its four units out, then A again at 20 s."""
    made = hashed(rows([0, 10 * S, 20 * S], [80, 80, 80], [1, 1, 1]), [A, B, A], 16)
    one = pool(6, host_kv_bytes=room, swap_bps=rate_bps, host_latency_s=latency_s)
    return simulate(made, Deployment((one,)))


@pytest.mark.parametrize(
    ("rate_bps", "latency_s", "loads"),
    [(64e6, 0.0, True), (8.1e6, 0.0, True), (7.9e6, 0.0, False), (64e6, 0.041, True), (64e6, 0.043, False)],
)
def test_evicted_units_come_back_where_that_is_faster_than_computing_them(rate_bps, latency_s, loads):
    """The first unit stayed, it was let go last; three come from the host, one of the prompt is to compute."""
    run = again(rate_bps, latency_s)
    assert run.column("cached_tokens").tolist() == [0, 0, 16]
    assert run.column("loaded_tokens").tolist() == [0, 0, 48 if loads else 0]
    takes = 48 * BYTES * 8 / rate_bps + latency_s if loads else 0.048
    assert first_token_s(run, 2) == pytest.approx(20 + takes + 0.016, abs=1e-11)
    assert run.column("admitted_ps")[2] == 20 * S
    assert run.table("replicas")["loaded_tokens"].sum() == run.column("loaded_tokens").sum()


@pytest.mark.parametrize(("units", "loaded"), [(3, 48), (2, 32), (1, 16), (0, 0)])
def test_the_host_keeps_what_came_last(units, loaded):
    """Ends of chains are evicted first, so that a small host keeps the units that follow those in the cache."""
    assert again(64e6, room=units * 16 * BYTES).column("loaded_tokens")[2] == loaded


def test_loads_of_a_replica_take_turns_on_its_channel():
    """A long prompt drove A and C out, which are back at once: 64 tokens each, 8 ms and then 8 ms more."""
    chains = [A, C, list(range(31, 41)), A, C]
    made = hashed(rows([0, 10 * S, 20 * S, 30 * S, 30 * S], [80, 80, 176, 80, 80], [1] * 5), chains, 16)
    run = simulate(made, Deployment((pool(12, host_kv_bytes=1e9, swap_bps=64e6),)))
    assert run.column("loaded_tokens").tolist() == [0, 0, 0, 64, 64]
    assert run.column("prefill_start_ps")[3] / S == pytest.approx(30.008, abs=1e-11)
    assert first_token_s(run, 3) == pytest.approx(30.008 + 0.016, abs=1e-11)
    # C is there at 30.016 s, and the replica is busy with the end of A until 30.024 s
    assert first_token_s(run, 4) == pytest.approx(30.024 + 0.016, abs=1e-11)


def test_who_has_no_room_to_load_waits_for_it():
    """A long request holds six of nine blocks and has driven out the last unit of A, which waits behind it."""
    made = hashed(rows([0, 10 * S, 10 * S + 1], [80, 90, 80], [1, 6, 1]), [A, [], A], 16)
    run = simulate(made, Deployment((pool(9, host_kv_bytes=1e9, swap_bps=64e6),)))
    assert run.column("preemptions").sum() == 0
    assert run.column("admitted_ps")[2] >= run.end_ps[1]
    assert run.column("cached_tokens")[2] == 48
    assert run.column("loaded_tokens")[2] == 16


def stored(store, **router):
    """A on one replica, A again on the other, and a third time on the first."""
    made = hashed(rows([0, 10 * S, 20 * S], [80, 80, 80], [1, 1, 1]), [A, A, A], 16)
    return simulate(made, Deployment((pool(100, 2),), Router(**router), store=store))


def test_the_store_gives_to_all_replicas():
    run = stored(Store(1e9, 32e6, 0.005))
    assert run.column("loaded_tokens").tolist() == [0, 64, 0]
    assert run.column("cached_tokens").tolist() == [0, 0, 64]
    assert first_token_s(run, 1) == pytest.approx(10 + 64 * BYTES * 8 / 32e6 + 0.005 + 0.016, abs=1e-11)
    assert stored(Store(1e9, 7.9e6)).column("loaded_tokens")[1] == 0
    assert stored(Store(1e9, 8.1e6)).column("loaded_tokens")[1] == 64


def test_a_small_store_keeps_what_was_written_last():
    """Without its first unit a chain is worth nothing."""
    assert stored(Store(4 * 16 * BYTES, 32e6)).column("loaded_tokens")[1] == 64
    assert stored(Store(3 * 16 * BYTES, 32e6)).column("loaded_tokens")[1] == 0


def test_the_store_follows_where_the_host_ends():
    """Of four units one is here, two fit into the host, the last comes from the store while those are loaded."""
    made = hashed(rows([0, 10 * S, 20 * S], [80, 80, 80], [1, 1, 1]), [A, B, A], 16)
    one = pool(6, host_kv_bytes=2 * 16 * BYTES, swap_bps=64e6)
    for rate_bps, ready in [(128e6, 0.004), (16e6, 0.008)]:
        run = simulate(made, Deployment((one,), store=Store(1e9, rate_bps)))
        assert run.column("loaded_tokens")[2] == 48
        assert first_token_s(run, 2) == pytest.approx(20 + ready + 0.016, abs=1e-11)


def test_a_preempted_request_finds_its_prefix_in_the_store():
    """Two answers grow beyond the cache; the later gives way, and what is driven out of its prefix is loaded."""
    made = hashed(rows([0, 1], [64, 64], [60, 60]), [A, B], 16)
    one = pool(11, max_sequences=2)
    without = simulate(made, Deployment((one,)))
    loads = simulate(made, Deployment((one,), store=Store(1e9, 1e12)))
    assert without.column("preemptions").tolist() == loads.column("preemptions").tolist() == [0, 1]
    assert without.column("loaded_tokens").sum() == 0
    assert loads.column("loaded_tokens")[1] > 0
    assert loads.end_ps[1] < without.end_ps[1]


@pytest.mark.parametrize("skip_runs", [True, False])
def test_a_unit_of_an_answer_is_in_the_store_while_its_request_still_decodes(skip_runs):
    """The first request has 16 tokens after 16 ms; at 30 ms the other replica finds them and computes 4 of 20."""
    made = hashed(rows([0, 30 * S // 1000], [1, 20], [40, 1]), [[1, 2], [1]], 16)
    deployment = Deployment((pool(12, 2),), Router("round-robin"), store=Store(1e9, 64e6, 0.0))
    run = simulate(made, deployment, skip_runs=skip_runs)
    assert run.column("loaded_tokens").tolist() == [0, 16]
    assert first_token_s(run, 1) == pytest.approx(0.030 + 16 * BYTES * 8 / 64e6 + 0.004, abs=1e-11)
