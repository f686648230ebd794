"""Random small requests and deployments, all features of the engine together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from railyard.engine.serving import (
    Autoscale,
    CrossTraffic,
    Deployment,
    Links,
    Outages,
    Router,
    Speculative,
    Store,
    Transfers,
)

from .columns import LINEAR, hashed, pool, rows

MS = 10**9
BESIDE = replace(
    LINEAR,
    attention_per_kv_token_s=0.0,
    attention_per_sequence_s=0.0,
    attention_floor_s=0.0,
    overlapped_per_kv_token_s=np.array([1e-6, 7e-6, 3e-5]),
    overlapped_s=np.array([[0.0, 0.0, 0.0], [1e-4, 2e-4, 9e-4], [9e-4, 3e-3, 8e-3]]),
)
"""Attention that runs beside other work: three lines, of which one after the other is the longest."""
ROUTERS = ("round-robin", "random", "least-loaded", "two-choices", "prefix", "session")


@st.composite
def requests(draw, most=12):
    count = draw(st.integers(1, most))
    gaps = draw(st.lists(st.sampled_from([0, 1, MS // 3, 4 * MS, 11 * MS, 60 * MS]), min_size=count, max_size=count))
    inputs = draw(st.lists(st.integers(1, 90), min_size=count, max_size=count))
    outputs = draw(st.lists(st.integers(1, 40), min_size=count, max_size=count))
    made = rows(np.cumsum(gaps), inputs, outputs)
    made.session = np.array(draw(st.lists(st.integers(-1, 2), min_size=count, max_size=count)), np.int64)
    made.priority = np.array(draw(st.lists(st.integers(0, 2), min_size=count, max_size=count)), np.int32)
    block = draw(st.sampled_from([4, 8, 16]))
    families = draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    forks = draw(st.lists(st.integers(0, 6), min_size=count, max_size=count))
    answers = draw(st.booleans())
    chains = []
    for i, family in enumerate(families):
        length = (inputs[i] + (outputs[i] if answers else 0)) // block
        chains.append([family * 100 + u if u < forks[i] else 1000 * (i + 1) + u for u in range(length)])
    return hashed(made, chains, block)


@st.composite
def pools(draw, role="both"):
    stages = draw(st.sampled_from([1, 1, 2, 3]))
    cost = replace(
        draw(st.sampled_from([LINEAR, BESIDE])),
        pipeline_stages=stages,
        stage_share=1.0 if stages == 1 else draw(st.sampled_from([0.5, 0.75])),
    )
    return pool(
        role=role,
        cost=cost,
        replicas=draw(st.integers(1, 3)),
        block_tokens=4,
        kv_blocks=draw(st.sampled_from([12, 33, 40, 60, 500])),
        max_sequences=draw(st.sampled_from([1, 2, 3, 8])),
        max_batched_tokens=draw(st.sampled_from([8, 17, 64, 512])),
        prompt_tokens=draw(st.sampled_from([0, 0, 5, 20])),
        chunked=draw(st.sampled_from([True, True, False])),
        by_priority=draw(st.booleans()),
        ahead=stages == 1 and draw(st.booleans()),
        policy=draw(st.sampled_from(["decode-first", "prefill-first"])),
        prefix_cache=draw(st.booleans()),
        watermark=draw(st.sampled_from([0.0, 0.1])),
        preemption=draw(st.sampled_from(["recompute", "swap"])),
        swap_bytes=draw(st.sampled_from([0.0, 60_000.0, 1e9])),
        swap_bps=1e9,
        speculative=draw(st.sampled_from([None, None, Speculative(3, 0.7, 1e-4), Speculative(1, 1.0)])),
    )


def outages(draw, replicas, most=3, drains=True):
    """Failures that end, of any replica, and drains."""
    count = draw(st.integers(0, most))
    number = st.lists(st.integers(0, replicas - 1), min_size=count, max_size=count)
    begin = np.array(draw(st.lists(st.integers(0, 150), min_size=count, max_size=count)), np.int64) * MS
    lasts = np.array(draw(st.lists(st.integers(0, 100), min_size=count, max_size=count)), np.int64) * MS
    drain = draw(st.lists(st.booleans() if drains else st.just(False), min_size=count, max_size=count))
    return Outages(np.array(draw(number), np.int32), begin, begin + lasts, np.array(drain, np.bool_))


def scaled(draw, one):
    """The pool, or the same following the load."""
    if draw(st.booleans()):
        return one
    return replace(
        one,
        autoscale=Autoscale(
            draw(st.integers(1, one.replicas)),
            draw(st.sampled_from([0.1, 0.5, 2.0])),
            draw(st.sampled_from(["utilization", "queue"])),
            tolerance=draw(st.sampled_from([0.0, 0.1])),
            interval_ps=draw(st.sampled_from([7 * MS, 20 * MS])),
            cold_start_ps=draw(st.sampled_from([0, 15 * MS])),
            hold_ps=draw(st.sampled_from([0, 30 * MS])),
        ),
    )


def tiers(draw, one):
    """The pool, or the same with memory of the host below it."""
    room = draw(st.sampled_from([0.0, 40_000.0, 1e9]))
    rate, latency = draw(st.sampled_from([1e7, 1e9, 1e12])), draw(st.sampled_from([0.0, 1e-3]))
    return replace(one, host_kv_bytes=room, swap_bps=rate, host_latency_s=latency)


def store(draw):
    """A remote store, or none."""
    return Store(
        draw(st.sampled_from([0.0, 40_000.0, 1e9])),
        draw(st.sampled_from([1e7, 1e9, 1e12])),
        draw(st.sampled_from([0.0, 1e-3])),
    )


def links(draw, replicas, stored):
    """Two NICs a replica, a spine that all share, ways between all; other traffic on the spine."""
    spine = 2 * replicas
    rate = draw(st.sampled_from([1e7, 1e8, 1e10]))
    slower = draw(st.sampled_from([0.5, 1.0, 4.0]))
    source = [a for a in range(-1 if stored else 0, replicas) for b in range(replicas) if a != b]
    target = [b for a in range(-1 if stored else 0, replicas) for b in range(replicas) if a != b]
    ways = [
        [2 * b, 2 * b + 1, spine] if a < 0 else [2 * a, 2 * a + 1, spine] for a, b in zip(source, target, strict=True)
    ]
    count = draw(st.integers(0, 2))
    begin = np.array(draw(st.lists(st.integers(0, 100), min_size=count, max_size=count)), np.int64) * MS
    other = CrossTraffic(
        begin,
        begin + draw(st.sampled_from([0, 10 * MS, 200 * MS])),
        np.arange(count + 1),
        np.full(count, spine),
        np.ones(count),
        np.full(count, rate * draw(st.sampled_from([0.2, 10.0]))),
        np.full(count, 2.0),
    )
    return Links(
        np.array([rate] * spine + [slower * rate]),
        np.array(source, np.int32),
        np.array(target, np.int32),
        np.arange(0, 3 * len(ways) + 1, 3),
        np.array(ways, np.int32).ravel(),
        np.tile([0.5, 0.5, 1.0], len(ways)),
        np.full(len(ways), draw(st.sampled_from([0, 5 * MS]))),
    ), other


@st.composite
def deployments(draw):
    """Everything at once."""
    if draw(st.booleans()):
        some = tuple(draw(st.lists(pools(), min_size=1, max_size=2)))
    else:
        some = (draw(pools("prefill")), draw(pools("decode")))
    some = tuple(scaled(draw, tiers(draw, one)) for one in some)
    replicas = sum(one.replicas for one in some)
    kept = store(draw)
    ways, other = None, CrossTraffic()
    if replicas > 1 and draw(st.booleans()):
        ways, other = links(draw, replicas, draw(st.booleans()))
    return Deployment(
        some,
        Router(draw(st.sampled_from(ROUTERS)), load_weight=10.0, move=draw(st.booleans())),
        Router(draw(st.sampled_from(ROUTERS))),
        ways,
        other,
        Transfers(draw(st.sampled_from([0.0, 0.5, 1.0]))),
        kept,
        outages(draw, replicas),
        stop_on_overload=False,
    )
