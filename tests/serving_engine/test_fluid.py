"""KV cache over random links beside random traffic, against a fluid model of its own (`fluid.py`).

When a transfer begins, and between which replicas it goes, is taken from the run; when it ends is what is compared.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.engine.serving import CrossTraffic, Deployment, Links, Pool, Router, Transfers, simulate

from . import fluid
from .columns import rows
from .test_links import BYTES, DECODE, PREFILL

S = 10**12
MS = 10**9
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
