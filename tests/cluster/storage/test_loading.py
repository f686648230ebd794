"""The loader's law: closed forms, properties, and published loaders."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard import catalog, cluster, engine
from railyard.graph import Job
from railyard.kit.errors import InputError
from railyard.measure.job import Checkpointing, best_interval_s, job_time
from railyard.model.machine import StorageRates
from railyard.work.training import profiles
from railyard.work.training.graphs import build
from railyard.work.training.loading import cache_seconds, formats, hit_rate, load_of, loading_s, mean_step_s, step_s
from railyard.work.training.spec import Checkpoint, DataLoading, Layout, SoftwareProfile, Training
from railyard.work.training.stored import checkpoint_bytes, stall_s

SPAN = st.floats(1e-3, 10.0)


def test_resnet_with_and_without_workers():
    """A ResNet-50 profile of kineto's samples: 176 ms a step without loader workers, 126 ms with four."""
    computing_s, loading = 0.126, 0.050
    assert step_s(computing_s, 0.0, loading, workers=0, prefetch=2) == pytest.approx(0.176)
    assert step_s(computing_s, 0.0, loading, workers=4, prefetch=2) == pytest.approx(0.126)
    # What a picture takes there, 50 ms / 32, is what Pillow takes to decode one of ImageNet.
    assert loading / 32 == pytest.approx(formats()["images"].item_time_ps * 1e-12, rel=0.15)


MLPERF = {
    # MLPerf Storage v1.0, closed, H100: batch, bytes of a sample, seconds of a step; accelerators, MiB/s, utilization.
    "3D U-Net, DDN": (7, 146_600_628, 0.323, 36, 99_104.2, 0.936),
    "3D U-Net, HPE": (7, 146_600_628, 0.323, 2, 5_560.4, 0.924),
    "ResNet-50, DDN": (400, 114_660, 0.224, 512, 92_187.8, 0.925),
    "CosmoFlow, DDN": (1, 2_828_486, 0.0035, 64, 33_871.0, 0.703),
}


@pytest.mark.parametrize("case", MLPERF)
def test_accelerator_utilization_of_mlperf_storage(case):
    batch, size_bytes, compute_s, accelerators, mib_s, utilization = MLPERF[case]
    read_s = batch * size_bytes / (mib_s * 2**20 / accelerators)
    found = compute_s / step_s(compute_s, read_s, 0.0, workers=4, prefetch=2)
    assert found == pytest.approx(utilization, abs=0.03)


@given(SPAN, SPAN, SPAN, st.integers(1, 64))
def test_loading_is_bounded_by_transfer_and_by_workers(compute_s, read_s, worker_s, workers):
    loaded = loading_s(read_s, worker_s, workers)
    assert loaded >= read_s
    assert loaded >= worker_s / workers
    assert loaded <= read_s + worker_s
    assert loading_s(read_s, worker_s, workers + 1) <= loaded
    ahead = step_s(compute_s, read_s, worker_s, workers=workers, prefetch=1)
    assert max(compute_s, loaded) == ahead <= step_s(compute_s, read_s, worker_s, workers=workers, prefetch=0)


@given(SPAN, SPAN, st.integers(1, 8), st.integers(1, 4))
def test_the_played_loader_keeps_to_the_law_where_batches_are_equal(compute_s, batch_s, workers, prefetch):
    played = mean_step_s(compute_s, batch_s, spread=0.0, workers=workers, prefetch=prefetch, ranks=3)
    assert played == pytest.approx(max(compute_s, batch_s / workers), rel=0.02)


def test_variation_costs_and_reading_ahead_pays():
    def mean(spread, prefetch, ranks=64):
        return mean_step_s(1.0, 3.6, spread=spread, workers=4, prefetch=prefetch, ranks=ranks)

    assert mean(0.0, 1) == pytest.approx(1.0, rel=1e-3)
    assert mean(0.3, 1) > mean(0.3, 8) >= 1.0 - 1e-9
    assert mean(0.5, 1) > mean(0.1, 1)
    assert mean(0.3, 1, ranks=1024) > mean(0.3, 1, ranks=4)


