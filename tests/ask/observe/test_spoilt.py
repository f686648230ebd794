"""Spoilt traces: what is left of them is read, what is not is named."""

import gzip
import json
import os
import re
import struct
from pathlib import Path

import pytest

from railyard.ask.observe.diagnose import diagnose
from railyard.ask.observe.gather import gather
from railyard.ask.observe.kernels import PHASES
from railyard.ask.observe.measured import RankClock, odd
from railyard.ask.observe.readers.chakra import recognises
from railyard.kit.errors import InputError

NAME = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"


def trace(rank, world=4, shift=0.0):
    events = []
    for step in range(6):
        at = 1000.0 * step + shift
        args = {"stream": 9, "Process Group Name": "0", "In msg nelems": 1000, "dtype": "Float", "Seq": step}
        events.append({"ph": "X", "cat": "kernel", "name": "gemm", "ts": at, "dur": 300.5, "args": {"stream": 7}})
        events.append({"ph": "X", "cat": "kernel", "name": NAME, "ts": at + 400, "dur": 500.0, "args": args})
    about = {"rank": rank, "world_size": world, "pg_config": [{"pg_name": "0", "ranks": list(range(world))}]}
    return json.dumps({"schemaVersion": 1, "distributedInfo": about, "traceEvents": events})


def put(folder, **odd_ones):
    for rank in range(4):
        (folder / f"rank-{rank}.json").write_bytes(odd_ones.get(f"r{rank}", trace(rank).encode()))
    return folder


def remarks(folder):
    return " ".join(gather(folder).remarks)


def test_a_rank_without_a_trace_is_missing_by_number(tmp_path):
    put(tmp_path, r2=b"")
    assert "of 4 ranks 3 have a trace; missing: 2" in remarks(tmp_path)


def test_a_mark_before_text_is_passed_over(tmp_path):
    put(tmp_path, r1=b"\xef\xbb\xbf" + trace(1).encode())
    assert remarks(tmp_path) == ""
    assert len(gather(tmp_path).pieces) == 4


def test_what_stands_behind_a_compressed_trace_does_no_harm(tmp_path):
    put(tmp_path, r1=gzip.compress(trace(1).encode()) + b"junk")
    assert [len(piece.kernels) for piece in gather(tmp_path).pieces] == [12] * 4


def test_a_compressed_trace_is_read_up_to_where_it_is_cut(tmp_path):
    text = re.sub("gemm", lambda _: f"gemm{os.urandom(3000).hex()}", trace(1))
    put(tmp_path, r1=gzip.compress(text.encode())[:-9000])
    piece = next(one for one in gather(tmp_path).pieces if one.rank == 1)
    assert 1 <= len(piece.kernels) < 12
    assert "middle of an event" in piece.remarks[0]


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("1e999", "6 kernels have no usable time"),
        ("-3.0", "6 kernels have no usable time"),
        ("1NaN", "an event is damaged"),
    ],
)
def test_times_that_are_none_are_counted(tmp_path, word, said):
    put(tmp_path, r1=trace(1).replace("300.5", word).encode())
    assert said in remarks(tmp_path)


def test_clocks_that_are_far_off_are_named(tmp_path):
    put(tmp_path, r3=trace(3, shift=3.6e9).encode())
    answer = diagnose(tmp_path)
    assert answer.verdict == []
    assert any("rank 3 by +3,600.0 s" in words for words in answer.notes)
    assert odd({0: RankClock(0, 0, 0), 1: RankClock(5, 1, 3), 2: RankClock(0, -1, 0)}) == [
        "no collective shared with other ranks, so clocks are not aligned: rank 2"
    ]


class Hostile:
    def __reduce__(self):
        return os.system, ("exit 7",)


# NCCL RAS: ranks that are dead, silent or behind; states with broken commas.


def state(counts, missing=()):
    ranks = [{"rank": rank, "host": "n1", "collective_counts": {"AllReduce": n}} for rank, n in enumerate(counts)]
    return {
        "nccl_version": "2.28.9",
        "communicators": [{"hash": "0xa", "ranks": ranks, "missing_ranks": list(missing)}],
    }


def ras_put(folder, *states):
    for number, one in enumerate(states):
        text = one if isinstance(one, str) else json.dumps(one)
        (folder / f"ras-{number}.json").write_text(text, encoding="utf-8")
    return diagnose(folder)


def named(answer):
    return [(one.part, one.confidence) for one in answer.verdict]


