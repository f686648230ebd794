"""From one node's trace to a cluster: by hand at small cases, and in a closed loop with the simulator."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from tests.ask.scale.traces import CLUSTER, call, kernel, message, shape, simulated, wait, write

from railyard.ask.scale.forecast import scaled_step as scale
from railyard.ask.scale.layout import Axis, grid_of
from railyard.ask.scale.steps import CommCall, TracedStep
from railyard.ask.scale.traced import read_traced as read
from railyard.face.cli import guard
from railyard.face.verb import command
from railyard.graph.exporters.kineto import write_archive as export
from railyard.kit.errors import InputError
from railyard.measure.result.answers import answer_from

MIB = 1 << 20
PAIR = [0, 1]


def ddp(size=64 * MIB, group=PAIR):
    """Forward 100, backward 300 and 200 us, an all-reduce behind the first backward, an optimizer that waits for it."""
    return [
        kernel("forward_gemm", 0, 100),
        kernel("backward_gemm", 110, 290),
        call("allreduce", 402, 350, group, size),
        kernel("backward_wgrad", 400, 200),
        kernel("multi_tensor_apply_adam", 755, 45),
    ]


def test_a_step_becomes_tasks_with_measured_times(tmp_path):
    traced = read(write(tmp_path / "rank-0.json", 0, 2, ddp(), period=900))
    step = traced.steps[0]
    # forward, the host's 10 us and the first backward; the all-reduce; the second backward; 3 us behind the all-reduce
    # and the optimizer; the host's 100 us up to the next step
    assert step.duration_ns == [400_000, 200_000, 0, 48_000, 100_000]
    assert step.main == [True, True, False, True, True]
    assert step.calls[2] == CommCall("0", "all_reduce", 64 * MIB, 350_000)
    assert set(step.waits) == {(1, 0), (2, 0), (3, 1), (3, 2), (4, 3), (4, 2)}
    assert (traced.number, step.period_ns, step.own_ns, step.replayed_ns) == (5, 900_000, 748_000, 898_000)
    assert step.kernels_ns == 635_000
    assert step.overlapped_ns == 198_000  # of the second backward
    assert step.unexplained_ns == 0
    assert step.known == {"exact": 0, "seen": 2, "assumed": 0}


def test_idle_time_that_ends_later_than_a_communication_is_the_hosts_and_is_named(tmp_path):
    events = ddp()
    events[-1] = kernel("elementwise", 752 + 20.001, 45)  # beyond the slack by a nanosecond
    step = read(write(tmp_path / "rank-0.json", 0, 2, events, period=900)).steps[0]
    assert step.unexplained_ns == 152_000  # idle from 600, the all-reduce ends at 752
    assert step.known["seen"] == 1
    assert step.known["assumed"] == 0  # no optimizer: the end of the step
    events[-1] = kernel("elementwise", 752 + 20, 45)
    step = read(write(tmp_path / "rank-0.json", 0, 2, events, period=900)).steps[0]
    assert step.unexplained_ns == 0


def test_events_say_what_waits_whatever_the_times(tmp_path):
    events = [
        kernel("a", 0, 100),
        kernel("b", 100, 100),
        wait(20, 7),
        call("allreduce", 230, 10, PAIR, MIB),
        kernel("c", 200, 300),
        wait(7, 20),
        kernel("d", 500, 100),
    ]
    step = read(write(tmp_path / "rank-0.json", 0, 2, events, period=600)).steps[0]
    assert step.known == {"exact": 2, "seen": 0, "assumed": 0}
    assert step.duration_ns == [200_000, 300_000, 0, 100_000, 0]
    assert {(2, 0), (3, 2)} <= set(step.waits)


def test_a_gather_that_came_early_is_needed_behind_the_next_one(tmp_path):
    events = [
        call("_allgather_base", 0, 10, PAIR, MIB),
        call("_allgather_base", 10, 10, PAIR, MIB),
        kernel("layer_0", 10, 90),
        call("_allgather_base", 20, 10, PAIR, MIB),
        kernel("layer_1", 100, 100),
        kernel("layer_2", 200, 100),
    ]
    step = read(write(tmp_path / "rank-0.json", 0, 2, events, period=300)).steps[0]
    gathers = [task for task, one in enumerate(step.calls) if one is not None]
    computes = [task for task, one in enumerate(step.calls) if one is None]
    assert (computes[0], gathers[0]) in step.waits  # it stood idle until the first gather ended
    assert step.assumed == [(computes[1], gathers[1])]  # hidden: behind the launch of the third
    assert step.without_assumed().waits == [one for one in step.waits if one not in step.assumed]


def test_the_forecast_of_four_kernels_and_one_all_reduce(tmp_path, mine):
    path = write(tmp_path / "rank-0.json", 0, 2, ddp(), period=900)
    for ranks in (2, 16):
        found = scale(path, mine, accelerators=ranks)
        took = found.collectives[0].mean_s
        assert found.collectives[0].ranks == ranks
        assert found.collectives[0].size_bytes == 64 * MIB
        # 400 us, the longer of the second backward and the all-reduce, 48 us, 100 us of the host
        assert found.step.seconds == pytest.approx(400e-6 + max(200e-6, took) + 148e-6, abs=2e-12)
        assert found.step.kernels_s == pytest.approx(635e-6)
        assert found.step.host_s == pytest.approx(113e-6)
        assert found.measured_share == 1
        assert found.band.low <= found.step.seconds <= found.band.high
        assert sum(row.seconds for row in found.step.time) == pytest.approx(found.step.seconds)
    large = scale(write(tmp_path / "rank-0.json", 0, 2, ddp(4096 * MIB), period=900), mine)
    assert large.step.seconds == pytest.approx(548e-6 + large.collectives[0].mean_s, abs=2e-12)
    assert large.tax.step_without_networks_s == pytest.approx(748e-6, rel=0.01)
    assert large.cost.usd_per_run.typical == pytest.approx(large.cost.usd_per_h.typical * large.step.seconds / 3600)


def test_a_slower_rank_is_repeated_and_waited_for(tmp_path, mine):
    slow = ddp()
    slow[1] = kernel("backward_gemm", 110, 290.5)
    write(tmp_path / "rank-0.json", 0, 2, ddp(), period=900)
    write(tmp_path / "rank-1.json", 1, 2, slow, period=900)
    plain = scale(tmp_path / "rank-0.json", mine, accelerators=8)
    both = scale(tmp_path, mine, accelerators=8)
    assert both.traced.ranks == (0, 1)
    assert both.step.seconds > plain.step.seconds


def test_kernels_that_communication_slows_are_named(tmp_path, mine):
    events = [kernel("gemm", 0, 100), call("allreduce", 100, 60, PAIR, MIB), kernel("gemm", 100, 110),
              kernel("copy", 300, 10), kernel("gemm", 310, 100)]  # fmt: skip
    found = scale(write(tmp_path / "rank-0.json", 0, 2, events, period=500), mine, accelerators=2)
    (row,) = found.traced.slowed
    assert (row.rank, row.kernel) == (0, "gemm")
    assert row.factor == pytest.approx(1.1)
    assert row.lost_s == pytest.approx(10e-6)
    (part,) = [one for one in found.band.parts if one.source.startswith("kernels that communications slow")]
    assert (part.low_s, part.high_s) == (pytest.approx(10e-6), pytest.approx(20e-6))  # two others that are not slowed


def test_ctrl_c_ends_the_command(tmp_path):
    mine = tmp_path / "mine.yaml"
    mine.write_text(CLUSTER.replace("16", "8192"))
    events = [one for at in range(400) for one in (
        kernel("gemm", 100 * at, 60), call("allreduce", 100 * at + 60, 40, PAIR, MIB + at))]  # fmt: skip
    path = write(tmp_path / "rank-0.json", 0, 2, events, period=40_000)
    command = [sys.executable, "-m", "railyard", "scale", str(path), "--cluster", str(mine), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        out, words = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert words.endswith("stopped by Ctrl-C\n")


def test_gradients_are_added_to_a_trace_of_one_replica(tmp_path, mine):
    events = [kernel("gemm", 0, 100), call("allreduce", 100, 50, range(8), MIB), kernel("gemm", 150, 100)]
    path = write(tmp_path / "rank-0.json", 0, 8, events, period=250)
    found = scale(path, mine, gradients=512 * MIB)
    assert [(axis.role, axis.traced, axis.target) for axis in found.layout] == [("dp", 8, 8), ("dp", 1, 2)]
    rows = {one.size_bytes: one for one in found.collectives}
    assert (rows[MIB].ranks, rows[512 * MIB].ranks) == (8, 2)
    assert found.step.seconds == pytest.approx(200e-6 + rows[MIB].mean_s + rows[512 * MIB].mean_s, rel=1e-6)


def test_experts_that_fill_the_trace_are_held_again_by_more_accelerators(tmp_path, mine):
    events = [kernel("gemm", 0, 100), call("all_to_allv", 100, 50, range(8), MIB, group="1", purpose="ep"),
              kernel("gemm", 150, 100), call("allreduce", 250, 50, range(8), 2 * MIB, purpose="dp")]  # fmt: skip
    found = scale(write(tmp_path / "rank-0.json", 0, 8, events, period=300), mine)
    assert [(axis.role, axis.traced, axis.target) for axis in found.layout] == [("ep", 8, 8), ("dp", 1, 2)]
    assert {one.kind: one.ranks for one in found.collectives} == {"all-to-all": 8, "all-reduce": 16}
    assert any(row.why == "the trace has every expert once" for row in found.unrecognized)


@pytest.mark.parametrize("engine", ["analytic", "packet"])
def test_other_engines_run_the_collectives(tmp_path, mine, engine):
    path = write(tmp_path / "rank-0.json", 0, 2, ddp(), period=900)
    flow, other = (scale(path, mine, engine=name) for name in ("flow", engine))
    assert other.engine == engine
    assert other.step.seconds == pytest.approx(flow.step.seconds, rel=0.3)


def members(stride, size, start=0):
    return [start + stride * at for at in range(size)]


@pytest.mark.parametrize(
    ("world", "groups", "axes"),
    [
        (8, {"0": ("", ["all_reduce"], range(8))}, [("dp", 8)]),
        (8, {"0": ("", ["all_gather", "reduce_scatter"], range(8))}, [("fsdp", 8)]),
        (16, {"a": ("", ["all_reduce"], members(1, 4)), "b": ("", ["all_reduce"], members(4, 4))},
         [("tp", 4), ("dp", 4)]),
        (16, {"a": ("TENSOR_MODEL_PARALLEL_GROUP", ["all_reduce"], members(1, 2)),
              "b": ("DATA_PARALLEL_GROUP_WITH_CP", ["all_gather", "reduce_scatter"], members(2, 2)),
              "0 to 4": ("", ["send_recv"], [0, 4]), "4 to 0": ("", ["send_recv"], [4, 0])},
         [("tp", 2), ("fsdp", 2), ("pp", 4)]),
        (16, {"12 to 0": ("", ["send_recv"], [12, 0]), "0 to 4": ("", ["send_recv"], [0, 4]),
              "b": ("", ["all_reduce"], members(1, 4))}, [("dp", 4), ("pp", 4)]),
        (16, {"e": ("", ["all_to_all"], members(1, 4)), "d": ("", ["all_reduce"], range(16)),
              "x": ("EXPERT_DATA_PARALLEL_GROUP", ["all_reduce"], members(4, 4))}, [("ep", 4), ("dp", 4)]),
        (12, {"a": ("mesh_tp", ["all_gather", "reduce_scatter"], members(6, 2)),
              "b": ("mesh_dp_shard", ["all_gather"], members(1, 6))}, [("fsdp", 6), ("tp", 2)]),
        (16, {"a": ("mesh_tp", ["all_reduce"], members(1, 4))}, [("tp", 4), ("", 4)]),
        (6, {"a": ("mesh_tp", ["all_reduce"], [0, 2, 3])}, [("", 6)]),
    ],
)  # fmt: skip
def test_process_groups_are_axes_of_a_grid(world, groups, axes):
    calls = [CommCall(name, kind, MIB, 0) for name, (_, kinds, _) in groups.items() for kind in kinds]
    step = TracedStep(0, 0, 0, duration_ns=[0] * len(calls), main=[False] * len(calls), calls=calls)
    grid = grid_of(
        world, {name: list(ranks) for name, (_, _, ranks) in groups.items()},
        {name: purpose for name, (purpose, _, _) in groups.items()}, [step],
    )  # fmt: skip
    assert [(axis.role, axis.size) for axis in grid.axes] == axes
    assert grid.ranks == world


def test_only_the_outermost_data_axis_grows(tmp_path):
    grid = grid_of(16, {}, {}, [])
    grid = type(grid)((Axis(2, 1, "tp"), Axis(2, 2, "fsdp"), Axis(2, 4, "dp"), Axis(2, 8, "pp")))
    grown = grid.grown(48)
    assert [(axis.size, axis.stride) for axis in grown.axes] == [(2, 1), (2, 2), (6, 4), (2, 24)]
    with pytest.raises(InputError, match="multiple of 8"):
        grid.grown(20)


def pipeline(folder, stages):
    """Two stages of two replicas: rank 0 sends to rank 2; the replicas are 0, 1 and 2, 3."""
    first = [kernel("forward", 0, 100), message(100, 40, 2, MIB, sends=True), message(140, 560, 2, MIB, sends=False),
             kernel("backward", 700, 200), call("allreduce", 900, 100, [0, 1], MIB)]  # fmt: skip
    second = [message(0, 140, 0, MIB, sends=False), kernel("forward", 140, 200), kernel("backward", 340, 300),
              message(640, 60, 0, MIB, sends=True), call("allreduce", 700, 300, [2, 3], MIB, group="1")]  # fmt: skip
    for rank, events in ((0, first), (2, second)):
        if rank in stages:
            write(folder / f"rank-{rank}.json", rank, 4, events, period=1000)
    return folder


def test_a_pipeline_sends_between_stages_of_the_same_replica(tmp_path, mine):
    folder = pipeline(tmp_path, (0, 2))
    found = scale(folder, mine, accelerators=16)
    assert [(axis.role, axis.traced, axis.target) for axis in found.layout] == [("dp", 2, 8), ("pp", 2, 2)]
    reduced = found.collectives[0]
    assert (reduced.ranks, reduced.times) == (8, 2)
    # 100 + 200 + 300 + 200 us; two messages of 1 MiB over 400 Gb/s take 21 us each, and latency
    assert found.tax.step_without_networks_s == pytest.approx(800e-6, rel=0.001)
    assert 842e-6 + reduced.mean_s < found.step.seconds < 920e-6 + reduced.mean_s


def test_what_cannot_be_forecast_is_refused(tmp_path, mine):
    with pytest.raises(InputError, match="a pipeline stage has no trace"):
        scale(pipeline(tmp_path, (0,)), mine)
    three = [*ddp(group=[0, 1, 2]), call("allreduce", 801, 9, [0, 3], MIB, group="1", purpose="dp")]
    with pytest.raises(InputError, match=r"do not divide into replicas(?s:.)*multiple of 3"):
        scale(write(tmp_path / "rank-0.json", 0, 6, three, period=900), mine)
    bare = [kernel("gemm", 0, 100), kernel("ncclKernel_AllReduce_RING", 100, 50, 20)]
    with pytest.raises(InputError, match=r"100% of the communication (?s:.)* which ranks take part"):
        scale(write(tmp_path / "rank-0.json", 0, 2, bare, period=200), mine)
    (kept,) = [row for row in scale(tmp_path / "rank-0.json", mine, accelerators=2).unrecognized if row.seconds]
    assert kept.what == "1 all_reduce: they keep their measured time"
    assert kept.seconds == pytest.approx(50e-6)
    loss = [kernel("gemm", 0, 100), call("allreduce", 100, 50, range(8), MIB, group="1", purpose="tp"),
            call("allreduce", 150, 5, range(8), 8)]  # fmt: skip
    with pytest.raises(InputError, match=r"no data-parallel group(?s:.)*--gradients"):
        scale(write(tmp_path / "rank-0.json", 0, 8, loss, period=200), mine)
    alone = write(tmp_path / "rank-0.json", 0, 1, [kernel("gemm", 0, 100)], period=200)
    with pytest.raises(InputError, match="no data-parallel group"):
        scale(alone, mine)
    (tmp_path / "none.yaml").write_text("workload: {}\n")
    with pytest.raises(InputError, match="no section `cluster`"):
        scale(alone, tmp_path / "none.yaml")
    (tmp_path / "wrong.yaml").write_text("cluster: {accelerators: 16, server: hgx-h1000}\n")
    with pytest.raises(InputError, match="hgx-h1000"):
        scale(alone, tmp_path / "wrong.yaml")


@pytest.mark.parametrize(
    ("job", "within"),
    [
        (("megatron-1.7b", {"zero": 3}, 2), 0.015),
        (("megatron-1.7b", {"tp": 2}, 2), 0.02),
        (("megatron-1.7b", {"pp": 2, "tp": 2}, 4), 0.02),
        (("deepseek-v2-lite", {"ep": 4}, 2), 0.02),
    ],
)
@pytest.mark.parametrize("events", [True, False])
def test_closed_loop_8_to_32(tmp_path, mine, job, within, events):
    record = simulated(8, *job)
    export(record, tmp_path / "all.zip")
    path = tmp_path / "step.zip"
    with zipfile.ZipFile(tmp_path / "all.zip") as archive, zipfile.ZipFile(path, "w") as kept:
        for name in archive.namelist():
            lines = archive.read(name).decode().split("\n")
            kept.writestr(name, "\n".join(one for one in lines if events or '"cuda_sync"' not in one))
    same = scale(path, mine, accelerators=8)
    assert same.step.seconds == pytest.approx(record.makespan_ps * 1e-12, rel=0.01)
    larger = scale(path, mine, accelerators=32)
    truth = simulated(32, *job).makespan_ps * 1e-12
    assert larger.step.seconds == pytest.approx(truth, rel=within)
    assert not [row for row in larger.unrecognized if row.seconds]


JOB = "workload: {training: {model: megatron-1.7b, tokens: 1 T, global_batch: 8, sequence: 4096, precision: bf16, "
JOB += "parallelism: {micro_batch: 1, recompute: full, bucket: 160 MB}}}\n"


@pytest.mark.parametrize(
    ("keys", "direct", "share"),
    [({"tp": 2}, ({"tp": 2}, 2), 1.0), ({"tp": 4}, ({"tp": 4}, 4), 0.002), ({"pp": 2}, ({"tp": 2, "pp": 2}, 4), 1.0)],
)
def test_another_layout_keeps_operators_of_equal_shape(tmp_path, mine, keys, direct, share):
    export(simulated(8, "megatron-1.7b", {"tp": 2}, 2), tmp_path / "step.zip")
    with pytest.raises(InputError, match=r"is not recognized: no shapes(?s:.)*record_shapes=True"):
        scale(tmp_path / "step.zip", mine, accelerators=32, parallelism=keys)
    mine.write_text(CLUSTER + JOB)
    found = scale(tmp_path / "step.zip", mine, accelerators=32, parallelism=keys)
    truth = simulated(32, "megatron-1.7b", *direct).makespan_ps * 1e-12
    assert found.step.seconds == pytest.approx(truth, rel=0.01)
    assert found.measured_share == pytest.approx(share, abs=0.0005)
    assert found.band.low < truth < found.band.high
    mine.write_text(CLUSTER + JOB.replace("micro_batch", "tp: 4, micro_batch"))
    with pytest.raises(
        InputError, match=r"parallelism\.tp: the trace has another layout(?s:.)*found: 4(?s:.)*allowed: 2"
    ):
        scale(tmp_path / "step.zip", mine, accelerators=32, parallelism=keys)


def test_a_model_is_recognized_by_recorded_shapes(tmp_path, mine):
    # Llama 3.2 1B: 16 layers of width 2048, MLP of 8192 with a gate, vocabulary 128256; two micro-batches
    shapes = [
        *shape("aten::mm", [4096, 2048], [2048, 128256], times=2),
        *shape("aten::mm", [4096, 2048], [2048, 8192], times=64),
        *shape("aten::_scaled_dot_product_flash_attention", [1, 32, 4096, 64], [1, 32, 4096, 64], times=32),
    ]
    path = write(tmp_path / "rank-0.json", 0, 8, [*shapes, *ddp(group=range(8))], period=900)
    found = scale(path, mine)
    traced = found.traced
    assert (traced.model, traced.sequence, traced.micro_batch, traced.micro_batches) == ("llama-3.2-1b", 4096, 1, 2)
    assert traced.gemms[0] == "4096 x 2048 x 8192, 64 times"
    other = scale(path, mine, parallelism={"tp": 2})
    assert [(axis.role, axis.target) for axis in other.layout if axis.target > 1] == [("tp", 2), ("dp", 8)]
    assert 0 < other.measured_share < 0.01
    shapes[0]["args"]["Input Dims"] = [[4096, 2048], [2048, 64000]]
    path = write(tmp_path / "rank-0.json", 0, 8, [*shapes[:1], *shapes[2:], *ddp(group=range(8))], period=900)
    assert scale(path, mine).traced.model is None
    with pytest.raises(InputError, match="no model of the catalogue"):
        scale(path, mine, parallelism={"tp": 2})


TRACES = Path(__file__).parents[3] / "examples" / "traces"
BUCKETS = {8196000, 9724160, 26255360, 26550272, 31502336}
"""Gradients of torchvision's ResNet-50 in DDP's buckets, bytes: 25,557,032 parameters of 4."""


@pytest.mark.parametrize(("name", "world"), [("resnet-ddp.json.gz", None), ("mlcommons-pytorch.tar.gz", 2)])
def test_public_traces_of_resnet(mine, name, world):
    pytest.importorskip("google.protobuf")
    mine.write_text(CLUSTER.replace("hgx-h100", "dgx-a100"))
    found = scale(TRACES / name, mine, world=world)
    reduced = {row.size_bytes for row in found.collectives if row.kind == "all-reduce"}
    assert reduced == BUCKETS
    assert sum(reduced) == 4 * 25_557_032
    assert {row.ranks for row in found.collectives} == {16}
    assert found.traced.replayed_s == pytest.approx(found.traced.step_s, rel=0.002)
    assert found.traced.model is None


def test_a_damaged_trace_is_refused_with_its_name(tmp_path, mine):
    (tmp_path / "rank-0.json").write_text('{"schemaVersion": 1, "traceEvents": [{"ph"')
    with pytest.raises(InputError, match=r"rank-0\.json"):
        scale(tmp_path / "rank-0.json", mine)
    with pytest.raises(InputError, match=r"no such file(?s:.)*absent"):
        scale(tmp_path / "absent.json", mine)


def test_the_command_prints_json_and_words(tmp_path, mine, capsys):
    path = write(tmp_path / "rank-0.json", 0, 2, ddp(), period=900)
    assert guard.run(("scale", str(path), "--cluster", str(mine), "--accelerators", "8", "--json")) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["format"] == "railyard-scale/1"
    assert document["step"]["seconds"] > 0
    assert {"low", "high"} <= set(document["band"])
    assert any("record_shapes=True" in row["why"] for row in document["unrecognized"])
    assert guard.run(("scale", str(path), "--cluster", str(mine))) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("A step takes ")
    assert "not recognized: the shape of the model" in printed.err


def test_from_python_paths_may_be_texts(tmp_path, mine):
    path = write(tmp_path / "rank-0.json", 0, 2, ddp(), period=900)
    texts = command("scale", path=str(path), cluster=str(mine), accelerators="8", out=str(tmp_path / "runs"))
    assert texts == command("scale", path=path, cluster=mine, accelerators=8)
    (kept,) = (tmp_path / "runs").iterdir()
    assert answer_from((kept / "scale.json").read_bytes()) == texts
    with pytest.raises(InputError, match=r"not a whole number(?s:.)*found: eight"):
        command("scale", path=str(path), cluster=str(mine), accelerators="eight")
    for few in (0, "0", "-8"):
        with pytest.raises(InputError, match=r"the number is too small(?s:.)*allowed: at least 1"):
            command("scale", path=path, cluster=mine, accelerators=few)
