"""What must hold whatever the deployment is: nobody is lost, nothing is made, time goes forward."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.engine.serving import Outages, simulate, stream
from railyard.engine.serving.running import COLUMNS, STATUS

from .cases import deployments, requests
from .columns import rows

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
