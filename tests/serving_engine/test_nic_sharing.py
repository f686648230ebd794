"""Collectives over NICs and transfers of keys and values slow each other down."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.engine.serving import Cost, Deployment, Links, Outages, Pool, Router, Transfers, simulate
from railyard.engine.serving.running import COLUMNS

from .columns import LINEAR, pool, rows
from .test_reference import requests

S = 10**12
MS = 10**9
NIC = 8e9
STEP_S, NETWORK_S = 0.010, 0.002
FAR = 1e6
"""Bytes over the NIC in an iteration of one token: a millisecond at its rate."""
SENT = 4e6
"""Bytes of keys and values of a token."""


def law(own_bps: float = NIC) -> Cost:
    """Every iteration of one token takes the same time; of more tokens, no longer but on the NIC."""
    table = np.array([0, 1024]), np.full(2, STEP_S - NETWORK_S), np.full(2, NETWORK_S)
    return Cost(*table, scale_out_bytes_per_token=FAR, scale_out_bps=own_bps)


def links(source_bps: float = 1e12) -> Links:
    """From replica 0 over its own link to replica 1, whose collectives use the link that it receives by."""
    return Links(
        rate_bps=np.array([source_bps, NIC]),
        from_replica=np.array([0], np.int32),
        to_replica=np.array([1], np.int32),
        ptr=np.array([0, 2]),
        link=np.array([0, 1], np.int32),
        share=np.ones(2),
        latency_ps=np.zeros(1, np.int64),
        collective_ptr=np.array([0, 0, 1]),
        collective_link=np.array([1], np.int32),
        collective_share=np.ones(1),
    )


def split(ways: Links, cost: Cost) -> Deployment:
    prefill = Pool("prefill", Cost.constant(STEP_S), role="prefill", kv_bytes_per_token=SENT)
    decode = Pool("decode", cost, role="decode", kv_bytes_per_token=SENT, max_batched_tokens=1024, max_sequences=1)
    return Deployment((prefill, decode), Router(), links=ways)


def lengthened(source_bps: float, own_bps: float):
    """A long answer under way, and a prompt whose cache comes meanwhile: its seconds, the answer's with and without."""
    deployment = split(links(source_bps), law(own_bps))
    both = simulate(rows([0, S], [1, 200], [400, 2]), deployment)
    alone = simulate(rows([0], [1], [400]), deployment)
    took = (both.column("transfer_end_ps")[1] - both.column("transfer_start_ps")[1]) / S
    return took, both, alone


def test_fair_shares_while_collectives_send():
    """The transfer has what the mean of the collectives leaves; these have half of the NIC whenever they send."""
    took, both, alone = lengthened(1e12, NIC)
    more = 8 * FAR / NIC
    rate = NIC - 8 * FAR / (STEP_S + more)
    assert took == pytest.approx(8 * 200 * SENT / rate, rel=1e-9)
    lost = took * more / (STEP_S + more)
    assert (both.end_ps[0] - alone.end_ps[0]) / S == pytest.approx(lost, rel=1e-7)
    assert (both.column("collectives_ps")[0] - alone.column("collectives_ps")[0]) / S == pytest.approx(lost, rel=1e-7)
    assert both.table("replicas")["slowed_ps"][1] / S == pytest.approx(lost, rel=1e-7)
    assert alone.table("replicas")["slowed_ps"].tolist() == [0, 0]


@pytest.mark.parametrize("collective_share", [1.0, 0.8, 0.6])
def test_a_transfer_that_is_slow_elsewhere_leaves_the_rest(collective_share):
    """It has 30 % of the NIC: collectives that want more than 70 % get those, others do not feel it."""
    took, both, alone = lengthened(0.3 * NIC, collective_share * NIC)
    assert took == pytest.approx(8 * 200 * SENT / (0.3 * NIC), rel=1e-9)
    more = 8 * FAR / NIC * max(0.0, 1 / 0.7 - 1 / collective_share)
    lost = took * more / (STEP_S + more)
    assert (both.end_ps[0] - alone.end_ps[0]) / S == pytest.approx(lost, rel=1e-7, abs=1e-12)


