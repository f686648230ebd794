"""Host memory and a store below the KV cache, worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.engine.serving import Cost, CrossTraffic, Deployment, Links, Outages, Pool, Router, Store, simulate
from railyard.engine.serving.running import COLUMNS
from railyard.work.serving.traces import read_trace

from .cases import requests
from .columns import hashed, pool, rows

S = 10**12
BYTES = 1000.0
"""Of a token: a unit of 16 tokens is 128 kbit."""
COST = Cost(np.array([0, 1024]), np.array([0.0, 1.024]), np.zeros(2))
"""A millisecond a token."""
A, B, C = [1, 2, 3, 4], [11, 12, 13, 14], [21, 22, 23, 24]


def tiers_pool(kv_blocks, replicas=1, **changed):
    given = {"max_batched_tokens": 1024, "prefix_cache": True, "kv_bytes_per_token": BYTES} | changed
    return Pool("x", COST, replicas, kv_blocks=kv_blocks, **given)


def first_token_s(run, row):
    return run.column("first_token_ps")[row] / S


def again(rate_bps, latency_s=0.0, room=1e9):
    """A, then B that drives three of its four units out, then A again at 20 s."""
    made = hashed(rows([0, 10 * S, 20 * S], [80, 80, 80], [1, 1, 1]), [A, B, A], 16)
    one = tiers_pool(6, host_kv_bytes=room, swap_bps=rate_bps, host_latency_s=latency_s)
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
    run = simulate(made, Deployment((tiers_pool(12, host_kv_bytes=1e9, swap_bps=64e6),)))
    assert run.column("loaded_tokens").tolist() == [0, 0, 0, 64, 64]
    assert run.column("prefill_start_ps")[3] / S == pytest.approx(30.008, abs=1e-11)
    assert first_token_s(run, 3) == pytest.approx(30.008 + 0.016, abs=1e-11)
    # C is there at 30.016 s, and the replica is busy with the end of A until 30.024 s
    assert first_token_s(run, 4) == pytest.approx(30.024 + 0.016, abs=1e-11)


def test_who_has_no_room_to_load_waits_for_it():
    """A long request holds six of nine blocks and has driven out the last unit of A, which waits behind it."""
    made = hashed(rows([0, 10 * S, 10 * S + 1], [80, 90, 80], [1, 6, 1]), [A, [], A], 16)
    run = simulate(made, Deployment((tiers_pool(9, host_kv_bytes=1e9, swap_bps=64e6),)))
    assert run.column("preemptions").sum() == 0
    assert run.column("admitted_ps")[2] >= run.end_ps[1]
    assert run.column("cached_tokens")[2] == 48
    assert run.column("loaded_tokens")[2] == 16


def stored(store, **router):
    """A on one replica, A again on the other, and a third time on the first."""
    made = hashed(rows([0, 10 * S, 20 * S], [80, 80, 80], [1, 1, 1]), [A, A, A], 16)
    return simulate(made, Deployment((tiers_pool(100, 2),), Router(**router), store=store))


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
    one = tiers_pool(6, host_kv_bytes=2 * 16 * BYTES, swap_bps=64e6)
    for rate_bps, ready in [(128e6, 0.004), (16e6, 0.008)]:
        run = simulate(made, Deployment((one,), store=Store(1e9, rate_bps)))
        assert run.column("loaded_tokens")[2] == 48
        assert first_token_s(run, 2) == pytest.approx(20 + ready + 0.016, abs=1e-11)


def test_a_preempted_request_finds_its_prefix_in_the_store():
    """Two answers grow beyond the cache; the later gives way, and what is driven out of its prefix is loaded."""
    made = hashed(rows([0, 1], [64, 64], [60, 60]), [A, B], 16)
    one = tiers_pool(11, max_sequences=2)
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
    deployment = Deployment((tiers_pool(12, 2),), Router("round-robin"), store=Store(1e9, 64e6, 0.0))
    run = simulate(made, deployment, skip_runs=skip_runs)
    assert run.column("loaded_tokens").tolist() == [0, 16]
    assert first_token_s(run, 1) == pytest.approx(0.030 + 16 * BYTES * 8 / 64e6 + 0.004, abs=1e-11)


# A prefix that another replica has is moved where that is faster than computing it.

MS = 10**9
PER_TOKEN_S = 1e-3
"""A prompt token takes a millisecond: 64 of them as long as 64 kB at 8 Mbit/s."""
SLOW = Cost(np.array([0, 1024]), np.array([0.0, 1024 * PER_TOKEN_S]), np.zeros(2))


def star(replicas: int, rate_bps: float, latency_ps: int = 0) -> Links:
    """Each replica has one link out and one in; all are connected."""
    pairs = [(a, b) for a in range(replicas) for b in range(replicas) if a != b]
    return Links(
        rate_bps=np.full(2 * replicas, rate_bps),
        from_replica=np.array([a for a, _ in pairs], np.int32),
        to_replica=np.array([b for _, b in pairs], np.int32),
        ptr=np.arange(0, 2 * len(pairs) + 1, 2, dtype=np.int64),
        link=np.array([link for a, b in pairs for link in (a, replicas + b)], np.int32),
        share=np.ones(2 * len(pairs)),
        latency_ps=np.full(len(pairs), latency_ps, np.int64),
    )


def two_alike(gap_s: float = 10.0):
    """Two prompts of 80 tokens, the first 64 of them alike."""
    return hashed(rows([0, round(gap_s * S)], [80, 80], [1, 1]), [[1, 2, 3, 4], [1, 2, 3, 4]], 16)


def apart(rate_bps: float, *, move: bool = True, latency_ps: int = 0, kind: str = "round-robin", **more) -> Deployment:
    one = Pool("x", SLOW, 2, max_batched_tokens=1024, prefix_cache=True, kv_bytes_per_token=BYTES)
    return Deployment((one,), Router(kind, move=move), links=star(2, rate_bps, latency_ps), **more)


def ttft_s(run, made) -> np.ndarray:
    return (run.column("first_token_ps") - made.arrival_ps) / S


@pytest.mark.parametrize(("rate_bps", "moved"), [(64e6, True), (8.1e6, True), (7.9e6, False), (1e6, False)])
def test_moves_what_arrives_before_it_could_be_computed(rate_bps, moved):
    made = two_alike()
    run = simulate(made, apart(rate_bps))
    first = 64 * BYTES * 8 / rate_bps if moved else 64 * PER_TOKEN_S
    assert run.column("moved_tokens").tolist() == [0, 64 if moved else 0]
    assert run.column("cached_tokens").tolist() == [0, 0]
    assert ttft_s(run, made)[1] == pytest.approx(first + 16 * PER_TOKEN_S, abs=1e-11)
    assert run.table("replicas")["moved_tokens"].tolist() == [0, 64 if moved else 0]
    assert run.table("links")["bytes"].tolist() == pytest.approx([64e3 * moved, 0, 0, 64e3 * moved])


def test_latency_counts():
    made = two_alike()
    assert simulate(made, apart(64e6, latency_ps=57 * MS)).column("moved_tokens")[1] == 0
    found = simulate(made, apart(64e6, latency_ps=55 * MS))
    assert found.column("moved_tokens")[1] == 64
    assert ttft_s(found, made)[1] == pytest.approx(0.055 + 0.008 + 0.016, abs=1e-11)


def test_the_rate_is_what_others_leave():
    """16 Mbit/s would do, but half of it is taken; of 24 Mbit/s half is enough."""
    made = two_alike()
    other = CrossTraffic(
        from_ps=np.array([0]),
        to_ps=np.array([100 * S]),
        ptr=np.array([0, 1]),
        link=np.array([0], np.int32),
        share=np.ones(1),
        cap_bps=np.array([1e12]),
        weight=np.ones(1),
    )
    assert simulate(made, apart(15.9e6, background=other)).column("moved_tokens")[1] == 0
    found = simulate(made, apart(24e6, background=other))
    assert found.column("moved_tokens")[1] == 64
    assert ttft_s(found, made)[1] == pytest.approx(64 * BYTES * 8 / 12e6 + 0.016, abs=1e-9)


def test_without_the_option_nothing_moves():
    run = simulate(two_alike(), apart(1e12, move=False))
    assert run.column("moved_tokens").tolist() == [0, 0]
    assert run.table("links")["bytes"].tolist() == [0.0] * 4


def test_routing_by_prefix_goes_where_it_is_empty_once_moving_is_cheap():
    """The holder is busy with another prompt: computing anew elsewhere is dearer than waiting, moving is not."""
    made = hashed(
        rows([0, 10 * S, 10 * S + MS], [800, 1500, 800], [1, 1, 1]),
        [list(range(1, 50)), [100, 101], list(range(1, 50))],
        16,
    )
    weights = {"prefix_weight": 1.0, "load_weight": 0.0}
    stay = apart(1e12, kind="prefix")
    near = simulate(made, replace(stay, router=Router("prefix", **weights)))
    far = simulate(made, replace(stay, router=Router("prefix", move=True, **weights)))
    assert near.who.tolist() == [0, 0, 0]
    assert near.column("cached_tokens")[2] == 784
    assert far.who.tolist() == [0, 0, 1]
    assert far.column("moved_tokens")[2] == 784
    assert ttft_s(far, made)[2] < 0.1 * ttft_s(near, made)[2]


def test_what_is_read_stays_while_it_is_read():
    """The holder's cache is full and a new prompt wants its blocks: it waits until the prefix has left."""
    made = hashed(
        rows([0, 10 * S, 10 * S + 1], [80, 80, 80], [1, 1, 1]), [[1, 2, 3, 4], [1, 2, 3, 4], [9, 8, 7, 6]], 16
    )
    tight = replace(apart(16e6).pools[0], kv_blocks=6)
    deployment = replace(apart(16e6), pools=(tight,), router=Router("session", move=True))
    made.session = np.array([0, 1, 0], np.int64)
    made.session[1] = next(s for s in range(1, 99) if _home(s) != _home(0))
    run = simulate(made, deployment)
    assert run.column("moved_tokens").tolist() == [0, 64, 0]
    leaves = 10 + 64 * BYTES * 8 / 16e6
    assert run.column("admitted_ps")[2] / S == pytest.approx(leaves, abs=1e-9)


