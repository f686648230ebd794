"""The loader's law: closed forms, properties, and published loaders."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.kit.errors import InputError
from railyard.work.training.loading import cache_seconds, formats, load_of, loading_s, mean_step_s, step_s
from railyard.work.training.spec import DataLoading

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
    from tests.storage.conftest import training

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
    assert cache_seconds(training, cluster, load) == pytest.approx(seconds)
