"""What must hold whatever the deployment is: nobody is lost, nothing is made, time goes forward."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.engine.serving import Cost, Deployment, Outages, Pool, Router, simulate, stream
from railyard.engine.serving.running import COLUMNS, STATUS

from .cases import MS, ROUTERS, deployments, pools, requests
from .columns import LINEAR, hashed, poisson, pool, rows
from .reference import Reference

DONE, DROPPED = STATUS.index("done"), STATUS.index("dropped")
TOTALS = (
    "busy_ps",
    "up_ps",
    "iterations",
    "input_tokens",
    "output_tokens",
    "kv_peak_blocks",
    "cached_tokens",
    "loaded_tokens",
    "moved_tokens",
)


def _fits(one, tokens, prompt):
    return -(-tokens // one.block_tokens) <= one.kv_blocks and (one.chunked or prompt <= one.max_batched_tokens)


def _check(made, deployment, run):
    tokens = made.input_tokens.astype(np.int64) + made.output_tokens - 1
    roles = {role: [one for one in deployment.pools if one.role == role] for role in ("both", "prefill", "decode")}
    served = [
        any(_fits(one, n, prompt) for one in roles["both"])
        or all(any(_fits(one, n, prompt) for one in roles[role]) for role in ("prefill", "decode"))
        for n, prompt in zip(tokens, made.input_tokens, strict=True)
    ]
    assert run.column("status").tolist() == [DONE if one else DROPPED for one in served]
    assert (run.table("replicas")["kv_used_blocks"] == 0).all()
    asked = np.where(served, made.output_tokens, 0)
    assert (run.column("generated_tokens") == asked).all()
    assert run.table("replicas")["output_tokens"].sum() == asked.sum()
    assert run.table("gaps")["count"].sum() == np.maximum(asked - 1, 0).sum()
    assert run.table("replicas")["preemptions"].sum() == run.column("preemptions").sum()
    assert run.table("replicas")["cached_tokens"].sum() == run.column("cached_tokens").sum()
    assert run.table("replicas")["loaded_tokens"].sum() == run.column("loaded_tokens").sum()
    assert run.table("replicas")["moved_tokens"].sum() == run.column("moved_tokens").sum()
    done = run.column("status") == DONE
    at = np.stack(
        [
            made.arrival_ps,
            run.column("admitted_ps"),
            run.column("prefill_start_ps"),
            run.column("first_token_ps"),
            run.end_ps,
            np.full(len(done), run.meta["end_ps"]),
        ]
    )[:, done]
    assert (np.diff(at, axis=0) >= 0).all()
    assert (run.column("first_token_ps")[done] > run.column("prefill_start_ps")[done]).all()
    assert (run.column("transfer_end_ps") >= run.column("transfer_start_ps")).all()
    assert (run.column("collectives_prefill_ps") <= run.column("collectives_ps")).all()
    assert (run.column("collectives_prefill_ps") <= run.column("first_token_ps") - run.column("prefill_start_ps"))[
        done
    ].all()
    assert (run.column("collectives_ps") <= run.end_ps - run.column("prefill_start_ps"))[done].all()
    assert (run.table("replicas")["busy_ps"] <= run.table("replicas")["up_ps"] + 1).all()
    assert (run.table("replicas")["up_ps"] <= run.meta["end_ps"]).all()
    peaks = np.array([one.kv_blocks for one in deployment.pools])[run.table("replicas")["pool"]]
    assert (run.table("replicas")["kv_peak_blocks"] <= peaks).all()
    if not len(deployment.outages.replica) and not run.column("preemptions").any():
        computed = (
            np.where(served, made.input_tokens, 0).sum()
            - (run.column("cached_tokens") + run.column("loaded_tokens") + run.column("moved_tokens")).sum()
        )
        assert run.table("replicas")["input_tokens"].sum() == computed


def _cut(made, cuts):
    for begin, end in zip([0, *cuts], [*cuts, len(made.arrival_ps)], strict=True):
        names = ("arrival_ps", "input_tokens", "output_tokens", "session")
        part = rows(*(getattr(made, name)[begin:end] for name in names[:3]))
        part.session, part.priority = made.session[begin:end], made.priority[begin:end]
        first, last = made.block_ptr[begin], made.block_ptr[end]
        part.block_ptr, part.block_hash = made.block_ptr[begin : end + 1] - first, made.block_hash[first:last]
        part.block_tokens = made.block_tokens
        yield part


def _same_totals(one, other):
    for name in TOTALS:
        assert (one.table("replicas")[name] == other.table("replicas")[name]).all(), name
    assert (one.table("gaps")["count"] == other.table("gaps")["count"]).all()


@settings(max_examples=200, deadline=None)
@given(requests(), deployments(), st.integers(0, 3), st.data())
def test_nobody_is_lost_and_nothing_is_made(made, deployment, seed, data):
    run = simulate(made, deployment, seed=seed)
    _check(made, deployment, run)
    stepped = simulate(made, deployment, seed=seed, skip_runs=False)
    for name in COLUMNS:
        assert run.column(name).tolist() == stepped.column(name).tolist(), name
    _same_totals(run, stepped)
    assert np.allclose(run.table("links")["bytes"], stepped.table("links")["bytes"], rtol=1e-9)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(made.arrival_ps)), max_size=3)))
    *parts, totals = stream(_cut(made, cuts), deployment, seed=seed)
    number = np.concatenate([part.request for part in parts])
    assert sorted(number) == list(range(len(made.arrival_ps)))
    for name in COLUMNS:
        assert np.concatenate([part.columns[name] for part in parts]).tolist() == run.column(name)[number].tolist(), (
            name
        )
    _same_totals(run, totals)


def _in_lockstep(one):
    """All replicas of the pool begin and end their iterations together."""
    cost = replace(one.cost, pipeline_stages=1, stage_share=1.0)
    if one.replicas > 1:
        joint = np.array([0.0, 2e-3])
        cost = replace(cost, joint_tokens=np.array([0, 2048]), joint_compute_s=joint, joint_network_s=joint / 4)
    return replace(one, cost=cost, lockstep=one.replicas, autoscale=None)


@settings(max_examples=100, deadline=None)
@given(requests(), deployments(), st.integers(0, 3))
def test_nobody_is_lost_in_lockstep(made, deployment, seed):
    pools = tuple(_in_lockstep(one) for one in deployment.pools)
    deployment = replace(deployment, pools=pools, outages=Outages())
    _check(made, deployment, simulate(made, deployment, seed=seed))


# What goes in comes out, whichever way it is computed.


def _random(count=300, seed=5, block=32, rate=100.0):
    draw = np.random.Generator(np.random.Philox(seed))
    base = poisson(count, rate, draw.integers(1, 300, count), draw.integers(1, 200, count), seed)
    chains = [
        [int(f * 1000 + u) if u < 4 else 10**6 + i * 100 + u for u in range(int(n) // block)]
        for i, (f, n) in enumerate(zip(draw.integers(0, 4, count), base.input_tokens, strict=True))
    ]
    base.session = draw.integers(-1, 10, count)
    return hashed(base, chains, block)


@pytest.mark.parametrize("router", ["round-robin", "random", "least-loaded", "two-choices", "prefix", "session"])
def test_tokens_and_blocks_are_conserved_and_skipping_shows_in_no_bit(router):
    requests = _random()
    deployment = Deployment((pool(replicas=3, prefix_cache=True, kv_blocks=40),), Router(router))
    run, stepped = simulate(requests, deployment), simulate(requests, deployment, skip_runs=False)
    assert run.meta["outcome"] == "finished"
    assert (run.column("generated_tokens") == requests.output_tokens).all()
    assert run.table("replicas")["output_tokens"].sum() == requests.output_tokens.sum()
    assert (run.table("replicas")["kv_used_blocks"] == 0).all()
    assert run.column("preemptions").sum() == run.table("replicas")["preemptions"].sum() > 0
    assert run.column("cached_tokens").sum() > 0
    assert (run.column("admitted_ps") >= requests.arrival_ps).all()
    assert (run.column("first_token_ps") > run.column("prefill_start_ps")).all()
    assert (run.column("collectives_ps") < run.end_ps - run.column("prefill_start_ps")).all()
    for name in COLUMNS:
        assert (run.column(name) == stepped.column(name)).all(), name
    assert (run.table("gaps")["count"] == stepped.table("gaps")["count"]).all()
    for name in ("busy_ps", "iterations", "kv_tokens", "pairs", "energy_j", "kv_peak_blocks"):
        assert (run.table("replicas")[name] == stepped.table("replicas")[name]).all(), name
    assert run.table("gaps")["count"].sum() == (requests.output_tokens - 1).sum()


def test_chunks_do_not_show():
    requests = _random()
    deployment = Deployment((pool(replicas=2, prefix_cache=True),), Router("prefix"))
    whole = simulate(requests, deployment)

    def chunks():
        for begin in range(0, 300, 70):
            end = min(begin + 70, 300)
            part = rows(*(getattr(requests, n)[begin:end] for n in ("arrival_ps", "input_tokens", "output_tokens")))
            first, last = requests.block_ptr[begin], requests.block_ptr[end]
            part.block_ptr = requests.block_ptr[begin : end + 1] - first
            part.block_hash = requests.block_hash[first:last]
            part.block_tokens = 32
            yield part

    *parts, totals = list(stream(chunks(), deployment))
    number = np.concatenate([part.request for part in parts])
    assert sorted(number) == list(range(300))
    for name in COLUMNS:
        assert (np.concatenate([part.columns[name] for part in parts]) == whole.column(name)[number]).all(), name
    assert (totals.table("replicas")["busy_ps"] == whole.table("replicas")["busy_ps"]).all()


def test_who_fits_nowhere_is_dropped_and_nobody_else_is():
    requests = rows([0, 0, 5], [100, 2000, 10], [10, 10, 10])
    run = simulate(requests, Deployment((pool(),)))
    assert run.column("status").tolist() == [0, 1, 0]
    assert run.end_ps[1] == -1


def test_an_overload_is_detected_and_said():
    requests = poisson(60_000, 1000.0, 100, 50)
    run = simulate(requests, Deployment((pool(),)))
    assert run.meta["outcome"] == "overload"
    assert run.meta["end_ps"] < requests.arrival_ps[-1]
    calm = simulate(poisson(20_000, 10.0, 100, 50), Deployment((pool(replicas=2),)))
    assert calm.meta["outcome"] == "finished"


def test_the_log_covers_the_busy_time():
    requests = _random(50, rate=5.0)
    run = simulate(requests, Deployment((Pool("one", LINEAR, max_batched_tokens=512),)), log_replicas=[0])
    log = run.table("iterations")
    assert log["count"].sum() == run.table("replicas")["iterations"][0]
    assert (log["end_ps"] >= log["start_ps"]).all()
    assert (log["end_ps"] - log["start_ps"]).sum() == pytest.approx(run.table("replicas")["busy_ps"][0], abs=200)


# Replicas in lockstep: each has its own queue, and all begin and end every iteration together.

LOCKSTEP_MS = 10**9
# A token takes 1 ms where it is, and 0.5 ms (a fifth of it collectives) of everybody.
OWN = {"tokens": np.array([0, 1024]), "compute_s": np.array([0.0, 1.024]), "network_s": np.zeros(2)}
JOINT = {
    "joint_tokens": np.array([0, 2048]),
    "joint_compute_s": np.array([0.0, 0.4 * 2.048]),
    "joint_network_s": np.array([0.0, 0.1 * 2.048]),
}


def _pool(**changed):
    asked = {"replicas": 2, "lockstep": 2, "max_batched_tokens": 1024} | changed
    return Pool("copies", Cost(**OWN, **JOINT), **asked)


def _served(requests, **changed):
    return simulate(requests, Deployment((_pool(**changed),), Router("round-robin"), stop_on_overload=False))


def test_by_hand():
    # 10 tokens alone: 10 + 5 ms. Then 1 here and the 4 that came meanwhile there: 4 + 2.5. Then 1 and 1: 1 + 1.
    run = _served(rows([0, 1 * LOCKSTEP_MS], [10, 4], [3, 2]))
    assert run.who.tolist() == [0, 1]
    assert run.column("first_token_ps") == pytest.approx([15 * LOCKSTEP_MS, 21.5 * LOCKSTEP_MS])
    assert run.column("prefill_start_ps") == pytest.approx([0, 15 * LOCKSTEP_MS])
    assert run.end_ps == pytest.approx([23.5 * LOCKSTEP_MS, 23.5 * LOCKSTEP_MS])
    # Collectives of the tokens of all: 10, 5 and 2 of them for the first request, 5 and 2 for the second.
    assert run.column("collectives_ps") == pytest.approx([1.7 * LOCKSTEP_MS, 0.7 * LOCKSTEP_MS])


def test_a_group_waits_only_for_its_own():
    # Four in two groups: the long prompt on replica 0 holds up replica 1, not 2 and 3.
    run = _served(rows([0, 1, 2, 3], [100, 1, 1, 1], [1, 1, 1, 1]), replicas=4)
    assert run.column("first_token_ps")[1] > 100 * LOCKSTEP_MS
    assert run.column("first_token_ps")[2] < 3 * LOCKSTEP_MS


def test_copies_that_share_nothing_but_the_clock():
    """Without joint times two copies with the same requests serve them as one copy alone does."""
    one = poisson(400, 3.0, 30, 20)
    alone = Pool("one", Cost(**OWN), max_batched_tokens=1024)
    expected = simulate(one, Deployment((alone,), stop_on_overload=False))
    twice = rows(np.repeat(one.arrival_ps, 2), np.repeat(one.input_tokens, 2), np.repeat(one.output_tokens, 2))
    pool = Pool("two", Cost(**OWN), replicas=2, lockstep=2, max_batched_tokens=1024)
    found = simulate(twice, Deployment((pool,), Router("round-robin"), stop_on_overload=False))
    assert np.abs(found.column("first_token_ps")[::2] - expected.column("first_token_ps")).max() <= 1
    assert np.abs(found.end_ps[1::2] - expected.end_ps).max() <= 1


@pytest.mark.parametrize("ahead", [False, True])
def test_nothing_is_lost(ahead):
    requests = poisson(3000, 8.0, 60, 12)
    run = _served(requests, ahead=ahead, max_sequences=8, kv_blocks=64)
    assert (run.column("status") == 0).all()
    assert (run.column("first_token_ps") > requests.arrival_ps).all()
    assert (run.end_ps >= run.column("first_token_ps")).all()


# Against the slow reference, bit by bit, on random small cases of all features.


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
