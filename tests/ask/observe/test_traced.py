"""Traces of many ranks: what is slow on which rank, in which steps, and what that says of the part; and nobody else."""

import json

import numpy as np
import pytest

from railyard.ask.observe.answer import cluster_of, traced_usd_per_hour
from railyard.ask.observe.diagnose import diagnose
from railyard.ask.observe.gather import gather
from railyard.ask.observe.measured import record_of
from railyard.face.cli import guard

REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"
KERNELS = (("gemm", 300.0), ("flash_fwd_kernel", 100.0), ("grouped_gemm", 60.0), ("rmsnorm", 40.0))
STEPS = 10


def trace(rank, world, *, slow=(), pace=1.0, kinds=(), late_us=0.0, steps=None, groups=(), wire_us=100.0, first=None):
    """Ten steps of four kernels, three times each, and an all-reduce over all ranks and one per smaller group.

    Args:
        slow: Steps in which all that follows happens; none: all.
        pace: Factor on kernels of some kinds; of all where none is named.
        late_us: The host launches the all-reduce so much later.
        steps: How many are traced.
        groups: Name and members of smaller groups, and factor on their time; they come before the other.
        wire_us: How long an all-reduce takes.
        first: Number of the first step as the profiler marks it; None: unmarked.
    """
    rng = np.random.default_rng(rank)
    events, at = [], 0.0
    every = list(range(world))

    def put(name, took, stream, **args):
        nonlocal at
        event = {"ph": "X", "cat": "kernel", "name": name, "ts": round(at, 3), "dur": round(took, 3)}
        events.append({**event, "args": {"stream": stream, "device": rank % 8, "correlation": len(events), **args}})
        at += took

    def talk(name, ranks, took):
        args = {"Process Group Name": name, "Process Group Ranks": str(ranks), "In msg nelems": 1000, "dtype": "Float"}
        put(REDUCE, took, 9, **args)

    for step in range(STEPS if steps is None else steps):
        begin, odd = at, not slow or step in slow
        for name, took in KERNELS * 3:
            factor = pace if odd and (not kinds or name in kinds) else 1.0
            put(name, took * factor * (1 + 0.002 * rng.standard_normal()), 7)
        at += late_us if odd else 0.0
        for name, ranks, factor in groups:
            talk(name, ranks, wire_us * (factor if odd else 1.0) * (1 + 0.01 * rng.standard_normal()))
        talk("0", every, max(begin + 3400 - at, wire_us))
        at = begin + 4000
        if first is not None:
            mark = {
                "ph": "X",
                "cat": "user_annotation",
                "name": f"ProfilerStep#{first + step}",
                "ts": begin,
                "dur": 4000,
            }
            events.append(mark)
    return {"schemaVersion": 1, "distributedInfo": {"rank": rank, "world_size": world}, "traceEvents": events}


def put(folder, world=16, ranks=None, every=None, **odd):
    for rank in range(world) if ranks is None else ranks:
        value = trace(rank, world, **{**(every or {}), **odd.get(f"r{rank}", {})})
        (folder / f"rank-{rank}.json").write_text(json.dumps(value), encoding="utf-8")
    return folder


def named(answer):
    return [(one.part, one.kind) for one in answer.verdict]


def test_nothing_is_wrong(tmp_path):
    answer = diagnose(put(tmp_path))
    assert (named(answer), answer.unknown, answer.missing_ranks) == ([], False, [])
    assert answer.notes[0].startswith("16 ranks in 10 steps were compared")


def test_an_accelerator_slows_kernels_of_every_kind(tmp_path):
    answer = diagnose(put(tmp_path, r5={"pace": 1.15}))
    assert named(answer) == [("rank 5", "accelerator")]
    (suspect,) = answer.verdict
    assert "all kernels take 1.15 times" in suspect.evidence
    assert (suspect.pattern, suspect.slow_steps) == ("constant", tuple(range(STEPS)))