@pytest.mark.parametrize(
    ("missing", "confidence"),
    [
        ({"rank": 3, "status": {"unresponsive": True, "considered_dead": True}}, 0.95),
        ({"rank": 3, "unresponsive": True, "considered_dead": False}, 0.8),
    ],
)
def test_missing_ranks(tmp_path, missing, confidence):
    assert named(ras_put(tmp_path, state([5, 5, 5], [missing]))) == [("rank 3", confidence)]


def test_a_rank_that_is_behind_is_surer_when_nothing_grows(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert named(ras_put(tmp_path / "a", state([9, 9, 8, 9]))) == [("rank 2", 0.5)]
    assert named(ras_put(tmp_path / "b", state([9, 9, 8, 9]), state([9, 9, 8, 9]))) == [("rank 2", 0.9)]


def test_equal_counts_name_nobody_and_halves_are_unknown(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    even = ras_put(tmp_path / "a", state([9, 9, 9]))
    assert (even.verdict, even.unknown) == ([], False)
    halves = ras_put(tmp_path / "b", state([9, 9, 8, 8]))
    assert (halves.verdict, halves.unknown) == ([], True)


def test_broken_commas_and_a_banner_are_passed_over(tmp_path):
    text = json.dumps(state([4, 4, 3, 4])).replace("}, {", "} {").replace("]}]}", "],}]}")
    assert named(ras_put(tmp_path, "SERVER PROTOCOL 2\nOK\n" + text)) == [("rank 2", 0.5)]
    assert any("commas" in remark for remark in gather(tmp_path).remarks)


def test_what_is_no_state_is_refused(tmp_path):
    with pytest.raises(InputError, match="could be read"):
        ras_put(tmp_path, '{"communicators": 3}')


@pytest.mark.parametrize(
    ("file", "ranks", "unknown"),
    [
        ("nccl-issue-1730.txt", [], False),
        ("nccl-issue-1911.txt", [], True),
        ("ray-dead-rank.json", ["rank 1"], False),
        ("ray-three-communicators.json", ["rank 1"], False),
    ],
)
def test_captures_of_public_repositories(file, ranks, unknown):
    """Of NCCL's issues and of Ray's tests; two ranks one call ahead of thirty name nobody."""
    answer = diagnose(Path(__file__).parent / "data" / "captures" / file)
    assert [one.part for one in answer.verdict] == ranks
    assert answer.unknown is unknown
    if unknown:
        assert "ahead: rank 12, 13" in " ".join(answer.notes)


def test_one_ahead_of_one_is_unknown_and_seven_are_not(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert ras_put(tmp_path / "a", state([9, 8])).unknown
    assert named(ras_put(tmp_path / "b", state([10, 3]))) == [("rank 1", 0.5)]


# sFlow datagrams against what tcpdump prints of the same capture, and Chakra traces as timelines by hand.

HERE = Path(__file__).parent


def counts(path):
    return {(one.where, one.port, one.name): one.value for one in gather(path).pieces[0].counts}


def test_a_capture_says_what_tcpdump_prints_of_it():
    """Last values of an interface in tcpdump's tests/sflow_multiple_counter_30_pdus.out; by hand all 752 were equal."""
    found = counts(HERE / "data" / "sflow-counters.pcap")
    assert len(found) == 1034
    last = {name: value for (where, port, name), value in found.items() if (where, port) == LAST[0]}
    assert {name: last[name] for name in LAST[1]} == LAST[1]


LAST = (("15.184.8.4", "interface 57"), {"ifInOctets": 3051593057.0, "ifOutOctets": 1525716840.0, "ifInErrors": 0.0,
                                         "dot3StatsFCSErrors": 0.0, "dot3StatsSymbolErrors": 0.0})  # fmt: skip


def record(kind, words):
    body = b"".join(words)
    return struct.pack(">II", kind, len(body)) + body


def datagram(octets=7 << 33, errors=3, *, expanded=False):
    words = struct.pack(">IIQIIQ6IQ6I", 5, 6, 10**11, 1, 3, octets, 0, 0, 0, 0, errors, 0, 9, 0, 0, 0, 2**32 - 1, 4, 0)
    sample = struct.pack(">I", 8) + (struct.pack(">II", 0, 5) if expanded else struct.pack(">I", 5))
    sample += struct.pack(">I", 2) + record(1, [words]) + record(2, [struct.pack(">13I", 1, 2, *[0] * 10, 77)])
    flow = record(1, [b"\0" * 24])
    head = struct.pack(">II4sIIII", 5, 1, bytes([10, 0, 0, 9]), 0, 1, 2, 2)
    return head + flow + record(4 if expanded else 2, [sample])


@pytest.mark.parametrize("expanded", [False, True])
def test_one_datagram_by_hand(tmp_path, expanded):
    """Discards that the agent does not count are all ones: they are no number."""
    path = tmp_path / "sflow.raw"
    path.write_bytes(datagram(1, 0) + datagram(expanded=expanded))
    assert counts(path) == {
        ("10.0.0.9", "interface 5", "ifInOctets"): float(7 << 33),
        ("10.0.0.9", "interface 5", "ifInDiscards"): 0.0,
        ("10.0.0.9", "interface 5", "ifInErrors"): 3.0,
        ("10.0.0.9", "interface 5", "ifOutOctets"): 9.0,
        ("10.0.0.9", "interface 5", "ifOutErrors"): 4.0,
        ("10.0.0.9", "interface 5", "dot3StatsAlignmentErrors"): 1.0,
        ("10.0.0.9", "interface 5", "dot3StatsFCSErrors"): 2.0,
        ("10.0.0.9", "interface 5", "dot3StatsInternalMacTransmitErrors"): 0.0,
        ("10.0.0.9", "interface 5", "dot3StatsInternalMacReceiveErrors"): 0.0,
        ("10.0.0.9", "interface 5", "dot3StatsSymbolErrors"): 77.0,
    }


@pytest.mark.parametrize("cut", range(0, 230, 17))
def test_datagrams_that_are_cut_off_are_named(tmp_path, cut):
    path = tmp_path / "sflow.raw"
    path.write_bytes(datagram() + datagram()[:cut])
    (piece,) = gather(path).pieces
    assert len(piece.counts) == 10
    assert bool(piece.remarks) == (cut > 0)


def chakra(nodes):
    return json.dumps({"workload_graph": nodes})


def node(number, name, kind, runtime, waits=(), *, on_host=False, **more):
    return {"Id": number, "Name": name, "NodeType": kind, "runtime": runtime, "ctrlDeps": [], "data_deps": list(waits),
            "is_cpu_op": on_host, **more}  # fmt: skip


def test_a_node_runs_when_those_that_it_waits_for_have_ended(tmp_path):
    """10 us on the host, then 5 and 7 on stream 7, a collective of 4 beside them; nodes 6 and 7 wait for each other."""
    path = tmp_path / "trace.3.json"
    nodes = [
        node(1, "aten::mm", 4, 10, on_host=True, tid=1),
        node(2, "gemm", 4, 5, [1], tid=7),
        node(3, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 7, 4, [2], tid=14, comm_size=4096, pg_name="dp"),
        node(4, "gemm", 4, 7, [1], tid=7),
        node(6, "a", 4, 1, [7], tid=7),
        node(7, "b", 4, 1, [6], tid=7),
    ]
    path.write_text(chakra(nodes), encoding="utf-8")
    (piece,) = gather(path).pieces
    assert piece.rank == 3
    found = piece.kernels
    rows = {found.words[name]: (start // 1000, took // 1000) for name, start, took in
            zip(found.name, found.start_ns, found.duration_ns, strict=True)}  # fmt: skip
    assert rows["ncclDevKernel_AllReduce_Sum_f32_RING_LL"] == (15, 4)
    assert rows["gemm"] == (15, 7)
    assert "aten::mm" not in rows
    assert len(found) == 5
    talk = int(found.communicates.argmax())
    assert found.words[found.kind[talk]] == "all_reduce"
    assert found.words[found.group[talk]] == "dp"
    assert int(found.size_bytes[talk]) == 4096
    assert PHASES[int(found.phase[0])] == "compute"


def test_protocol_buffers_are_read_by_their_ending(tmp_path):
    schema = (
        pytest.importorskip("google.protobuf")
        and __import__("railyard.work.trace.chakra_protobuf", fromlist=["schema"]).schema()
    )
    message = schema.node(id=4, name="gemm", type=4, duration_micros=12)
    body, data = message.SerializeToString(), schema.metadata(version="0.0.4").SerializeToString()
    path = tmp_path / "x.0.et"
    path.write_bytes(bytes([len(data)]) + data + bytes([len(body)]) + body)
    assert gather(path).pieces[0].kernels.duration_ns.tolist() == [12_000]
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(InputError, match="ends within"):
        gather(path)
    assert not recognises("trace.json", b'{"traceEvents": []}')
