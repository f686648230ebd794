"""Sizes and times of checkpoints as published."""

from __future__ import annotations

import pytest

from railyard import catalog, cluster, engine
from railyard.graph import Job
from railyard.measure.job import Checkpointing, best_interval_s, job_time
from railyard.model.machine import StorageRates
from railyard.work.training import profiles
from railyard.work.training.graphs import build
from railyard.work.training.spec import Checkpoint, Layout, SoftwareProfile, Training
from railyard.work.training.stored import checkpoint_bytes, stall_s

RATES = {
    "iops": 0,
    "rank_bps": float("inf"),
    "back_end_bps": 4e11,
    "latency_s": 0.0,
    "host_bps": 4.4e11,
    "ranks_per_server": 8,
}


def job(model, ranks, **saved):
    tp = 8 if ranks % 8 == 0 else 1
    layout = Layout(global_batch=ranks, tp=tp, dp=ranks // tp)
    record = catalog.load().model(model)
    return Training(
        model=record, layout=layout, seq_len=2048, software=SoftwareProfile(name="any"), checkpoint=Checkpoint(**saved)
    )


def storage(total_bytes_s, servers):
    bps = total_bytes_s * 8
    return StorageRates(read_bps=bps, write_bps=bps, server_bps=float("inf"), servers=servers, **RATES)


@pytest.mark.parametrize(("model", "gib"), [("llama-3-8b", 105), ("llama-3-70b", 912), ("llama-3-405b", 5.29 * 1024)])
def test_sizes_of_mlperf_storage(model, gib):
    """MLPerf Storage v2.0, table 2: 105 GB, 912 GB, 5.29 TB, which are powers of 1,024."""
    assert checkpoint_bytes(job(model, 8)) == pytest.approx(gib * 2**30, rel=0.03)


def test_mt_nlg_over_20_gb_s():
    """Gemini (SOSP 2023, section 2): the states of MT-NLG take 42 min to persistent storage at 20 Gb/s."""
    saved = job("megatron-529.6b", 8, asynchronous=False, bytes_per_parameter=12.0)
    assert stall_s(saved, storage(20e9 / 8, 1)) / 60 == pytest.approx(42, rel=0.03)


def test_llama_3_405b_on_tectonic():
    """The Llama 3 Herd of Models, section 3.3.1: 2 TB/s sustained, 7 TB/s peak, 1 MB to 4 GB a GPU."""
    saved = job("llama-3-405b", 16_384, asynchronous=False)
    assert 1e6 < checkpoint_bytes(saved) / 16_384 < 4e9
    assert stall_s(saved, storage(2e12, 2048)) == pytest.approx(2.8, rel=0.05)
    assert stall_s(saved, storage(7e12, 2048)) == pytest.approx(0.81, rel=0.05)


def test_effective_time_of_llama_3():
    """More than 90 % effective time at one interruption per 3.09 h wants short stalls and restarts."""

    def goodput(restart_s, interval_s=None):
        saves = Checkpointing(stall_s=2.8, write_s=2.8, interval_s=interval_s)
        tokens = {"tokens": 15e12, "tokens_per_step": 16e6, "step_s": 12.0, "accelerators": 16_384}
        return job_time(**tokens, checkpointing=saves, mtbf_h=3.09 * 16_384, restart_s=restart_s).goodput

    assert goodput(374.0) > 0.94
    assert 0.88 < goodput(900.0) < 0.91
    assert goodput(900.0, 3600.0) < 0.85
    assert best_interval_s(2.8, 3.09 * 3600) == pytest.approx(247, rel=0.01)


def test_a_restart_takes_as_long_as_loading_does():
    def restart(read_s):
        saves = Checkpointing(interval_s=600.0, read_s=read_s)
        return job_time(tokens=1e12, tokens_per_step=1e6, step_s=1.0, accelerators=1024, checkpointing=saves).restart_s

    assert restart(0.0) == restart(60.0)
    assert restart(3600.0) > restart(60.0)


def test_copies_in_memory_lose_less_work():
    def goodput(lost_s):
        saves = Checkpointing(interval_s=3 * 3600.0, lost_s=lost_s)
        return job_time(tokens=1e13, tokens_per_step=1e6, step_s=1.0, accelerators=16_384, checkpointing=saves).goodput

    assert goodput(60.0) > goodput(None) + 0.2


def test_copies_each_step_cost_next_to_nothing():
    """Gemini's artifact: 16 p4d with 128 A100 and 400 Gb/s, 100B parameters, state copied each iteration."""
    stored = cluster.StorageSpec("local-nvme", 16)
    back_end = cluster.NetworkSpec(fabric=cluster.FabricSpec("roce"))
    on = cluster.build(cluster.ClusterSpec(128, "aws-p4d", back_end, storage=stored), catalog.load())

    def step_s(copies):
        plain = Training(
            model=catalog.load().model("megatron-76.1b"),
            layout=Layout(global_batch=1024, dp=128, zero=3, micro_batch=8, recompute="full"),
            seq_len=512,
            software=profiles.default(on.accelerator),
        )
        saved = Checkpoint(memory_copies=copies, interval_steps=10**9, bytes_per_parameter=12.0)
        return engine.get("flow").simulate([Job(build(plain.replace(checkpoint=saved), on))], on).makespan_ps * 1e-12

    assert step_s(1) == pytest.approx(step_s(0), rel=0.01)
