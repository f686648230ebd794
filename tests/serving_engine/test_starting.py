"""Replicas that start load their weights over links that they share; a store is written over links."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from railyard.engine.serving import Autoscale, Cost, Deployment, Links, Outages, Pool, Router, Store, simulate
from railyard.engine.serving.running import COLUMNS

from .columns import hashed, rows

S = 10**12
WEIGHTS = 1e9
RATE = 8e9
"""Weights take a second at it."""


def net(replicas: int, storage_bps: float = RATE, peers: bool = False, store: bool = False) -> Links:
    """Link r leads out of replica r, link n + r into it; the last two out of storage and store, and into the store."""
    out, into = replicas * 2, replicas * 2 + 1
    ways = [(-2, r, [out, replicas + r]) for r in range(replicas)]
    if peers:
        ways += [(a, b, [a, replicas + b]) for a in range(replicas) for b in range(replicas) if a != b]
    if store:
        ways += [(-1, r, [out, replicas + r]) for r in range(replicas)] + [(r, -1, [r, into]) for r in range(replicas)]
    return Links(
        rate_bps=np.array([RATE] * (2 * replicas) + [storage_bps, storage_bps]),
        from_replica=np.array([a for a, _, _ in ways], np.int32),
        to_replica=np.array([b for _, b, _ in ways], np.int32),
        ptr=np.arange(0, 2 * len(ways) + 1, 2),
        link=np.array([link for _, _, used in ways for link in used], np.int32),
        share=np.ones(2 * len(ways)),
        latency_ps=np.zeros(len(ways), np.int64),
    )


def fleet(replicas: int, load: str, **more) -> Deployment:
    """A tenth of a second a request, 40 of them at once: all replicas are wanted at the first look, after a second."""
    rule = Autoscale(1, 1.0, "queue", interval_ps=S, cold_start_ps=S // 2, load=load)
    one = Pool("x", Cost.constant(0.1), replicas, max_sequences=1, autoscale=rule, weight_bytes=WEIGHTS, load_s=3.0)
    return Deployment((one,), Router("least-loaded"), stop_on_overload=False, **more)


MANY = rows([0] * 40 + [S * 20] * 20, [1] * 60, [1] * 60)


def test_a_fleet_that_scales_up_at_once_contends_at_the_storage():
    run = simulate(MANY, fleet(4, "storage", links=net(4)))
    assert run.table("replicas")["loads"].tolist() == [0, 1, 1, 1]
    assert (run.table("replicas")["load_ps"] / S).tolist() == pytest.approx([0, 3, 3, 3])
    wide = simulate(MANY, fleet(4, "storage", links=net(4, 100 * RATE)))
    assert (wide.table("replicas")["load_ps"] / S).tolist() == pytest.approx([0, 1, 1, 1])


def test_peers_are_read_from_in_turn():
    """The only one that is up serves all three; with two up, the two that start have one each."""
    run = simulate(MANY, fleet(4, "peer", links=net(4, peers=True)))
    assert (run.table("replicas")["load_ps"] / S).tolist() == pytest.approx([0, 3, 3, 3])
    two = fleet(4, "peer", links=net(4, peers=True))
    two = replace(two, pools=(replace(two.pools[0], autoscale=replace(two.pools[0].autoscale, first_replicas=2)),))
    assert (simulate(MANY, two).table("replicas")["load_ps"] / S).tolist() == pytest.approx([0, 0, 1, 1])


def test_without_a_way_from_a_peer_or_storage_the_pool_has_its_own_time():
    run = simulate(MANY, fleet(2, "peer", links=net(2)))
    assert (run.table("replicas")["load_ps"] / S).tolist() == pytest.approx([0, 1])
    run = simulate(MANY, fleet(2, "peer"))
    assert (run.table("replicas")["load_ps"] / S).tolist() == pytest.approx([0, 3])


def test_a_source_that_fails_is_replaced():
    """Half of it has come from the only peer, which is lost: all of it from storage."""
    deployment = fleet(2, "peer", links=net(2, peers=True))
    away = Outages(np.array([0], np.int32), np.array([2 * S]), np.array([9 * S]), np.zeros(1, np.bool_))
    run = simulate(MANY, replace(deployment, outages=away))
    assert run.table("replicas")["load_ps"][1] / S == pytest.approx(0.5 + 1.0)
    assert run.meta["outcome"] == "finished"


@pytest.mark.parametrize("drain", [False, True])
def test_replicas_that_come_back_load(drain):
    """Both are away from 1 s to 2 s, and load together from storage for two seconds."""
    pool = Pool("x", Cost.constant(0.1), 2, weight_bytes=WEIGHTS)
    made = rows([2 * S], [1], [1])
    both = np.array([0, 1], np.int32), np.array([S, S]), np.array([2 * S, 2 * S]), np.full(2, drain)
    run = simulate(made, Deployment((pool,), links=net(2), outages=Outages(*both, np.array([1, 1], np.uint8))))
    assert (run.table("replicas")["load_ps"] / S).tolist() == pytest.approx([2, 2])
    assert run.column("admitted_ps")[0] / S == pytest.approx(4)
    plain = simulate(made, Deployment((pool,), links=net(2), outages=Outages(*both)))
    assert plain.column("admitted_ps")[0] / S == pytest.approx(2)


def stored(*, written: bool) -> Deployment:
    """A prompt of 64 tokens on replica 0, the same on 1: 64 kB each way, at 64 kB a second."""
    slow = Cost(np.array([0, 1024]), np.array([0.0, 1024 * 0.1]), np.zeros(2))
    pool = Pool("x", slow, 2, max_batched_tokens=1024, prefix_cache=True, kv_bytes_per_token=1000.0)
    ways = net(2, 64e3 * 8, store=True)
    if not written:
        keep = ways.to_replica >= 0
        used = np.repeat(keep, 2)
        ways = replace(
            ways,
            from_replica=ways.from_replica[keep],
            to_replica=ways.to_replica[keep],
            ptr=np.arange(0, 2 * int(keep.sum()) + 1, 2),
            link=ways.link[used],
            share=ways.share[used],
            latency_ps=ways.latency_ps[keep],
        )
    return Deployment((pool,), Router("round-robin"), links=ways, store=Store(1e9))


@pytest.mark.parametrize(("gap_s", "found"), [(0.1, 0), (0.5, 16), (1.5, 64)])
def test_the_store_has_what_has_been_written(gap_s, found):
    """All units are known when the prefill begins: the first is sent at once, a quarter of a second, then the rest."""
    made = hashed(rows([0, round(gap_s * S)], [80, 80], [1, 1]), [[1, 2, 3, 4], [1, 2, 3, 4]], 16)
    run = simulate(made, stored(written=True))
    assert run.column("loaded_tokens").tolist() == [0, found]
    assert run.table("links")["bytes"][0] == pytest.approx(64e3)
    assert (run.column("prefill_start_ps")[1] - run.column("admitted_ps")[1]) / S == pytest.approx(found / 64)
    free = simulate(made, stored(written=False))
    assert free.column("loaded_tokens").tolist() == [0, 64]
    assert free.table("links")["bytes"][0] == 0


def test_stepping_through_gives_the_same():
    made = rows(np.arange(60) * S // 8, [30] * 60, [40] * 60)
    for load in ("storage", "peer"):
        deployment = fleet(4, load, links=net(4, peers=True))
        runs = [simulate(made, deployment, skip_runs=skip) for skip in (True, False)]
        for name in COLUMNS:
            assert runs[0].column(name).tolist() == runs[1].column(name).tolist(), name
        assert runs[0].table("replicas")["load_ps"].tolist() == runs[1].table("replicas")["load_ps"].tolist()
