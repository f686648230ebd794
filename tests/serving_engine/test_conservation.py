"""What goes in comes out, whichever way it is computed."""

import numpy as np
import pytest

from railyard.engine.serving import Deployment, Pool, Router, simulate, stream
from railyard.engine.serving.running import COLUMNS

from .columns import LINEAR, hashed, poisson, pool, rows


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