def test_what_other_work_hides():
    """A transfer doubles the millisecond on the NIC; 0.6 ms of the second one have room behind other work."""
    hidden = replace(law(), scale_out_slack_s=np.full(2, 6e-4))
    both = simulate(rows([0, S], [1, 200], [400, 2]), split(links(), hidden))
    alone = simulate(rows([0], [1], [400]), split(links(), hidden))
    took = (both.column("transfer_end_ps")[1] - both.column("transfer_start_ps")[1]) / S
    more = 8 * FAR / NIC - 6e-4
    assert took == pytest.approx(8 * 200 * SENT / (NIC - 8 * FAR / (STEP_S + more)), rel=1e-9)
    assert (both.end_ps[0] - alone.end_ps[0]) / S == pytest.approx(took * more / (STEP_S + more), rel=1e-7)


def test_bytes_on_the_link():
    _, both, alone = lengthened(1e12, NIC)
    assert alone.table("links")["bytes"][1] == pytest.approx(SENT + FAR * 399, rel=0.01)
    assert both.table("links")["bytes"][1] == pytest.approx(201 * SENT + FAR * 400, rel=0.01)


def test_where_they_do_not_meet_nothing_changes():
    plain = replace(
        links(),
        collective_ptr=np.zeros(0, np.int64),
        collective_link=np.zeros(0, np.int32),
        collective_share=np.zeros(0),
    )
    made = rows([0, S], [1, 200], [400, 2])
    runs = [simulate(made, split(plain, cost)) for cost in (law(), replace(law(), scale_out_bytes_per_token=0.0))]
    for name in COLUMNS:
        assert runs[0].column(name).tolist() == runs[1].column(name).tolist()
    assert runs[0].column("transfer_end_ps")[1] - runs[0].column("transfer_start_ps")[1] == round(
        8 * 200 * SENT / NIC * S
    )


@settings(max_examples=150, deadline=None)
@given(requests(), st.data())
def test_runs_are_skipped_exactly(made, data):
    """Prefill and decode apart, both with collectives on their NICs, layers sent ahead, replicas that fail."""
    own = replace(LINEAR, scale_out_bytes_per_token=data.draw(st.sampled_from([1e3, 1e5])), scale_out_bps=8e9)
    first = pool(role="prefill", cost=own, replicas=2, kv_bytes_per_token=1e5, kv_blocks=500)
    second = pool(role="decode", cost=own, replicas=2, kv_bytes_per_token=1e5, kv_blocks=500)
    pairs = [(a, b) for a in (0, 1) for b in (2, 3)]
    net = Links(
        rate_bps=np.full(4, data.draw(st.sampled_from([8e9, 3e8]))),
        from_replica=np.array([a for a, _ in pairs], np.int32),
        to_replica=np.array([b for _, b in pairs], np.int32),
        ptr=np.arange(0, 9, 2),
        link=np.array(pairs, np.int32).ravel(),
        share=np.ones(8),
        latency_ps=np.full(4, 1000),
        collective_ptr=np.arange(5),
        collective_link=np.arange(4, dtype=np.int32),
        collective_share=np.ones(4),
    )
    at = data.draw(st.lists(st.integers(0, 150), max_size=1))
    away = Outages(
        np.zeros(len(at), np.int32),
        np.array(at, np.int64) * MS,
        np.array(at, np.int64) * MS + 20 * MS,
        np.zeros(len(at), np.bool_),
    )
    overlap = Transfers(data.draw(st.sampled_from([0.0, 0.7])))
    deployment = Deployment(
        (first, second), Router("least-loaded"), links=net, transfers=overlap, outages=away, stop_on_overload=False
    )
    runs = [simulate(made, deployment, skip_runs=skip) for skip in (True, False)]
    for name in COLUMNS:
        assert runs[0].column(name).tolist() == runs[1].column(name).tolist(), name
    for name in ("busy_ps", "slowed_ps", "iterations"):
        assert runs[0].table("replicas")[name].tolist() == runs[1].table("replicas")[name].tolist(), name
    assert runs[0].table("gaps")["count"].tolist() == runs[1].table("gaps")["count"].tolist()
