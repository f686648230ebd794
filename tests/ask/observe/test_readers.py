"""Readers of traces: names of every library, counts against an independent count, and files that are broken."""

import gzip
import io
import json
import pickle
import random
import re
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from railyard.ask.observe.diagnose import diagnose_calls
from railyard.ask.observe.gather import gather
from railyard.ask.observe.kernels import is_communication, kind_of
from railyard.ask.observe.measured import aligned, record_of
from railyard.ask.observe.reader import readers
from railyard.ask.observe.readers import flight_recorder
from railyard.ask.observe.summary import common, length, observed, union
from railyard.kit.errors import InputError

HERE = Path(__file__).parent / "data"
HTA = Path(__file__).parents[4] / "shared" / "data" / "operations" / "kineto" / "tests" / "data"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "all_reduce"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "reduce_scatter"),
        ("ncclSymkDevKernel_AllGather_LL(x)", "all_gather"),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "send_recv"),
        ("ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)", ""),
        ("void rccl_main_kernel<1>()", ""),
        ("mscclKernel_Sum_half_Simple", ""),
        ("gloo:all_reduce", "all_reduce"),
        ("nccl:_reduce_scatter_base", "reduce_scatter"),
        ("nccl:all_to_allv", "all_to_all"),
    ],
)
def test_names_of_collectives(name, kind):
    assert is_communication(name)
    assert kind_of(name) == kind


@pytest.mark.parametrize("name", ["ampere_sgemm_128x64_tn", "void at::native::reduce_kernel<512>", "Memcpy HtoD"])
def test_other_kernels_are_no_communication(name):
    assert not is_communication(name)


def counted(path):
    """Kernels of communication, counted in the text of the file without a parser of JSON."""
    text = gzip.decompress(path.read_bytes()).decode()
    found = re.findall(r'"cat": ?"kernel"[^{}]*?"name": ?"[^"]*(?:nccl|rccl)', text, re.IGNORECASE)
    other = re.findall(r'"name": ?"[^"]*(?:nccl|rccl)[^"]*"[^{}]*?"cat": ?"kernel"', text, re.IGNORECASE)
    return max(len(found), len(other))


@pytest.mark.parametrize(
    ("file", "kernels"),
    [
        ("nccl_parser_config/nccl_data.json.gz", 21),
        ("negative_queue_length_values_check/rank0.json.gz", 80),
        ("timeline_analysis/sampled_rank-0.json.gz", 10),
        ("trace_filter/sampled_rank-1.json.gz", 10),
        pytest.param("df_index_resolver/df_index_resolver.json.gz", 2020, marks=pytest.mark.slow),
        pytest.param("trace_diff/control/control.json.gz", 60, marks=pytest.mark.slow),
        pytest.param("trace_diff/test/test.json.gz", 64, marks=pytest.mark.slow),
    ],
)
def test_every_communication_of_holistic_trace_analysis(file, kernels):
    if not HTA.is_dir():
        pytest.skip("the traces lie in ../shared")
    record = record_of(gather(HTA / file))
    found = int((record.column("communicator") >= 0).sum())
    assert found == kernels == counted(HTA / file)


def test_calls_of_gloo_on_hosts():
    record, figures = observed(HERE / "gloo-rank-34.json.gz")
    assert len(record) == 10
    assert set(record.who.tolist()) == {34}
    assert figures["utilization"] == 0
    assert figures["collectives"][0]["kind"] == "all_reduce"


def kernel(name, start, duration, stream=7, **args):
    return {"ph": "X", "cat": "kernel", "name": name, "ts": start, "dur": duration, "args": {"stream": stream, **args}}


REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"


