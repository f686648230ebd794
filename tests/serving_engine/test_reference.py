"""Against the slow reference, bit by bit, on random small cases of all features."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.engine.serving import Deployment, Outages, Router, Speculative, simulate
from railyard.engine.serving.results import COLUMNS

from .columns import LINEAR, hashed, pool, rows
from .reference import Reference

MS = 10**9
BESIDE = replace(
    LINEAR,
    attention_per_kv_token_s=0.0,
    attention_per_sequence_s=0.0,
    attention_floor_s=0.0,
    beside_per_kv_token_s=np.array([1e-6, 7e-6, 3e-5]),
    beside_s=np.array([[0.0, 0.0, 0.0], [1e-4, 2e-4, 9e-4], [9e-4, 3e-3, 8e-3]]),
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
        chunked=draw(st.sampled_from([True, True, False])),
        ahead=stages == 1 and draw(st.booleans()),
        policy=draw(st.sampled_from(["decode-first", "prefill-first"])),
        prefix_cache=draw(st.booleans()),
        watermark=draw(st.sampled_from([0.0, 0.1])),
        preemption=draw(st.sampled_from(["recompute", "swap"])),
        swap_bytes=draw(st.sampled_from([0.0, 60_000.0, 1e9])),
        swap_bps=1e9,
        speculative=draw(st.sampled_from([None, None, Speculative(3, 0.7, 1e-4), Speculative(1, 1.0)])),
    )


def compare(made, deployment, seed, **loop):
    found = Reference(made, deployment, seed, **loop).run()
    for skip in (True, False):
        run = simulate(made, deployment, seed=seed, skip_runs=skip, **loop)
        for name in COLUMNS:
            if name in {"loaded_tokens", "moved_tokens"}:
                continue
            if name.startswith("network"):
                wanted = [one[name.removesuffix("_ps")] >> 16 for one in found]
            else:
                wanted = [one[name] for one in found]
            assert getattr(run, name).tolist() == wanted, (name, skip)
        assert (run.replicas.kv_used_blocks == 0).all()


@settings(max_examples=250, deadline=None)
@given(requests(), st.lists(pools(), min_size=1, max_size=2), st.sampled_from(ROUTERS), st.integers(0, 3))
def test_colocated(made, some, router, seed):
    compare(made, Deployment(tuple(some), Router(router, load_weight=10.0), stop_on_overload=False), seed)


@settings(max_examples=200, deadline=None)
@given(requests(), pools(), st.sampled_from(ROUTERS), st.integers(1, 6), st.sampled_from([0, 1, 3 * MS]))
def test_closed_loop(made, one, router, users, think_ps):
    one = replace(one, cost=LINEAR)
    deployment = Deployment((one,), Router(router, load_weight=10.0))
    compare(made, deployment, 0, users=users, think_ps=think_ps)


@settings(max_examples=150, deadline=None)
@given(requests(), pools("prefill"), pools("decode"), st.sampled_from(ROUTERS[:4]), st.integers(0, 3))
def test_prefill_and_decode_apart(made, first, second, router, seed):
    deployment = Deployment((first, second), Router(router), Router(router), stop_on_overload=False)
    compare(made, deployment, seed)


@settings(max_examples=150, deadline=None)
@given(requests(), pools(), st.data())
def test_failures(made, one, data):
    one = replace(one, replicas=3)
    at = data.draw(st.lists(st.integers(0, 150), min_size=1, max_size=2))
    lasts = data.draw(st.integers(1, 100))
    away = Outages(
        np.arange(len(at), dtype=np.int32),
        np.array(at) * MS,
        (np.array(at) + lasts) * MS,
        np.zeros(len(at), np.bool_),
    )
    router = data.draw(st.sampled_from(ROUTERS))
    compare(made, Deployment((one,), Router(router), outages=away, stop_on_overload=False), 1)
