"""Replicas come and go: timelines worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from railyard.engine.serving import (
    Autoscale,
    Cost,
    Deployment,
    Links,
    Outages,
    Pool,
    Router,
    Store,
    rolling_update,
    simulate,
)
from railyard.engine.serving.deployment import NEVER_PS
from railyard.engine.serving.running import COLUMNS

from .columns import hashed, rows
from .test_links import apart, ways

S = 10**12
SECOND = Cost.constant(1.0)
"""An iteration takes a second: an answer of n tokens n seconds."""


def away(*outages, drain=False):
    """(replica, from_s, to_s), ..."""
    columns = list(zip(*outages, strict=True))
    ends = [NEVER_PS if end is None else round(end * S) for end in columns[2]]
    begins = np.array([round(begin * S) for begin in columns[1]])
    return Outages(np.array(columns[0], np.int32), begins, np.array(ends), np.full(len(ends), drain))


def rule(**changed):
    given = {"tolerance": 0.0, "interval_ps": 10 * S, "cold_start_ps": 25 * S, "hold_ps": 30 * S}
    return Autoscale(1, 0.5, **(given | changed))


def served(at_s, outputs, scale, replicas=4, *, router="least-loaded", outages=None):
    one = Pool("x", SECOND, replicas, max_sequences=2, autoscale=scale)
    made = rows(np.array(at_s) * S, np.ones(len(at_s)), outputs)
    return simulate(made, Deployment((one,), Router(router), outages=outages or Outages()))


def test_a_pool_follows_the_load():
    """Wanted: a replica for each request (half of two places). Looks every 10 s, 25 s until a new one serves.

    10 s: 3 requests, two replicas more from 35 s on. 40 s: 6, the fourth from 65 s on. 101 s: two are done, and
    those that waited for their places begin; 136 s, 137 s: two more. 140 s: 2 requests, which has to last until
    170 s: two go.
    201 s: the others are done. 210 s: nobody is there, until 240 s: one more goes.
    """
    run = served([1, 1, 1, 34, 36, 37, 250], [100] * 6 + [1], rule())
    assert run.who.tolist() == [0, 0, 0, 0, 1, 2, 0]
    assert (run.column("admitted_ps") / S).tolist() == [1, 1, 101, 101, 36, 37, 250]
    assert (run.end_ps / S).tolist() == [101, 101, 201, 201, 136, 137, 251]
    assert (run.table("replicas")["up_ps"] / S).tolist() == [251, 240 - 10, 170 - 10, 170 - 40]


def test_nothing_changes_within_the_tolerance():
    """Three requests on two replicas: one more is half of two."""
    for tolerance, third in [(0.49, True), (0.5, False)]:
        run = served([1, 1, 1], [20] * 3, rule(first_replicas=2, tolerance=tolerance))
        assert (run.table("replicas")["up_ps"][2] > 0) == third


def test_the_queue_can_be_the_measure():
    """Six requests on one replica with two places: four wait, two replicas are wanted for two waiting ones each."""
    run = served([1] * 6, [20] * 6, replace(rule(measure="queue"), target=2.0))
    assert (run.table("replicas")["up_ps"] > 0).tolist() == [True, True, False, False]


def test_who_leaves_finishes_first_and_can_be_called_back():
    """Replica 1 leaves at 10 s with a long answer; replica 0 fails at 15 s; at 20 s it takes who waits."""
    outages = away((0, 15, None))
    run = served([0, 0, 16], [5, 60, 5], rule(first_replicas=2, hold_ps=0), 2, router="round-robin", outages=outages)
    assert run.meta["outcome"] == "finished"
    assert run.who.tolist() == [0, 1, 1]
    assert (run.column("admitted_ps") / S).tolist() == [0, 0, 20]
    assert run.column("requeued").tolist() == [0, 0, 0]


def test_a_failure_of_a_replica_that_was_not_there_does_not_start_it():
    run = served([0], [20], rule(), outages=away((1, 1, 2)))
    assert run.table("replicas")["up_ps"][1] == 0


def test_a_failure_costs_what_was_computed_and_keeps_what_has_come_out():
    """Four tokens are out at 4.5 s; at 6 s prompt and answer are computed anew, which brings the fifth."""
    run = served([0], [10], None, 1, outages=away((0, 4.5, 6)))
    assert run.column("requeued")[0] == 1
    assert run.column("first_token_ps")[0] == 1 * S
    assert run.end_ps[0] == 12 * S
    assert run.table("replicas")["up_ps"][0] == (12 - 1.5) * S
    assert run.table("replicas")["input_tokens"][0] == 1 + 5


def test_a_drained_replica_finishes_and_is_away_from_then_on():
    """Ordered to drain at 5 s for 7 s, it has work until 20 s and is back at 27 s."""
    run = served([0, 6, 26, 28], [20, 1, 1, 1], None, 2, outages=rolling_update([0], 5 * S, S, 7 * S))
    assert run.who.tolist() == [0, 1, 1, 0]
    assert run.column("requeued").sum() == 0
    assert (run.end_ps / S).tolist() == [20, 7, 27, 29]


def test_a_rolling_update_loses_nobody():
    at = np.arange(0, 200, 5)
    run = served(at, np.full(len(at), 12), None, 3, outages=rolling_update([0, 1, 2], 30 * S, 40 * S, 15 * S))
    assert run.meta["outcome"] == "finished"
    assert run.column("requeued").sum() == 0
    assert set(run.who.tolist()) == {0, 1, 2}


def test_a_failure_while_a_drained_replica_is_away_ends_with_both():
    """Empty at 1 s and away for 7 s; a failure from 2 s to 3 s is over before."""
    outages = Outages(
        np.array([0, 0], np.int32), np.array([0, 2 * S]), np.array([7 * S, 3 * S]), np.array([True, False])
    )
    run = served([0, 4], [1, 1], None, 1, outages=outages)
    assert (run.column("admitted_ps") / S).tolist() == [0, 8]


def moved(outages, latency_ps=0, decodes=2):
    """1,000 tokens computed until 1 s, then 8 Mbit on the way to replica 1 until 2 s; a link to each decoder."""
    links = ways([8e6, 8e6], [(0, 1, {0: 1.0}), (0, 2, {1: 1.0})][:decodes], latency_ps)
    deployment = replace(apart(links, decodes=decodes), outages=outages)
    return simulate(rows([0], [1000], [3]), deployment)


def test_what_is_on_its_way_to_a_failed_replica_is_sent_to_another_one():
    run = moved(away((1, 1.5, 9)))
    assert run.column("requeued")[0] == 0
    assert run.column("decode_replica")[0] == 2
    assert run.column("transfer_start_ps")[0] == 1.5 * S
    assert run.column("transfer_end_ps")[0] / S == pytest.approx(2.5, abs=1e-11)
    assert run.table("links")["bytes"] == pytest.approx([0.5e6, 1e6])


def test_where_there_is_no_other_the_source_keeps_it():
    run = moved(away((1, 1.5, 9)), decodes=1)
    assert run.column("requeued")[0] == 0
    assert run.column("transfer_end_ps")[0] / S == pytest.approx(10, abs=1e-11)


def test_what_the_source_has_let_go_of_is_computed_anew():
    """All has left at 2 s, the target fails at 2.2 s, half a second's way. Prompt and first token: 1,001 tokens."""
    run = moved(away((1, 2.2, 9)), latency_ps=S // 2)
    assert run.column("requeued")[0] == 1
    assert run.column("first_token_ps")[0] == S
    assert run.column("transfer_start_ps")[0] / S == pytest.approx(2.2 + 1.001, abs=1e-11)
    assert run.column("transfer_end_ps")[0] / S == pytest.approx(2.2 + 1.001 + 1.001 + 0.5, abs=1e-11)


def test_a_failed_source_loses_what_has_not_left():
    run = moved(away((0, 1.5, 3)))
    assert run.column("requeued")[0] == 1
    assert run.column("transfer_start_ps")[0] / S == pytest.approx(3 + 1.001, abs=1e-11)
    assert run.table("links")["bytes"].sum() == pytest.approx(0.5e6 + 1.001e6)
    assert (run.table("replicas")["kv_used_blocks"] == 0).all()


def test_a_drained_decoder_waits_for_what_is_on_its_way():
    run = moved(replace(away((1, 1.5, 9)), drain=np.ones(1, np.bool_)))
    assert run.column("requeued")[0] == 0
    assert run.column("decode_replica")[0] == 1
    assert run.column("transfer_end_ps")[0] / S == pytest.approx(2, abs=1e-11)


# Replicas that start load their weights over links that they share; a store is written over links.

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