@pytest.mark.parametrize(
    ("kernel", "kind"), [("flash_fwd_kernel", "sequences"), ("grouped_gemm", "experts"), ("gemm", "software")]
)
def test_one_kind_alone_is_work_that_is_unevenly_spread(tmp_path, kernel, kind):
    """A third more time in one kind, the others equal: no bad accelerator."""
    answer = diagnose(put(tmp_path, r5={"pace": 1.35, "kinds": [kernel]}))
    assert named(answer) == [("rank 5", kind)]
    assert "1.35 times" in answer.verdict[0].evidence


def test_memory_alone_is_an_accelerator_and_said_so(tmp_path):
    (suspect,) = diagnose(put(tmp_path, r5={"pace": 1.4, "kinds": ["rmsnorm"]})).verdict
    assert (suspect.part, suspect.kind) == ("rank 5", "accelerator")
    assert suspect.evidence.startswith(
        "normalizations take 1.40 times as long as on its peers (other kernels are normal: "
    )


def edited(folder, change):
    for file in folder.iterdir():
        value = json.loads(file.read_text(encoding="utf-8"))
        for event in value["traceEvents"]:
            change(int(file.stem.removeprefix("rank-")), event)
        file.write_text(json.dumps(value), encoding="utf-8")
    return folder


@pytest.mark.parametrize(("kernels", "kind"), [((), "sequences"), (("grouped_gemm",), "experts")])
@pytest.mark.parametrize("factor", [1.3, 1.0])
def test_larger_grids_are_more_work_and_no_bad_accelerator(tmp_path, kernels, kind, factor):
    """All kernels of rank 5 or some take 1.3 times as long: with as many more blocks, or with none more."""

    def grid(rank, event):
        event["args"]["grid"] = [
            round(100 * factor) if rank == 5 and event["name"] in (kernels or event["name"]) else 100
        ]

    put(tmp_path, r5={"pace": 1.3, "kinds": kernels})
    (suspect,) = diagnose(edited(tmp_path, grid)).verdict
    assert (suspect.part, suspect.kind) == ("rank 5", kind if kernels or factor > 1 else "accelerator")
    assert ("1.30 times as many thread blocks" in suspect.evidence) == (factor > 1)


def test_a_rank_whose_kernels_nobody_else_runs_is_not_called_well(tmp_path):
    def rename(rank, event):
        event["name"] += "_fused" if rank == 5 and "nccl" not in event["name"] else ""

    answer = diagnose(edited(put(tmp_path, r5={"pace": 1.3}), rename))
    assert (named(answer), answer.unknown) == ([], True)
    assert answer.notes[0].startswith("the pace of rank 5 is unknown")


@pytest.mark.parametrize(("groups", "said"), [(False, True), (True, False)])
def test_a_network_that_nothing_is_compared_with_is_not_called_well(tmp_path, groups, said):
    halves = [[0, 1, 2, 3, 4, 5, 6, 7], [8, 9, 10, 11, 12, 13, 14, 15]]
    odd = {f"r{rank}": {"groups": [(f"h{half}", halves[half], 1.0)]} for half in (0, 1) for rank in halves[half]}
    answer = diagnose(put(tmp_path, **(odd if groups else {})))
    assert (named(answer), answer.unknown) == ([], False)
    assert ("network speed was not judged" in answer.notes[0]) == said


def test_a_rank_that_is_slow_in_three_of_ten_steps(tmp_path):
    (suspect,) = diagnose(put(tmp_path, r5={"pace": 1.4, "slow": (2, 3, 8)})).verdict
    assert (suspect.part, suspect.kind, suspect.pattern) == ("rank 5", "accelerator", "intermittent")
    assert suspect.slow_steps == (2, 3, 8)


def test_steps_have_the_numbers_that_the_profiler_gave_them(tmp_path):
    put(tmp_path, every={"first": 300}, r5={"pace": 1.4, "slow": (2, 8)})
    assert diagnose(tmp_path).verdict[0].slow_steps == (302, 308)


def test_two_faults_are_both_named(tmp_path):
    put(tmp_path, r2={"late_us": 300.0}, r5={"pace": 1.3, "kinds": ["flash_fwd_kernel"]}, r11={"pace": 1.1})
    found = named(diagnose(tmp_path))
    assert sorted(found) == [("rank 11", "accelerator"), ("rank 2", "host"), ("rank 5", "sequences")]