def trace(rank, ahead=0, late=0, world=2):
    """Computes 100 us, then all-reduces 4 MB in 50 us, which 20 us of computation hide; `late` before the second."""
    about = {"Process Group Name": "0", "In msg nelems": 1_000_000, "Out msg nelems": 1_000_000, "dtype": "Float"}
    events = [
        kernel("gemm", 1000 + ahead, 100),
        kernel(REDUCE, 1100 + ahead, 50, 9, **about),
        kernel("gemm", 1130 + ahead, 20),
        kernel("gemm", 1150 + ahead, 50 + late),
        kernel(REDUCE, 1200 + late + ahead, 100 - late, 9, **about),
    ]
    info = {"rank": rank, "world_size": world, "pg_config": [{"pg_name": "0", "ranks": list(range(world))}]}
    return {"schemaVersion": 1, "distributedInfo": info, "traceEvents": events}


def put(folder, name, value):
    (folder / name).write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")


def test_measures_by_hand(tmp_path):
    """Rank 1 is 30 us late to the second all-reduce, which then takes 70 us; busbw of two ranks is algbw."""
    put(tmp_path, "r0.json", trace(0))
    put(tmp_path, "r1.json", trace(1, ahead=5000, late=30))
    record, figures = observed(tmp_path)
    assert figures["clocks"]["1"] == {"ahead_ns": 5_000_000, "error_ns": 0, "shared": 2}
    assert figures["span_s"] == pytest.approx(300e-6)
    first, second = figures["ranks"]
    assert first["utilization"] == pytest.approx(170 / 300)
    assert first["exposed"] == pytest.approx((30 + 100) / 300)
    assert first["overlap"] == pytest.approx(20 / 150)
    assert second["utilization"] == pytest.approx(200 / 300)
    assert figures["stragglers"][0]["rank"] == 1
    assert figures["stragglers"][0]["late_s"] == pytest.approx(15e-6)
    (reduce,) = figures["collectives"]
    assert (reduce["members"], reduce["size_bytes"], reduce["count"]) == (2, 4_000_000, 2)
    assert reduce["median_s"] == pytest.approx(60e-6)
    assert reduce["busbw_bps"] == pytest.approx(8 * 4e6 / 60e-6)
    assert record.rows == "kernels"


def test_what_is_broken_is_named_and_the_rest_read(tmp_path):
    put(tmp_path, "a-good.json", trace(0))
    put(tmp_path, "b-cut.json", json.dumps(trace(1))[:-420])
    put(tmp_path, "c-again.json", trace(0))
    put(tmp_path, "d-other.json", trace(3, world=64))
    put(tmp_path, "e-empty.json", "")
    put(tmp_path, "f-nobody.json", {"schemaVersion": 1, "traceEvents": trace(0)["traceEvents"]})
    (tmp_path / "g-noise.bin").write_bytes(bytes(range(256)) * 40)
    (tmp_path / "h-cut.json.gz").write_bytes(gzip.compress(json.dumps(trace(2)).encode())[:60])
    (tmp_path / "i-hostile.pkl").write_bytes(pickle.dumps(Path("x")))
    found = gather(tmp_path)
    assert [piece.rank for piece in found.pieces if piece.timed] == [0, 1]
    skipped = {Path(name).name: why for name, why in found.skipped.items()}
    assert "already exists" in skipped["c-again.json"]
    assert "64 ranks" in skipped["d-other.json"]
    assert "empty" in skipped["e-empty.json"]
    assert "no rank" in skipped["f-nobody.json"]
    assert "format" in skipped["g-noise.bin"]
    assert "h-cut.json.gz" in skipped
    assert "not run" in skipped["i-hostile.pkl"]
    assert any("only the first" in remark for remark in found.remarks)
    assert len(record_of(found)) >= 5