def test_what_a_rank_loads(yard):
    data = DataLoading(format="image-shards", bytes_per_token=4.0, items_per_sequence=8, item_size_bytes=1000)
    load = load_of(yard.training(data, dp=2, global_batch=8), servers=1)
    assert load.stored_bytes == 4 * (64 * 4 + 8 * 1000)
    assert load.prepare_s == pytest.approx(4 * 8 * 1.733e-3)
    assert load.requests == 1
    each = load_of(yard.training(DataLoading(format="images", items_per_sequence=8), dp=2, global_batch=8), servers=1)
    assert each.requests == 4 * 8


@given(st.floats(0.0, 2.0), st.sampled_from(["none", "pinned", "page-cache", "lru", "shared"]))
def test_a_cache_moves_bytes_and_loses_none(share, policy):
    from tests.cluster.storage.conftest import training

    plain = DataLoading(format="images", items_per_sequence=3)
    cached = DataLoading(
        format="images",
        items_per_sequence=3,
        cache=policy,
        dataset_size_bytes=10**9,
        cache_size_bytes=1 + int(share * 1e9),
    )
    first, later = (load_of(training(data, dp=2), servers=4) for data in (plain, cached))
    assert later.stored_bytes + later.cached_bytes == first.stored_bytes
    assert later.requests <= first.requests


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"format": "jsonlines"}, "no such dataset format"),
        ({"cache": "lru", "cache_size_bytes": 8}, "size of the dataset"),
        ({"cache": "lru", "dataset_size_bytes": 8}, "a cache has a size"),
        ({"format": "images", "items_per_sequence": 0.0}, "no bytes"),
    ],
)
def test_bad_input_is_named(yard, changed, words):
    with pytest.raises(InputError, match=words):
        load_of(yard.training(DataLoading(**changed)), servers=1)


def test_formats_say_where_they_come_from():
    for form in formats().values():
        assert form.source
        assert form.confidence in {"measured", "vendor", "estimated"}
        assert form.summary


@pytest.mark.parametrize(
    ("every_rank", "read_bps", "seconds"),
    [
        # A server of 8 has 4 groups of 2, of which the 3 replicas need 3; each reads 5 MB at 4 GB/s in all.
        (False, 32e9, 3 * 5e6 / 4e9),
        (True, 32e9, 6 * 5e6 / 4e9),
        (False, 0.0, 0.0),  # as fast as it is asked
    ],
)
def test_a_server_reads_its_cache_for_all_its_ranks(every_rank, read_bps, seconds):
    training = SimpleNamespace(
        data=SimpleNamespace(cache_read_bps=read_bps, every_rank=every_rank), layout=SimpleNamespace(dp=3, cp=1, tp=2)
    )
    cluster, load = SimpleNamespace(ranks_per_server=8), SimpleNamespace(cached_bytes=5e6)
    assert cache_seconds(training, cluster.ranks_per_server, load) == pytest.approx(seconds)


# How much a cache serves, against what was measured.

POLICIES = ("pinned", "shared", "page-cache", "lru")


@pytest.mark.parametrize(("held", "missed"), [(0.35, 0.85), (0.65, 0.53)])
def test_linux_page_cache_under_shuffled_epochs(held, missed):
    """CoorDL (VLDB 2021, sections 4.3.2 and 7.1): ImageNet with 35 % and OpenImages with 65 % of it cached."""
    assert 1 - hit_rate("page-cache", held, 1.0) == pytest.approx(missed, abs=0.015)


def test_two_servers_fetch_what_the_other_one_has():
    """CoorDL, section 4.3.2: 146 GiB on two servers that cache 75 GiB each; each fetches 45 GiB an epoch."""
    missed = 1 - hit_rate("page-cache", 75.0, 146.0, servers=2)
    assert 146 / 2 * missed == pytest.approx(45, rel=0.03)
    assert hit_rate("shared", 75.0, 146.0, servers=2) == 1.0