def test_a_slow_accelerator_costs_what_the_others_wait(tmp_path):
    """15 % of kernels of 1.5 ms in a step of 4 ms, of the price of all of the cluster while it computes that much."""
    cluster = tmp_path / "cluster.yaml"
    back_end = "{topology: {kind: leaf-spine, ports_per_leaf: 16, spines: 4}, fabric: roce}"
    cluster.write_text(f"cluster: {{accelerators: 16, server: hgx-h100, back_end: {back_end}}}", encoding="utf-8")
    (tmp_path / "traces").mkdir()
    (suspect,) = diagnose(put(tmp_path / "traces", r5={"pace": 1.15}), cluster).verdict
    usual = traced_usd_per_hour(cluster_of(cluster), 0.04, 0.375)
    assert suspect.usd_per_hour == pytest.approx(usual * 0.15 * 1500 / 4000, rel=0.05)


def test_a_host_all_of_whose_accelerators_are_slow_is_one_part(tmp_path):
    """Half of all ranks: device numbers say which of them share a host."""
    answer = diagnose(put(tmp_path, **{f"r{rank}": {"pace": 1.2} for rank in range(8, 16)}))
    assert named(answer) == [("server 1", "host")]
    assert "all of its 8 ranks" in answer.verdict[0].evidence


def test_some_slow_accelerators_of_a_host_are_not_the_host(tmp_path):
    answer = diagnose(put(tmp_path, **{f"r{rank}": {"pace": 1.2} for rank in range(8, 12)}))
    assert sorted(named(answer)) == sorted((f"rank {rank}", "accelerator") for rank in range(8, 12))


def test_sequences_of_ranks_that_share_a_batch_are_not_their_host(tmp_path):
    put(tmp_path, **{f"r{rank}": {"pace": 1.4, "kinds": ["flash_fwd_kernel"]} for rank in range(8)})
    assert sorted(named(diagnose(tmp_path))) == sorted((f"rank {rank}", "sequences") for rank in range(8))


def test_sequences_that_differ_from_step_to_step_blame_no_rank(tmp_path):
    """Each rank has longer sequences in one step of ten, another one each time."""
    odd = {f"r{rank}": {"pace": 2.0, "kinds": ["flash_fwd_kernel"], "slow": (rank % STEPS,)} for rank in range(16)}
    assert ("all ranks", "sequences") in named(diagnose(put(tmp_path, **odd)))


def test_a_rank_on_which_nothing_runs_waits_for_its_host(tmp_path):
    answer = diagnose(put(tmp_path, r3={"late_us": 200.0}))
    assert named(answer) == [("rank 3", "host")]
    assert "nothing runs for 0.2 ms" in answer.verdict[0].evidence


def test_one_short_pause_is_an_accident_and_two_are_a_pattern(tmp_path):
    (tmp_path / "once").mkdir()
    (tmp_path / "twice").mkdir()
    assert named(diagnose(put(tmp_path / "once", r3={"late_us": 500.0, "slow": (4,)}))) == []
    (suspect,) = diagnose(put(tmp_path / "twice", r3={"late_us": 500.0, "slow": (4, 6)})).verdict
    assert (suspect.kind, suspect.slow_steps) == ("host", (4, 6))
    assert suspect.confidence < 0.75


def by_rail(number, factor):
    """All-reduces of four ranks of one number on four hosts of four, and of four neighbours on one host."""
    rail, host = number % 4, number // 4
    return [
        (f"rail {rail}", list(range(rail, 16, 4)), factor),
        (f"row {host}", list(range(4 * host, 4 * host + 4)), factor),
    ]


def test_a_group_that_is_slow_says_that_one_of_its_members_is(tmp_path):
    """One of four alike takes twice as long: which of its members, nobody can tell."""
    for rank in range(16):
        group = (f"rail {rank % 4}", list(range(rank % 4, 16, 4)), 3.0 if rank % 4 == 1 else 1.0)
        put(tmp_path, ranks=[rank], every={"groups": [group], "wire_us": 200.0})
    answer = diagnose(tmp_path)
    assert (named(answer), answer.unknown) == ([], True)
    assert "ranks 1, 5, 9, 13" in answer.notes[0]
    assert "3.0" in answer.notes[0]


