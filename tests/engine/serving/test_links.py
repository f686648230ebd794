"""KV cache over links, against what can be worked out by hand. Random cases: test_fluid.py."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.serving import fluid

from railyard.engine.serving import (
    Cost,
    CrossTraffic,
    Deployment,
    Links,
    Outages,
    Pool,
    Router,
    Store,
    Transfers,
    simulate,
)
from railyard.engine.serving.running import COLUMNS

from .columns import LINEAR, hashed, pool, rows
from .test_everything import requests

S = 10**12
MS = 10**9
BYTES = 1000.0
"""Of a token: one of 1,000 tokens is 8 Mbit."""
PREFILL = Cost(np.array([0, 8192]), np.array([0.0, 8.192]), np.zeros(2))
"""A millisecond a token."""
DECODE = Cost.constant(1e-3)


def ways(rate_bps, table, latency_ps=0):
    """`table`: (from, to, {link: share})."""
    counts = [len(uses) for _, _, uses in table]
    return Links(
        np.asarray(rate_bps, np.float64),
        np.array([a for a, _, _ in table], np.int32),
        np.array([b for _, b, _ in table], np.int32),
        np.concatenate(([0], np.cumsum(counts))),
        np.array([link for _, _, uses in table for link in uses], np.int32),
        np.array([share for _, _, uses in table for share in uses.values()]),
        np.full(len(table), latency_ps, np.int64),
    )


def apart(links, prefills=1, decodes=1, overlap=0.0, background=None, **changed):
    first = Pool("p", PREFILL, prefills, "prefill", kv_bytes_per_token=BYTES, **changed)
    second = Pool("d", DECODE, decodes, "decode", kv_bytes_per_token=BYTES)
    return Deployment(
        (first, second),
        Router("round-robin"),
        Router("round-robin"),
        links,
        background or CrossTraffic(),
        Transfers(overlap),
    )


def background(link, cap_bps, weight=1.0, from_ps=0, to_ps=1000 * S):
    return CrossTraffic(
        np.array([from_ps]), np.array([to_ps]), np.array([0, 1]), np.array([link], np.int32), np.ones(1),
        np.array([cap_bps]), np.array([weight]),
    )  # fmt: skip


def times_s(run, row=0):
    names = ("first_token_ps", "transfer_start_ps", "transfer_end_ps")
    return np.array([run.column(name)[row] for name in names]) / S


def test_one_flow_takes_latency_and_bytes_over_the_slowest_link():
    links = ways([100e6, 8e6, 1e9], [(0, 1, {0: 1.0, 1: 1.0, 2: 1.0})], latency_ps=7 * MS)
    run = simulate(rows([0], [1000], [3]), apart(links))
    assert times_s(run) == pytest.approx([1.0, 1.0, 2.007], abs=2e-12)
    assert run.end_ps[0] / S == pytest.approx(2.007 + 2 * 1e-3, abs=2e-12)
    assert run.table("links")["bytes"] == pytest.approx([1e6] * 3)


def test_the_share_is_wire_bytes_per_byte_so_that_headers_and_several_nics_count():
    """Three NICs with a third each, one of them half as fast, and headers of 5 %."""
    third = 1.05 / 3
    links = ways([8e6, 8e6, 4e6], [(0, 1, {0: third, 1: third, 2: third})])
    run = simulate(rows([0], [1000], [2]), apart(links))
    assert times_s(run)[2] == pytest.approx(1.0 + 8e6 * third / 4e6, abs=2e-12)
    assert run.table("links")["bytes"] == pytest.approx([1e6 * third] * 3)


def test_two_flows_on_a_link_take_half_each():
    """The shorter ends first, then the longer has all: 500 tokens beside 1,000, on 8 Mbit/s."""
    links = ways([8e6], [(a, 2, {0: 1.0}) for a in (0, 1)])
    run = simulate(rows([0, 500 * MS], [1000, 500], [2, 2]), apart(links, prefills=2))
    assert run.column("transfer_start_ps").tolist() == [S, S]
    assert run.column("transfer_end_ps") / S == pytest.approx([1 + 1.5, 1 + 1.0], abs=4e-12)


def test_max_min_gives_the_unbound_what_the_bound_leave():
    """A over links 0 and 1, B over 0, C over 1: A and C share link 1 (4 Mbit/s), B has the rest of link 0 (10)."""
    table = [(0, 3, {0: 1.0, 1: 1.0}), (1, 3, {0: 1.0}), (2, 3, {1: 1.0})]
    run = simulate(rows([0, 0, 0], [1000] * 3, [2] * 3), apart(ways([10e6, 4e6], table), prefills=3))
    ends = run.column("transfer_end_ps") / S - 1
    # A and C at 2 Mbit/s each and B at 8; B is through after 1 s, A and C go on at 2
    assert ends == pytest.approx([4.0, 1.0, 4.0], abs=4e-12)
    assert run.table("links")["bytes"] == pytest.approx([2e6, 2e6])


def test_other_traffic_takes_its_part_by_weight_and_no_more_than_it_asks_for():
    links = ways([12e6], [(0, 1, {0: 1.0})])
    for cap, weight, left in [(1e12, 1.0, 6e6), (1e12, 2.0, 4e6), (1e12, 0.5, 8e6), (3e6, 2.0, 9e6)]:
        run = simulate(rows([0], [1000], [2]), apart(links, background=background(0, cap, weight)))
        assert times_s(run)[2] == pytest.approx(1 + 8e6 / left, abs=4e-12)


def test_other_traffic_counts_from_when_it_begins_until_it_ends():
    """8 Mbit at 8 Mbit/s; from 0.25 s to 0.75 s of them at half of that: a quarter of a second later."""
    links = ways([8e6], [(0, 1, {0: 1.0})])
    other = background(0, 1e12, from_ps=1250 * MS, to_ps=1750 * MS)
    run = simulate(rows([0], [1000], [2]), apart(links, background=other))
    assert times_s(run)[2] == pytest.approx(1 + 1.25, abs=4e-12)
    assert run.table("links")["bytes"] == pytest.approx([1e6 + 0.25e6], rel=1e-9)


@pytest.mark.parametrize(
    ("rate_bps", "overlap", "end_s"),
    [
        (16e6, 0.0, 1.5),  # all of it afterwards
        (16e6, 0.5, 1.25),  # half of it was there by 0.25 s, the rest follows
        (16e6, 1.0, 1.0),  # nothing is left when the prefill is over ...
        (4e6, 1.0, 2.0),  # ... unless the link is slower than the prefill
        (4e6, 0.75, 2.0),  # that part is still under way when the rest joins it
        (4e6, 0.25, 1.0 + 1.5),  # the first part was through at 0.5 s; 6 of 8 Mbit are left
    ],
)
def test_layers_flow_while_the_prefill_runs(rate_bps, overlap, end_s):
    links = ways([rate_bps], [(0, 1, {0: 1.0})])
    run = simulate(rows([0], [1000], [2]), apart(links, overlap=overlap))
    begin = 0 if overlap else S
    assert run.column("transfer_start_ps")[0] == begin
    assert run.column("transfer_end_ps")[0] / S == pytest.approx(end_s, abs=4e-12)
    assert run.table("links")["bytes"] == pytest.approx([1e6])


def test_the_source_holds_its_blocks_until_the_last_byte_has_left():
    """Room for one prompt: the next one starts when the transfer is over, though the replica has nothing to do."""
    links = ways([8e6], [(0, 1, {0: 1.0})], latency_ps=50 * MS)
    run = simulate(rows([0, 0], [1000, 1000], [2, 2]), apart(links, kv_blocks=63))
    assert run.column("prefill_start_ps")[1] / S == pytest.approx(2.0, abs=2e-12)
    ample = simulate(rows([0, 0], [1000, 1000], [2, 2]), apart(links))
    assert ample.column("prefill_start_ps")[1] < S


def test_the_store_is_read_over_links_where_there_is_a_way():
    """8 units of 16 tokens are loaded for the second prompt, at what other traffic leaves of 16 Mbit/s."""
    made = hashed(rows([0, 10 * S], [136, 136], [1, 1]), [list(range(8)), list(range(8))], 16)
    one = Pool("x", PREFILL, 2, prefix_cache=True, kv_bytes_per_token=BYTES)
    links = ways([16e6], [(-1, 1, {0: 1.0})], latency_ps=3 * MS)
    other = background(0, 4e6)
    run = simulate(made, Deployment((one,), links=links, background=other, store=Store(1e9, 1.0)))
    loads = 128 * BYTES * 8 / 12e6 + 0.003
    assert run.column("loaded_tokens").tolist() == [0, 128]
    assert run.column("first_token_ps")[1] / S == pytest.approx(10 + loads + 0.008, abs=1e-11)
    assert run.column("admitted_ps")[1] == 10 * S
    assert run.table("links")["bytes"][0] == pytest.approx(128e3 + 4e6 / 8 * run.meta["end_ps"] / S, rel=1e-9)


# KV cache over random links beside random traffic, against a fluid model of its own (`fluid.py`).

MANY = 40
"""Links of a way, for which the core has lists of those that may be full."""
SHARES = st.sampled_from([0.25, 1 / 3, 0.525, 1.0, 1.07]) | st.floats(0.05, 2.0)


def _ways(draw, links, low, high):
    """So many random ways: {link: share}."""
    one = st.dictionaries(st.integers(0, links - 1), SHARES, min_size=1, max_size=min(3, links))
    if links == MANY:  # as packets that are sprayed over all switches
        one |= st.lists(st.sampled_from([0.02, 0.025, 0.03]), min_size=MANY, max_size=MANY).map(
            lambda shares: dict(enumerate(shares))
        )
    return draw(st.lists(one, min_size=low, max_size=high))


def _columns(uses):
    """ptr, link, share of a list of {link: share}."""
    return (
        np.cumsum([0, *(len(one) for one in uses)]),
        np.array([link for one in uses for link in one], np.int32),
        np.array([share for one in uses for share in one.values()], np.float64),
    )


@st.composite
def cases(draw):
    """Requests that a pool prefills, each replica one after the other, and sends to another pool; what else flows."""
    prefills, decodes = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    links = draw(st.integers(1, 5) | st.just(MANY))
    count = draw(st.integers(1, 10))
    gaps = draw(st.lists(st.integers(0, 400), min_size=count, max_size=count))
    inputs = draw(st.lists(st.integers(1, 1500), min_size=count, max_size=count))
    made = rows(np.cumsum(gaps) * MS, inputs, np.full(count, 2))

    each = {"min_size": links, "max_size": links}
    rate_bps = np.array(draw(st.lists(st.floats(1e6, 3e7) if links < MANY else st.sampled_from([1e6, 3e6]), **each)))
    ways = {(a, prefills + b): _ways(draw, links, 1, 2) for a in range(prefills) for b in range(decodes)}
    latency_ps = draw(st.sampled_from([0, 7 * MS]))
    pairs = [pair for pair, several in ways.items() for _ in several]
    net = Links(
        rate_bps,
        np.array([a for a, _ in pairs], np.int32),
        np.array([b for _, b in pairs], np.int32),
        *_columns([one for several in ways.values() for one in several]),
        np.full(len(pairs), latency_ps, np.int64),
    )

    other = _ways(draw, links, 0, 3)
    each = {"min_size": len(other), "max_size": len(other)}
    begin = np.array(draw(st.lists(st.integers(0, 3000), **each)), np.int64) * MS
    lasts = np.array(draw(st.lists(st.integers(0, 3000), **each)), np.int64) * MS
    caps = np.array(draw(st.lists(st.floats(1e5, 5e7), **each)), np.float64)
    weights = np.array(draw(st.lists(st.sampled_from([0.5, 1.0, 3.0]), **each)), np.float64)
    background = CrossTraffic(begin, begin + lasts, *_columns(other), caps, weights)

    overlap = draw(st.sampled_from([0.0, 0.3, 1.0]) | st.floats(0.0, 1.0))
    deployment = Deployment(
        (
            # one prompt at a time, and room for all that are sent: nothing but links lets a transfer wait
            Pool("p", PREFILL, prefills, "prefill", kv_bytes_per_token=BYTES, max_sequences=1, kv_blocks=10**4),
            Pool("d", DECODE, decodes, "decode", kv_bytes_per_token=BYTES, kv_blocks=10**4),
        ),
        Router("least-loaded"),
        Router("round-robin"),
        net,
        background,
        Transfers(overlap),
    )
    return made, deployment, ways


def _transfers(made, run, ways, overlap):
    """What flows for each request: a part from the start of its prefill, the rest when that is over."""
    found, turns = {}, {}
    for row in np.argsort(run.column("prefill_start_ps"), kind="stable"):
        pair = (int(run.who[row]), int(run.column("decode_replica")[row]))
        turn = turns[pair[0]] = turns.get(pair[0], -1) + 1  # of its ways a replica takes the next each time
        bits = 8 * BYTES * float(made.input_tokens[row])
        parts = [
            (run.column("prefill_start_ps")[row] / S, overlap * bits),
            (run.column("first_token_ps")[row] / S, (1 - overlap) * bits),
        ]
        found[int(row)] = fluid.Flow(ways[pair][turn % len(ways[pair])], parts if overlap else parts[1:])
    return [found[row] for row in range(len(made.arrival_ps))]


@settings(max_examples=300, deadline=None)
@given(cases())
def test_transfers_end_and_links_carry_what_the_fluid_model_says(case):
    made, deployment, ways = case
    run = simulate(made, deployment)
    other = deployment.background
    sent = _transfers(made, run, ways, deployment.transfers.overlap)
    beside = [
        fluid.Flow(
            dict(zip(other.link[begin:end].tolist(), other.share[begin:end].tolist(), strict=True)),
            [(float(other.from_ps[row]) / S, math.inf)],
            float(other.weight[row]),
            float(other.cap_bps[row]),
            float(other.to_ps[row]) / S,
        )
        for row, (begin, end) in enumerate(zip(other.ptr, other.ptr[1:], strict=False))
    ]
    wire = fluid.run(deployment.links.rate_bps.tolist(), sent + beside, run.meta["end_ps"] / S)
    ends = np.array([one.ends_s for one in sent]) + deployment.links.latency_ps[0] / S
    # a picosecond that an end is rounded by is worth more where what goes on is much slower
    assert run.column("transfer_end_ps") / S == pytest.approx(ends, abs=2e-9)
    assert run.table("links")["bytes"] == pytest.approx(wire, rel=1e-9, abs=1e-2)


def test_the_fluid_model_by_hand():
    """Links of 10 and 4 bit/s. A over both and C over the second have 2 each until A's 8 bits are through after 4 s;
    C's other 8 then take 2 s. B over the first with weight 3 has the rest, 8 bit/s, and then all."""
    a = fluid.Flow({0: 1.0, 1: 1.0}, [(0.0, 8.0)])
    b = fluid.Flow({0: 1.0}, [(0.0, 52.0)], 3.0)
    c = fluid.Flow({1: 1.0}, [(0.0, 16.0)])
    wire = fluid.run([10.0, 4.0], [a, b, c], 100.0)
    assert [a.ends_s, b.ends_s, c.ends_s] == pytest.approx([4.0, 6.0, 6.0])
    assert wire == pytest.approx([60 / 8, 24 / 8])
    assert fluid.rates([12.0], [fluid.Flow({0: 2.0}, []), fluid.Flow({0: 1.0}, [], 2.0, cap_bps=3.0)]) == [4.5, 3.0]


# Collectives over NICs and KV transfers slow each other down.

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