def _home(session: int) -> int:
    alone = rows([0], [1], [1])
    alone.session = np.array([session], np.int64)
    return int(simulate(alone, Deployment((Pool("x", SLOW, 2, max_batched_tokens=64),), Router("session"))).who[0])


def test_a_giver_that_fails_leaves_it_to_be_computed():
    made = two_alike()
    at = 10 * S + 10 * MS
    away = Outages(np.array([0], np.int32), np.array([at]), np.array([at + S]), np.zeros(1, np.bool_))
    run = simulate(made, apart(16e6, outages=away))
    assert run.meta["outcome"] == "finished"
    assert run.column("moved_tokens").tolist() == [0, 0]
    assert ttft_s(run, made)[1] == pytest.approx(0.010 + 80 * PER_TOKEN_S, abs=1e-9)
    assert (run.table("replicas")["kv_used_blocks"] == 0).all()


@settings(max_examples=120, deadline=None)
@given(requests(), st.data())
def test_runs_are_skipped_exactly(made, data):
    """With few blocks, failures and every router: stepping through gives the same bits, and nothing stays held."""
    one = pool(
        replicas=3,
        block_tokens=4,
        kv_blocks=data.draw(st.sampled_from([33, 40, 60, 500])),
        max_batched_tokens=data.draw(st.sampled_from([17, 512])),
        prefix_cache=True,
    )
    at = data.draw(st.lists(st.integers(0, 150), max_size=2))
    away = Outages(
        np.arange(len(at), dtype=np.int32),
        np.array(at, np.int64) * MS,
        (np.array(at, np.int64) + 20) * MS,
        np.array(data.draw(st.lists(st.booleans(), min_size=len(at), max_size=len(at))), np.bool_),
    )
    kind = data.draw(st.sampled_from(["round-robin", "least-loaded", "prefix", "random"]))
    links = star(3, data.draw(st.sampled_from([1e6, 3e7, 1e9])), data.draw(st.sampled_from([0, MS])))
    deployment = Deployment((one,), Router(kind, move=True), links=links, outages=away, stop_on_overload=False)
    runs = [simulate(made, deployment, skip_runs=skip) for skip in (True, False)]
    for name in COLUMNS:
        assert runs[0].column(name).tolist() == runs[1].column(name).tolist(), name
    for run in runs:
        assert (run.table("replicas")["kv_used_blocks"] == 0).all()
        assert run.meta["outcome"] == "finished"


