"""sFlow datagrams against what tcpdump prints of the same capture, and Chakra traces as timelines by hand."""

import json
import struct
from pathlib import Path

import pytest

from railyard.ask.observe.gather import gather
from railyard.ask.observe.kernels import PHASES
from railyard.ask.observe.readers.chakra import recognises
from railyard.kit.errors import InputError

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
