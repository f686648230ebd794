"""A prefix that another replica has is moved where that is faster than computing it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.engine.serving import Cost, CrossTraffic, Deployment, Links, Outages, Pool, Router, simulate
from railyard.engine.serving.running import COLUMNS

from .cases import requests
from .columns import hashed, pool, rows

S = 10**12
MS = 10**9
BYTES = 1000.0
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