# Prefix caching against the rule of Mooncake's authors, on their own trace.

TRACES = Path(__file__).parents[3] / "examples" / "serving" / "traces"


def leading_hits(requests) -> np.ndarray:
    """Of each request: its first blocks that came before, without a gap. Blocks are never forgotten."""
    seen: set[int] = set()
    found = []
    for i in range(len(requests)):
        chain = requests.blocks_of(i).tolist()
        found.append(next((k for k, one in enumerate(chain) if one not in seen), len(chain)))
        seen.update(chain)
    return np.array(found, np.int64)


@pytest.fixture(scope="module")
def prefixes_requests():
    return read_trace(TRACES / "synthetic_trace.jsonl")


def test_the_rule_gives_the_published_share(prefixes_requests):
    """64 % of the synthetic trace's blocks; a prompt's last block counts, even where it is not full."""
    blocks = np.diff(prefixes_requests.block_ptr)
    assert (blocks == -(-prefixes_requests.input_tokens // 512)).all()
    assert leading_hits(prefixes_requests).sum() / blocks.sum() == pytest.approx(0.64, abs=0.005)


@pytest.mark.parametrize("max_batched_tokens", [2048, 16384])
def test_with_room_for_all_the_engine_hits_what_the_rule_says(prefixes_requests, max_batched_tokens):
    """All but the last block of a prompt that came before as a whole: its last token has to be computed."""
    cost = Cost.constant(1e-4)
    one = Pool("x", cost, kv_blocks=2**31, max_batched_tokens=max_batched_tokens, prefix_cache=True)
    run = simulate(prefixes_requests, Deployment((one,), stop_on_overload=False))
    assert run.meta["outcome"] == "finished"
    hits, last = leading_hits(prefixes_requests), (prefixes_requests.input_tokens - 1) // 512
    assert run.column("cached_tokens").tolist() == (512 * np.minimum(hits, last)).tolist()
    lost = (hits > last).sum() / np.diff(prefixes_requests.block_ptr).sum()
    assert 0 < lost < 0.002
    blocks = run.column("cached_tokens").sum() / 512 / np.diff(prefixes_requests.block_ptr).sum()
    assert blocks + lost == pytest.approx(0.64, abs=0.005)


def test_a_smaller_cache_hits_less(prefixes_requests):
    some = prefixes_requests.head(1500)
    cost = Cost.constant(1e-4)
    shares = []
    for tokens in (200_000, 2_000_000, 20_000_000):
        one = Pool("x", cost, kv_blocks=tokens // 16, prefix_cache=True)
        run = simulate(some, Deployment((one,), stop_on_overload=False))
        shares.append(run.column("cached_tokens").sum() / some.input_tokens.sum())
    assert shares[0] < shares[1] < shares[2]
