"""Against the slow reference, bit by bit, on random small cases of all features."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.engine.serving import Deployment, Outages, Router, simulate
from railyard.engine.serving.running import COLUMNS

from .cases import MS, ROUTERS, pools, requests
from .columns import LINEAR, hashed, pool, rows
from .reference import Reference


def compare(made, deployment, seed, **loop):
    found = Reference(made, deployment, seed, **loop).run()
    for skip in (True, False):
        run = simulate(made, deployment, seed=seed, skip_runs=skip, **loop)
        for name, (core_name, _, _) in COLUMNS.items():
            if name in {"loaded_tokens", "moved_tokens"}:
                continue
            if name.startswith("collectives"):
                wanted = [one[name.removesuffix("_ps")] >> 16 for one in found]
            else:
                wanted = [one[core_name] for one in found]
            assert run.column(name).tolist() == wanted, (name, skip)
        assert (run.table("replicas")["kv_used_blocks"] == 0).all()


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


def test_an_eviction_after_the_queue_was_looked_at_ends_a_run():
    """Prompts first: a decode then evicts a unit of the prompt that waits, which then wants fewer idle blocks."""
    made = hashed(rows([0, 0], [11, 37], [8, 1]), [[], [1, 2]], 16)
    one = pool(
        block_tokens=4, kv_blocks=12, max_sequences=2, max_batched_tokens=8, policy="prefill-first", prefix_cache=True
    )
    compare(made, Deployment((one,)), 0)