@pytest.mark.parametrize(("held", "missed"), [(0.5, 0.91), (0.35, 0.94), (0.25, 0.97)])
def test_least_recently_used_is_bad_for_shards(held, missed):
    """CoorDL, figure 10: TFRecord under Linux; reading in long runs is the cache's worst case."""
    assert 1 - hit_rate("lru", held, 1.0) == pytest.approx(missed, abs=0.05)


def test_pinned_serves_what_it_holds():
    """CoorDL, section 7.1: 65 % held, 35 % fetched."""
    assert hit_rate("pinned", 0.65, 1.0) == 0.65


@given(st.floats(0.01, 1.2), st.integers(1, 64), st.sampled_from(POLICIES))
def test_a_hit_rate_is_a_share_and_no_cache_beats_one_that_keeps_what_it_has(held, servers, policy):
    rate = hit_rate(policy, held, 1.0, servers)
    assert 0 <= rate <= 1
    assert rate <= hit_rate("shared", held, 1.0, servers) + 1e-9
    if policy in {"page-cache", "lru"}:
        assert rate <= hit_rate("pinned", held, 1.0, servers) + 5e-3


@given(st.floats(0.05, 0.9), st.integers(1, 8), st.sampled_from(POLICIES))
def test_a_larger_cache_serves_more(held, servers, policy):
    assert hit_rate(policy, held, 1.0, servers) <= hit_rate(policy, held + 0.05, 1.0, servers) + 1e-6


@pytest.mark.parametrize(("policy", "servers"), [("page-cache", 1), ("page-cache", 3), ("lru", 1), ("lru", 3)])
def test_the_law_is_what_playing_the_cache_gives(policy, servers):
    draw, items, held = np.random.default_rng(1), 900, 0.4
    rooms = [{} for _ in range(servers)]
    hits = total = 0
    for epoch in range(24):
        for item, home in zip(draw.permutation(items).tolist(), draw.integers(0, servers, items).tolist(), strict=True):
            room, found = rooms[home], item in rooms[home]
            if epoch >= 16:
                hits, total = hits + found, total + 1
            if found and policy == "lru":
                del room[item]
            if not found and len(room) >= held * items:
                names = list(room)
                del room[names[0 if policy == "lru" else int(draw.integers(len(names)))]]
            room[item] = True
    assert hit_rate(policy, held, 1.0, servers) == pytest.approx(hits / total, abs=0.025)


@pytest.mark.parametrize(
    ("servers", "held", "hit"),
    [(2, 83 / 96, 13 / 16), (32, 0.795516, 0.792253), (32, 0.977845, 0.977491)],
    ids=["2 servers, T = 3", "32 servers, T = 50", "32 servers, T = 120"],
)
def test_least_recently_used_at_whole_characteristic_times(servers, held, hit):
    """The law in closed form where the characteristic time T is an integer of epochs, with q = 1 - 1/N.

    h = P(g <= T) = 1 - q^(T-1) + q^(T-1) / 2N, and c = E[min(g, T)] / N
      = (1 - 1/6N + (1 - 5/6N - q/6N) (1 - q^(T-1)) N) / N.
    N = 2, T = 3: h = 1 - 1/4 + 1/16 = 13/16; c = (11/12 + 13/24 x 3/4 x 2) / 2 = 83/96.
    N = 32, T = 50: q^49 = 0.211045, h = 1 - 0.211045 + 0.003298; c = (191/192 + 0.968913 x 0.788955 x 32) / 32.
    N = 32, T = 120: q^119 = 0.022866, h = 1 - 0.022866 + 0.000357; c = (191/192 + 0.968913 x 0.977134 x 32) / 32.
    """
    assert hit_rate("lru", held * 7e12, 7e12, servers) == pytest.approx(hit, abs=3e-6)


# Sizes and times of checkpoints as published.

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
