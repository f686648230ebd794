"""Replicas come and go: timelines worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from railyard.engine.serving import (
    Autoscale,
    Cost,
    Deployment,
    Outages,
    Pool,
    Router,
    rolling_update,
    simulate,
)
from railyard.engine.serving.deployment import NEVER_PS

from .columns import rows
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
