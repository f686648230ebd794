"""Traces of many ranks: slow accelerators, slow hosts, ranks that come late, groups that are slow; and nobody else."""

import json

import numpy as np
import pytest

from railyard.cli import guard
from railyard.observe.clusterfile import cluster_of
from railyard.observe.diagnose import diagnose
from railyard.observe.gather import gather
from railyard.observe.measured import record_of
from railyard.observe.price import traced_usd_per_hour

REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"


def trace(rank, world, *, pace=1.0, late_us=0.0, seed=0):
    """Ten steps of two kernels and an all-reduce that ends for all ranks at once."""
    rng = np.random.default_rng(1000 * seed + rank)
    events = []
    for step in range(10):
        at = 1000.0 * step
        for name, took in (("gemm", 300.0), ("norm", 40.0)):
            dur = round(took * pace * (1 + 0.002 * rng.standard_normal()), 3)
            events.append({"ph": "X", "cat": "kernel", "name": name, "ts": at, "dur": dur, "args": {"stream": 7}})
            at += dur
        start = round(at + late_us, 3)
        args = {"stream": 9, "Process Group Name": "0", "In msg nelems": 1000, "dtype": "Float"}
        events.append(
            {"ph": "X", "cat": "kernel", "name": REDUCE, "ts": start, "dur": 1000.0 * step + 900 - start, "args": args}
        )
    info = {"rank": rank, "world_size": world, "pg_config": [{"pg_name": "0", "ranks": list(range(world))}]}
    return {"schemaVersion": 1, "distributedInfo": info, "traceEvents": events}


def put(folder, world=16, **odd):
    for rank in range(world):
        value = trace(rank, world, **odd.get(f"r{rank}", {}))
        (folder / f"rank-{rank}.json").write_text(json.dumps(value), encoding="utf-8")
    return folder


def named(answer):
    return [(one.part, one.kind) for one in answer.verdict]


def test_nothing_is_wrong(tmp_path):
    answer = diagnose(put(tmp_path))
    assert (named(answer), answer.unknown) == ([], False)


def test_an_accelerator_whose_kernels_are_slow(tmp_path):
    answer = diagnose(put(tmp_path, r5={"pace": 1.15}))
    assert named(answer) == [("rank 5", "accelerator")]
    assert "1.149 times" in answer.verdict[0].evidence


def test_a_slow_accelerator_costs_what_the_others_wait(tmp_path):
    """15 % of a third of the trace, of the price of all of the cluster."""
    cluster = tmp_path / "cluster.yaml"
    back_end = "{topology: {kind: leaf-spine, ports_per_leaf: 16, spines: 4}, fabric: roce}"
    cluster.write_text(f"cluster: {{accelerators: 16, server: hgx-h100, back_end: {back_end}}}", encoding="utf-8")
    (tmp_path / "traces").mkdir()
    (suspect,) = diagnose(put(tmp_path / "traces", r5={"pace": 1.15}), cluster).verdict
    usual = traced_usd_per_hour(cluster_of(cluster), 10.0, 0.345)
    assert suspect.usd_per_hour == pytest.approx(usual * 0.345 * (1 - 1 / 1.149), rel=0.05)


def test_four_slow_accelerators_of_no_known_host(tmp_path):
    odd = {f"r{rank}": {"pace": 1.2} for rank in range(8, 12)}
    put(tmp_path, **odd)
    found = named(diagnose(tmp_path))
    assert sorted(found) == sorted((f"rank {rank}", "accelerator") for rank in range(8, 12))


def test_a_rank_that_comes_late_though_its_kernels_are_not_slow(tmp_path):
    answer = diagnose(put(tmp_path, r3={"late_us": 200.0}))
    assert named(answer) == [("rank 3", "rank")]
    assert "its host, data or launches" in answer.verdict[0].evidence


def test_too_few_ranks_have_no_peers(tmp_path):
    answer = diagnose(put(tmp_path, world=2))
    assert (named(answer), answer.unknown) == ([], True)


def test_columns_hold_what_the_events_say(tmp_path):
    (piece,) = gather(put(tmp_path, world=1)).pieces
    kernels = piece.kernels
    assert len(kernels) == 30
    assert int(kernels.communicates.sum()) == 10
    assert kernels.words[kernels.kind[2]] == "all_reduce"
    assert kernels.size_bytes[2] == 4000
    assert kernels.start_ns[3] == 1_000_000
    record = record_of(gather(tmp_path))
    assert record.column("sequence")[record.column("communicator") >= 0].tolist() == list(range(10))


@pytest.mark.parametrize("first", ["ph", "name"])
def test_only_what_matters_is_decoded_and_all_of_it(tmp_path, first):
    """Events between that hold what looks like cuts: nested objects, strings with brackets and the words of kernels."""
    value = trace(0, 1)
    for number in range(0, 60, 2):
        args = {"list": [{"ph": "X", "cat": "cpu"}, {"name": "b"}], "text": '}, {"ph": "X", "cat": "kernel"'}
        value["traceEvents"].insert(number, {"ph": "X", "cat": "cpu_op", "name": "op", "ts": 1, "dur": 1, "args": args})
    ordered = [dict(sorted(event.items(), key=lambda item: item[0] != first)) for event in value["traceEvents"]]
    path = tmp_path / "rank-0.json"
    path.write_text(json.dumps({**value, "traceEvents": ordered}), encoding="utf-8")
    (piece,) = gather(path).pieces
    assert len(piece.kernels) == 30
    assert piece.remarks == []


def test_the_command_prints_the_rank(tmp_path, capsys):
    put(tmp_path, r5={"pace": 1.3})
    assert guard.run(["diagnose", str(tmp_path), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [one["part"] for one in answer["verdict"]] == ["rank 5"]
    assert answer["unknown"] is False