def test_archives_and_compressed_files(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("r0.json", json.dumps(trace(0)))
    with tarfile.open(tmp_path / "b.tar.gz", "w:gz") as archive:
        data = gzip.compress(json.dumps(trace(1)).encode())
        member = tarfile.TarInfo("r1.json.gz")
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    assert [piece.rank for piece in gather(tmp_path).pieces] == [0, 1]


def test_nothing_to_read_is_an_error(tmp_path):
    put(tmp_path, "words.txt", "no trace")
    with pytest.raises(InputError, match="nothing here could be read"):
        gather(tmp_path)
    with pytest.raises(InputError, match="no such file"):
        gather(tmp_path / "nowhere")


@pytest.mark.parametrize("seed", range(40))
def test_spoilt_bytes_never_end_in_another_error(tmp_path, seed):
    rng = random.Random(seed)
    sample = rng.choice([json.dumps(trace(0)).encode(), pickle.dumps(dump(0, 3)), json.dumps(dump(1, 2)).encode()])
    data = bytearray(sample)
    for _ in range(rng.randrange(1, 30)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    path = tmp_path / "dump_0.pkl" if sample[:1] == b"\x80" else tmp_path / "x.json"
    path.write_bytes(bytes(data[: rng.randrange(1, len(data) + 1)]))
    try:
        record_of(gather(path))
    except InputError:
        return


def test_unions():
    spans = union(np.array([5, 0, 8, 20]), np.array([9, 6, 10, 21]))
    assert spans.tolist() == [[0, 10], [20, 21]]
    assert length(spans) == 11
    assert common(spans, union(np.array([9]), np.array([21]))) == 2


def test_clocks_over_a_neighbour():
    """0 and 1 share a group, 1 and 2 another: 2 is ahead of 1 by 7 and of 0 by 10."""
    ends = {
        0: {("a", "all_reduce", n): 100 * n for n in range(5)},
        1: {("a", "all_reduce", n): 100 * n + 3 for n in range(5)} | {("b", "all_reduce", n): 50 * n for n in range(5)},
        2: {("b", "all_reduce", n): 50 * n + 7 for n in range(5)},
        3: {("c", "all_reduce", 0): 1},
    }
    found = aligned(ends)
    assert [found[rank].ahead_ns for rank in (0, 1, 2)] == [0, 3, 10]
    assert found[3].error_ns == -1


def dump(rank, last, *, size=(4,), state="completed", name="nccl:all_reduce"):
    entries = [
        {
            "collective_seq_id": number,
            "profiling_name": name if number == last else "nccl:all_reduce",
            "process_group": ("0", "default_pg"),
            "state": state if number == last else "completed",
            "input_sizes": [list(size)] if number == last else [[4]],
        }
        for number in range(1, last + 1)
    ]
    return {"version": "2.10", "rank": rank, "pg_config": {"0": {"ranks": "[0, 1, 2, 3]"}}, "entries": entries}


def dumps(folder, values, write=pickle.dumps):
    for rank, value in enumerate(values):
        (folder / f"dump_{rank}").write_bytes(write(value))
    return diagnose_calls(gather(folder).pieces)


@pytest.mark.parametrize("write", [pickle.dumps, lambda value: json.dumps(value).encode()])
def test_the_rank_that_is_missing_in_a_collective(tmp_path, write):
    waiting = [dump(rank, 7, state="started") for rank in range(4)]
    waiting[2] = dump(2, 6)
    found = dumps(tmp_path, waiting, write)
    assert [(one.part, one.kind) for one in found.verdict] == [("rank 2", "rank")]
    assert not found.unknown


def test_the_rank_that_calls_something_else(tmp_path):
    values = [dump(rank, 5, state="scheduled") for rank in range(4)]
    values[3] = dump(3, 5, state="scheduled", size=(8,))
    found = dumps(tmp_path, values)
    assert [(one.part, one.kind) for one in found.verdict] == [("rank 3", "software")]


def test_nobody_is_blamed_for_a_finished_run_or_a_common_wait(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    done = dumps(tmp_path / "a", [dump(rank, 9) for rank in range(4)])
    assert (done.verdict, done.unknown) == ([], False)
    common_wait = dumps(tmp_path / "b", [dump(rank, 9, state="started") for rank in range(4)])
    assert (common_wait.verdict, common_wait.unknown) == ([], True)


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_plain_pickles_of_every_protocol(protocol):
    value = {"a": [1, -2, 2**70, 1.5, None, True, False, "ä"], "b": ((), (1,), (1, 2), (1, 2, 3, 4)), "c": {}}
    assert flight_recorder.load(pickle.dumps(value, protocol)) == value


class Hostile:
    def __reduce__(self):
        return (exec, ("raise SystemExit",))


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_hostile_pickle_is_refused_by_name(protocol):
    with pytest.raises(InputError, match="not run"):
        flight_recorder.load(pickle.dumps({"entries": [Hostile()]}, protocol))


def test_every_reader_says_what_it_reads():
    for name, reader in readers.items():
        assert reader.name == name
        assert reader.summary
        assert not reader.recognises("noise", bytes(range(200, 256)) * 4)


def kineto(folder, rank, events, **info):
    """A trace whose events are name, arguments and category."""
    listed = [
        {"ph": "X", "cat": category, "name": name, "ts": 100 * number, "dur": 50, "args": args}
        for number, (name, args, category) in enumerate(events)
    ]
    value = {"distributedInfo": {"rank": rank, **info}, "traceEvents": listed}
    (folder / f"rank{rank}.json").write_text(json.dumps(value), encoding="utf-8")


def test_both_ends_of_a_message_are_in_one_group(tmp_path):
    common = {"Process Group Name": "7", "Process Group Ranks": "[1, 3]", "Group size": 2}
    kineto(tmp_path, 1, [("ncclDevKernel_SendRecv(x)", {**common, "Collective name": "send", "Dst Rank": 3}, "kernel")])
    kineto(tmp_path, 3, [("ncclDevKernel_SendRecv(x)", {**common, "Collective name": "recv", "Src Rank": 1}, "kernel")])
    record = record_of(gather(tmp_path))
    (group,) = record.meta["communicators"]
    assert group == {"name": "1 to 3", "ranks": [1, 3]}
    assert [label.op for label in record.labels] == ["send_recv"]


def test_the_number_of_ranks_is_known_from_groups_that_are_cut_short(tmp_path):
    """The profiler lists 29 ranks of a group, then the last one; without a world size that one tells."""
    listed = {"Process Group Name": "0", "Process Group Ranks": "[0, 1, 2, ..., 39]", "Group size": 36}
    kineto(tmp_path, 2, [("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)", listed, "kernel")])
    found = gather(tmp_path)
    assert found.world == 40
    assert found.missing_ranks == [rank for rank in range(40) if rank != 2]


def test_grids_devices_and_marks_of_steps_are_read(tmp_path):
    kernel = {"grid": [4, 3, 1], "device": 5, "correlation": 17, "stream": 7}
    events = [
        ("ProfilerStep#12", {}, "user_annotation"),
        ("gemm", kernel, "kernel"),
        ("ProfilerStep#12", {}, "gpu_user_annotation"),
        ("ProfilerStep#13", {}, "gpu_user_annotation"),
        ("norm", {"grid": "wrong", "correlation": 18}, "kernel"),
    ]
    kineto(tmp_path, 5, events, world_size=8)
    (piece,) = gather(tmp_path).pieces
    assert piece.kernels.blocks.tolist() == [12, 0]
    assert piece.kernels.launch.tolist() == [17, 18]
    assert (piece.device, piece.exact, piece.began_ns) == (5, True, 0)
    assert piece.steps == [(12, 200_000, 250_000), (13, 300_000, 350_000)]


@pytest.mark.parametrize("ending", ["zip", "tar"])
def test_an_archive_of_very_many_files_is_refused_before_they_are_read(tmp_path, monkeypatch, ending):
    monkeypatch.setattr("railyard.ask.observe.reader.MOST_MEMBERS", 3)
    files = {f"r{rank}.json": json.dumps(trace(rank)) for rank in range(4)}
    path = tmp_path / f"traces.{ending}"
    if ending == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name, text in files.items():
                archive.writestr(name, text)
    else:
        with tarfile.open(path, "w") as archive:
            for name, text in files.items():
                (tmp_path / name).write_text(text)
                archive.add(tmp_path / name, name)
    with pytest.raises(InputError, match="more than 3 files; unpack it"):
        gather(path)
    monkeypatch.setattr("railyard.ask.observe.reader.MOST_MEMBERS", 4)
    assert len(gather(path).pieces) == 4
