"""The target against the traced machine: accelerator, accelerators of a server, memory."""

import json
import re
import zipfile

import pytest
from tests.ask.scale.traces import CLUSTER, call, devices, job_of, kernel, memory, simulated, write

from railyard.ask.scale.forecast import scaled_step as scale
from railyard.ask.scale.relayout import operators
from railyard.graph.exporters.kineto import write_archive as export
from railyard.kit.errors import InputError

GIB = 1 << 30
H100 = devices("NVIDIA H100 80GB HBM3", 79 * GIB)


def traced(path, *more, ranks=range(2), kind="allreduce", **about):
    events = [kernel("gemm", 0, 100), call(kind, 100, 50, ranks, 1 << 20), kernel("gemm", 150, 100), *more]
    return write(path / "rank-0.json", 0, len(ranks), events, period=250, **about)


def rows(found):
    return {row.what: (row.traced, row.target, row.fits) for row in found.target}


def test_the_same_machine_fits(tmp_path, mine):
    found = scale(traced(tmp_path, memory(31 * GIB), **H100), mine)
    assert rows(found) == {
        "accelerator": ("NVIDIA H100 80GB HBM3", "h100-sxm", True),
        "accelerators of a server": ("8", "8", True),
        "memory": ("31.0 GiB reserved", "80.0 GiB", True),
    }
    assert found.measured_share == 1


def test_what_the_trace_does_not_say_is_not_claimed(tmp_path, mine):
    found = scale(traced(tmp_path), mine)
    assert {fits for _, _, fits in rows(found).values()} == {None}
    assert "profile_memory=True" in found.target[-1].means
    assert "the traced accelerator" in " ".join(row.what for row in found.unrecognized)
    board = scale(traced(tmp_path, **devices("NVIDIA H100-PG509-200", 79 * GIB)), mine)
    assert rows(board)["accelerator"] == ("NVIDIA H100-PG509-200", "h100-sxm", None)
    assert rows(board)["memory"] == ("79.0 GiB of the accelerator", "80.0 GiB", True)


def test_shards_of_another_size_leave_memory_open(tmp_path, mine):
    scattered = call("_reduce_scatter_base", 250, 50, range(32), 1 << 20)
    found = scale(traced(tmp_path, scattered, memory(31 * GIB), kind="_allgather_base", ranks=range(32), **H100), mine)
    assert rows(found)["memory"][2] is None
    assert found.target[-1].means == "shards differ in size"


def test_too_little_memory_is_refused(tmp_path, mine):
    path = traced(tmp_path, memory(90 * GIB), memory(60 * GIB), **devices("NVIDIA H100-PG509-200", 96 * GIB))
    with pytest.raises(InputError, match=r"does not fit into the memory(?s:.)*found: 90\.0 GiB(?s:.)*up to 80\.0 GiB"):
        scale(path, mine)


def test_another_number_in_a_server_is_said_with_the_groups_that_it_cuts(tmp_path, mine):
    about = devices("NVIDIA H100 80GB HBM3", 79 * GIB, 16)
    events = [kernel("gemm", 0, 100), call("allreduce", 100, 50, range(16), 1 << 20, group="1", purpose="tp"),
              call("allreduce", 150, 50, [0, 16], 1 << 20, purpose="dp")]  # fmt: skip
    mine.write_text(CLUSTER.replace("16", "64"))
    found = scale(write(tmp_path / "rank-0.json", 0, 32, events, period=250, **about), mine)
    assert rows(found)["accelerators of a server"] == ("16", "8", False)
    assert found.target[1].means == "groups inside a traced host cross servers here: tp"


def test_another_accelerator_needs_to_know_what_trains(tmp_path, mine):
    with pytest.raises(InputError, match=r"of a100-sxm-80gb: its kernels cannot be taken to h100-sxm(?s:.)*no shapes"):
        scale(traced(tmp_path, **devices("NVIDIA A100-SXM4-80GB", 79 * GIB)), mine)
    with pytest.raises(InputError, match=r"deviceProperties(?s:.)*does not know the traced accelerator(?s:.)*Radeon"):
        scale(traced(tmp_path, **devices("AMD Radeon Graphics", 64 * GIB)), mine)
    with pytest.raises(InputError, match=r"another layout and another accelerator"):
        scale(traced(tmp_path, **devices("NVIDIA A100-SXM4-80GB", 79 * GIB)), mine, parallelism={"tp": 2})


JOB = "workload: {training: {model: megatron-1.7b, tokens: 1 T, global_batch: 16, sequence: 4096, precision: bf16, "
JOB += "parallelism: {micro_batch: 1, recompute: full, bucket: 160 MB}}}\n"


def test_kernels_of_another_accelerator_are_modelled_with_a_wider_band(tmp_path, mine):
    """A step on A100 whose computations are cut into products and other kernels, against a direct run on H100."""
    old = job_of(8, "megatron-1.7b", {}, 2, "dgx-a100")
    every = operators(old.training, old.cluster.accelerator)
    share = sum(one.seconds for one in every if one.flops) / sum(one.seconds for one in every)
    export(simulated(8, "megatron-1.7b", {}, 2, "dgx-a100"), tmp_path / "all.zip")
    with zipfile.ZipFile(tmp_path / "all.zip") as archive, zipfile.ZipFile(tmp_path / "step.zip", "w") as kept:
        for name in archive.namelist():
            document = json.loads(archive.read(name)) | devices("NVIDIA A100-SXM4-80GB", 79 * GIB)
            document["traceEvents"] = [part for one in document["traceEvents"] for part in cut(one, share)]
            kept.writestr(name, json.dumps(document))
    mine.write_text(CLUSTER + JOB)
    found = scale(tmp_path / "step.zip", mine, accelerators=64)
    truth = simulated(64, "megatron-1.7b", {}, 2).makespan_ps * 1e-12
    assert found.step.seconds == pytest.approx(truth, rel=0.05)
    assert found.measured_share == 0
    assert found.band.low < truth < found.band.high
    assert found.band.high / found.step.seconds > 1.15
    products, others = re.findall(r"\d\.\d\d", found.target[0].means)
    assert 0.3 < float(products) < float(others) < 0.7  # FLOP/s 3.2 times and memory 1.6 times as fast


def cut(event, share):
    if not event["name"].endswith(" compute"):
        return [event]
    first = event["dur"] * share
    return [event | {"name": "gemm", "dur": first},
            event | {"name": "norm", "ts": event["ts"] + first, "dur": event["dur"] - first}]  # fmt: skip
