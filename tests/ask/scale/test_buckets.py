"""Gradient buckets on more ranks: as the framework of the trace sizes them."""

import zipfile

import pytest
from tests.ask.scale.traces import CLUSTER, simulated

from railyard.ask.scale.buckets import framework_of, rebucketed
from railyard.ask.scale.forecast import scaled_step as scale
from railyard.ask.scale.layout import Axis, Grid, GroupKind
from railyard.ask.scale.steps import CommCall, TracedStep
from railyard.catalog import Catalog
from railyard.graph.exporters.kineto import write_archive as export

H100 = Catalog().accelerator("h100-sxm")
M = 1_000_000


def grid(ranks, *more):
    groups = {(0, "dp"): GroupKind((0,)), (0, "tp"): GroupKind(())}
    return Grid((Axis(ranks, 1, "dp"), *more), groups)


def backward(sizes, *waits, kind="reduce_scatter", group="dp"):
    """A computation in front of each reduction, and an optimizer that waits for all of them."""
    calls = [one for size in sizes for one in (None, CommCall(group, kind, size, 5))] + [None]
    chain = [(2 * at + 1, 2 * at) for at in range(len(sizes))] + [(2 * at, 2 * at - 2) for at in range(1, len(sizes))]
    last = [(2 * len(sizes), 2 * at + 1) for at in range(len(sizes))]
    n = len(calls)
    return TracedStep(0, 0, 9, [7] * n, [(7, 0)] * n, [one is None for one in calls], calls, [*chain, *last, *waits])


def reduced(sizes, ranks, *waits, more=(), **how):
    found = rebucketed({0: backward(sizes, *waits, **how)}, grid(8, *more), grid(ranks, *more), "Megatron-Core", H100)
    return [call.size_bytes // M if call else 0 for call in found.steps[0].calls[1::2]], found


@pytest.mark.parametrize(
    ("sizes", "ranks", "made"),
    [
        ([80, 84, 88, 20], 40, [80, 84, 88, 20]),  # 40 M parameters of 2 bytes are still enough
        ([80, 84, 88, 20], 41, [0, 164, 88, 20]),  # 82 MB
        ([80, 84, 88, 20], 80, [0, 164, 0, 108]),
        ([80, 84, 88, 20], 1024, [0, 0, 0, 272]),
        ([160, 164, 160, 170], 80, [0, 324, 0, 330]),  # 4 bytes
        ([160, 164, 160, 170], 81, [0, 324, 0, 330]),
        ([160, 164, 160, 170], 82, [0, 0, 484, 170]),
        ([80, 20, 88, 84], 1024, [80, 20, 88, 84]),  # not of Megatron's sizes
    ],
)
def test_buckets_are_filled_up_to_a_million_parameters_a_rank(sizes, ranks, made):
    assert reduced([size * M for size in sizes], ranks)[0] == made


def test_what_waited_for_any_of_them_waits_for_the_one(tmp_path):
    found = reduced([80 * M, 84 * M, 88 * M], 1024)[1]
    step = found.steps[0]
    assert {(6, 5), (5, 4), (1, 0)} <= set(step.waits)
    assert step.calls[5] == CommCall("dp", "reduce_scatter", 252 * M, 15)
    assert found.words == "Megatron-Core reduces 3 of at least 40 M parameters as 1 of 1,024 M"
    early = reduced([80 * M, 84 * M, 88 * M], 1024, (2, 1))  # a computation needs the first before the second
    assert early[0] == [80, 0, 172]


def test_gathers_follow_in_the_order_of_forward_passes():
    step = backward([80 * M, 84 * M, 88 * M])
    gathers = [CommCall("dp", "all_gather", size * M, 1) for size in (44, 42, 40)]
    step.calls = [*step.calls, *gathers]
    for column, value in ((step.duration_ns, 0), (step.busy_ns, (0, 0)), (step.main, False)):
        column.extend([value] * 3)
    found = rebucketed({0: step}, grid(8), grid(80), "Megatron-Core", H100).steps[0]
    assert [call.size_bytes // M if call else 0 for call in found.calls[1::2][:3]] == [0, 164, 88]
    assert [call.size_bytes // M if call else 0 for call in found.calls[-3:]] == [44, 82, 0]


def test_what_keeps_its_size():
    sizes = [80 * M, 84 * M]
    whole = [80, 84]
    assert reduced(sizes, 1024, group="tp")[0] == whole
    assert reduced(sizes, 1024, kind="broadcast")[0] == whole
    assert reduced([400 * M, *sizes], 1024, more=(Axis(2, 8, "pp"),))[0] == [400, 0, 164]  # a model chunk in one piece
    kept = rebucketed({0: backward(sizes)}, grid(1024), grid(8), "Megatron-Core", H100).kept
    assert (kept[0].times, kept[0].seconds) == (2, 0.0)
    assert not rebucketed({0: backward(sizes)}, grid(8), grid(1024), "PyTorch", H100).words


@pytest.mark.parametrize(
    ("purposes", "found"),
    [
        (["DATA_PARALLEL_GROUP_WITH_CP"], "Megatron-Core"),
        (["TENSOR_MODEL_PARALLEL_GROUP", "default_pg"], "Megatron-Core"),
        (["default_pg"], "PyTorch"),
        (["mesh_dp_shard", ""], "PyTorch"),
        (["dp"], ""),
        ([], ""),
    ],
)
def test_the_framework_is_known_by_its_groups(purposes, found):
    assert framework_of(purposes) == found


@pytest.mark.parametrize(
    ("job", "within"),
    [
        (("megatron-1.7b", {"zero": 1}, 4), 0.02),
        (("megatron-1.7b", {"zero": 1, "pp": 2, "tp": 2}, 4), 0.03),
        (("deepseek-v2-lite", {"ep": 4}, 2), 0.08),
    ],
)
def test_closed_loop_8_to_256_with_buckets_that_grow(tmp_path, job, within):
    (tmp_path / "mine.yaml").write_text(CLUSTER.replace("16", "256"))
    name, layout, batch = job
    export(simulated(8, name, layout | {"bucket": "0 B"}, batch), tmp_path / "other.zip")
    with zipfile.ZipFile(tmp_path / "other.zip") as archive, zipfile.ZipFile(tmp_path / "step.zip", "w") as kept:
        for member in archive.namelist():
            text = archive.read(member).decode()
            for own, theirs in (("dp", "DATA_PARALLEL_GROUP_WITH_CP"), ("edp", "EXPERT_DATA_PARALLEL_GROUP")):
                text = text.replace(f'"Process Group Description":"{own}"', f'"Process Group Description":"{theirs}"')
            kept.writestr(member, text)
    truth = simulated(256, name, layout | {"bucket": "0 B"}, batch).makespan_ps * 1e-12
    found, other = (scale(tmp_path / f"{one}.zip", tmp_path / "mine.yaml") for one in ("step", "other"))
    assert found.traced.framework == "Megatron-Core"
    assert found.buckets.startswith("Megatron-Core reduces ")
    assert found.step.seconds == pytest.approx(truth, rel=within)
    assert found.step.seconds < 0.995 * other.step.seconds
    assert any(row.what.startswith("the framework") for row in other.unrecognized)