def test_groups_that_cross_in_one_rank_name_its_way_into_the_network(tmp_path):
    """Rank 6 is in the slow one of four rails and in the slow one of four rows, and nobody else is in both."""
    for rank in range(16):
        groups = [(name, ranks, 3.0 if 6 in ranks else 1.0) for name, ranks, _ in by_rail(rank, 1.0)]
        value = trace(rank, 16, groups=groups, wire_us=200.0)
        for event in value["traceEvents"]:
            event["args"].pop("device")  # so that nobody knows which group leaves a host
        (tmp_path / f"rank-{rank}.json").write_text(json.dumps(value), encoding="utf-8")
    (suspect,) = diagnose(tmp_path).verdict
    assert (suspect.part, suspect.kind) == ("rank 6", "nic")


def test_two_files_of_eight_are_hedged_and_the_missing_named(tmp_path):
    answer = diagnose(put(tmp_path, world=8, ranks=(4, 5), r5={"pace": 1.1}))
    assert answer.missing_ranks == [0, 1, 2, 3, 6, 7]
    assert answer.unknown
    assert all(one.confidence < 0.5 and one.kind == "accelerator" for one in answer.verdict)


def test_files_that_are_missing_leave_health_unknown(tmp_path):
    answer = diagnose(put(tmp_path, ranks=range(12)))
    assert (named(answer), answer.unknown, answer.missing_ranks) == ([], True, [12, 13, 14, 15])
    (suspect,) = diagnose(put(tmp_path, ranks=range(12), r5={"pace": 1.2})).verdict
    full = diagnose(put(tmp_path, ranks=range(12, 16), r5={"pace": 1.2})).verdict[0]
    assert suspect.confidence < full.confidence


def test_a_handful_of_kernels_is_unknown(tmp_path):
    for rank in range(8):
        value = trace(rank, 8, steps=1)
        value["traceEvents"] = value["traceEvents"][:3]
        (tmp_path / f"rank-{rank}.json").write_text(json.dumps(value), encoding="utf-8")
    answer = diagnose(tmp_path)
    assert (named(answer), answer.unknown) == ([], True)
    assert any("no collective" in words for words in answer.notes)


def test_two_steps_do_not_say_that_nothing_is_wrong(tmp_path):
    answer = diagnose(put(tmp_path, every={"steps": 2}))
    assert (named(answer), answer.unknown) == ([], True)


def test_columns_hold_what_the_events_say(tmp_path):
    (piece,) = gather(put(tmp_path, world=1)).pieces
    kernels = piece.kernels
    assert len(kernels) == STEPS * 13
    assert int(kernels.communicates.sum()) == STEPS
    assert kernels.words[kernels.kind[12]] == "all_reduce"
    assert kernels.size_bytes[12] == 4000
    assert kernels.start_ns[13] == 4_000_000
    record = record_of(gather(tmp_path))
    assert record.column("sequence")[record.column("communicator") >= 0].tolist() == list(range(STEPS))
    assert record.column("step").tolist() == [step for step in range(STEPS) for _ in range(13)]


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
    assert len(piece.kernels) == STEPS * 13
    assert piece.remarks == []


def test_the_first_line_says_which_part_how_slow_when_and_how_sure(tmp_path, capsys):
    put(tmp_path, r5={"pace": 1.3, "slow": (1, 4)})
    assert guard.run(["diagnose", str(tmp_path)]) == 0
    first = " ".join(capsys.readouterr().out.partition("\n\n")[0].split())
    assert first.startswith("Rank 5 is to blame (accelerator, ")
    assert " % sure): " in first
    assert "1.30 times as long" in first
    assert "in 2 of 10 steps (1 and 4, counted from 0 to 9)" in first
    assert first.endswith(".")
    assert guard.run(["diagnose", str(tmp_path), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [(one["part"], one["slow_steps"]) for one in answer["verdict"]] == [("rank 5", [1, 4])]
    assert (answer["unknown"], answer["missing_ranks"]) == (False, [])
