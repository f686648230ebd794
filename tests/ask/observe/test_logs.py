"""Logs and counters: what each format says, by hand; spoilt ones are refused or named, and nothing else happens."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from railyard.ask.observe.diagnose import diagnose
from railyard.ask.observe.gather import gather
from railyard.ask.observe.summary import observed
from railyard.face.cli import guard
from railyard.kit.errors import InputError

TABLE = """# nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20
# Collective test starting: all_reduce_perf
#  Rank  0 Group  0 Pid  10 on  node-a device  0 [0x1b] NVIDIA H100
#  Rank  1 Group  0 Pid  11 on  node-b device  0 [0x1b] NVIDIA H100
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1    50.00   20.97   20.97      0    52.00   20.16   20.16      0
     2097152        524288     float     sum      -1    80.00   26.21   26.21      0    82.00   25.57   25.57    N/A
     4194304       1048576     float     sum
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 23.2275
"""
WIDER = (
    TABLE.replace("busbw #wrong", "busbw #wrong i_min i_max")
    .replace("20.97      0", "20.97      0  48.0  55.0")
    .replace("20.16      0", "20.16      0  50.0  60.0")
    .replace("26.21      0", "26.21  0 1 2")
    .replace("25.57    N/A", "25.57 N/A 1 2")
)
JSON = {
    "version": 2,
    "config": {"devices": [{"rank": rank, "hostname": f"n{rank // 8}"} for rank in range(16)], "validation": 1},
    "results": [
        {
            "size": 1024,
            "count": 256,
            "type": "float",
            "out_of_place": {"time": 20, "alg_bw": 0.05, "bus_bw": 0.09375, "nwrong": 0},
        },
        {"size": "broken"},
    ],
}
INSPECTOR = {
    "header": {"id": "0x7f", "comm_name": "DP 0", "rank": 2, "n_ranks": 8, "nnodes": 1},
    "metadata": {"inspector_output_format_version": "v4.0", "hostname": "h"},
    "coll_perf": {"coll": "AllReduce", "coll_sn": 7, "coll_msg_size_bytes": 1 << 20, "coll_exec_time_us": 100,
                  "coll_timing_source": "kernel_gpu", "coll_algobw_gbs": 10.5, "coll_busbw_gbs": 18.35},
}  # fmt: skip
DEBUG = """node1:100:200 [0] NCCL INFO comm 0x55aa rank 0 nranks 4 cudaDev 0 busId 1000 commId 0xfeed - Init COMPLETE
node1:100:200 [0] NCCL INFO Channel 00/02 :    0   2   1   3
node1:100:200 [0] NCCL INFO Trees [0] 1/-1/-1->0->2 [1] -1/-1/-1->0->1
node1:100:200 [0] NCCL INFO Channel 01/0 : 3[3] -> 0[0] [receive] via NET/IB/1/GDRDMA
node1:100:200 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
node1:100:200 [0] misc/socket.cc:50 NCCL WARN Call to bind failed: in use
"""
PERFQUERY = """# Port counters: Lid 6 port 5 (CapMask: 0x1300)
PortSelect:......................5
CounterSelect:...................0x0000
SymbolErrorCounter:..............1234
LinkDownedCounter:...............3
PortXmitWait:....................900000
"""
ERRORS = """Errors for 0x200003 "leaf1"
   GUID 0x200003 port ALL: [SymbolErrorCounter == 1234] [PortXmitWait == 900000]
   GUID 0x200003 port 5: [SymbolErrorCounter == 1234] [LinkDownedCounter == 3] [PortXmitWait == 900000]

## Summary: 22 nodes checked, 1 bad nodes found
"""
EXPOSED = """# HELP node_infiniband_symbol_error_total Number of minor link errors
# TYPE node_infiniband_symbol_error_total counter
node_infiniband_symbol_error_total{device="mlx5_0",instance="n1",port="1"} 2
node_infiniband_symbol_error_total{device="mlx5_0",instance="n2",port="1"} 5e6
node_infiniband_symbol_error_total{device="mlx5_0",instance="n3",port="1"} 3
DCGM_FI_DEV_XID_ERRORS{gpu="3",UUID="GPU-1",Hostname="n2"} 0
node_infiniband_port_transmit_wait_total{device="mlx5_0",instance="n1",port="1"} NaN
"""
SONIC = {
    "COUNTERS_PORT_NAME_MAP": {"type": "hash", "value": {"Ethernet0": "oid:0x1"}},
    "COUNTERS:oid:0x1": {
        "type": "hash",
        "value": {"SAI_PORT_STAT_PFC_3_RX_PKTS": "77", "SAI_PORT_STAT_IF_IN_ERRORS": "5"},
    },
}
OTLP = {
    "resourceMetrics": [
        {
            "resource": {"attributes": [{"key": "host.name", "value": {"stringValue": "leaf7"}}]},
            "scopeMetrics": [
                {
                    "metrics": [
                        {
                            "name": "if_in_errors",
                            "sum": {
                                "dataPoints": [
                                    {
                                        "asInt": "41",
                                        "attributes": [{"key": "interface", "value": {"stringValue": "Ethernet4"}}],
                                    }
                                ]
                            },
                        }
                    ]
                }
            ],
        }
    ]
}
SFLOW = "CNTR,10.0.0.1,17,6,400000000000,1,3,1000,20,0,0,4,55,0,2000,30,0,0,6,7,0\nCNTR,10.0.0.1,18,6\n"
RAS = """NCCL version 2.26.2 compiled with CUDA 12.6

Job summary
===========

Communicators... (0.00s)
=============

Warnings
========

#0-0 (fa93daea854b060b) MISMATCH
  Communicator ranks have different AllGather operation counts
  30 ranks have launched up to operation 641
  2 ranks have launched up to operation 640
  Rank 12 -- GPU 4 managed by process 323032 on node 10.137.190.124
  Rank 13 -- GPU 5 managed by process 323033 on node 10.137.190.124
"""
SAMPLES = {
    "all_reduce_perf.log": TABLE,
    "t.json": json.dumps(JSON),
    "i.log": json.dumps(INSPECTOR) + "\n" + json.dumps(INSPECTOR),
    "debug.log": DEBUG,
    "perfquery.txt": PERFQUERY,
    "errors.txt": ERRORS,
    "metrics.prom": EXPOSED,
    "sonic.json": json.dumps(SONIC),
    "otlp.json": json.dumps(OTLP),
    "sflow.csv": SFLOW,
    "ras.txt": RAS,
}


def piece(folder, name, text=None):
    (folder / name).write_text(SAMPLES[name] if text is None else text, encoding="utf-8")
    (found,) = gather(folder / name).pieces
    return found


def test_a_table_of_nccl_tests(tmp_path):
    found = piece(tmp_path, "all_reduce_perf.log")
    assert [(one.kind, one.size_bytes, one.ranks, one.hosts) for one in found.timings] == [
        ("all_reduce", 1 << 20, 2, 2),
        ("all_reduce", 1 << 20, 2, 2),
        ("all_reduce", 1 << 21, 2, 2),
        ("all_reduce", 1 << 21, 2, 2),
    ]
    assert [one.seconds for one in found.timings] == pytest.approx([50e-6, 52e-6, 80e-6, 82e-6])
    assert found.timings[1].busbw_bps == pytest.approx(8 * 20.16e9)
    assert any("1 rows are cut off" in remark for remark in found.remarks)


def test_more_columns_of_newer_versions(tmp_path):
    found = piece(tmp_path, "all_reduce_perf.log", WIDER)
    assert [one.seconds for one in found.timings] == pytest.approx([50e-6, 52e-6, 80e-6, 82e-6])


def test_json_of_nccl_tests_says_its_kind_by_the_factor(tmp_path):
    """0.09375 / 0.05 = 2 x 15 / 16: an all-reduce of 16 ranks."""
    (one,) = piece(tmp_path, "t.json").timings
    assert (one.kind, one.ranks, one.hosts, one.seconds) == ("all_reduce", 16, 2, pytest.approx(20e-6))


def test_lines_of_the_inspector(tmp_path):
    found = piece(tmp_path, "i.log", json.dumps(INSPECTOR) + "\n{broken\n" + json.dumps(INSPECTOR, indent=1))
    assert len(found.timings) == 2
    one = found.timings[0]
    assert (one.kind, one.group, one.rank, one.ranks, one.seconds) == ("all_reduce", "DP 0", 2, 8, pytest.approx(1e-4))


def test_rings_trees_and_nics_of_a_debug_log(tmp_path):
    found = piece(tmp_path, "debug.log")
    ring = [(one.source, one.target) for one in found.edges if one.pattern == "ring"]
    assert ring == [(0, 2), (2, 1), (1, 3), (3, 0)]
    tree = [(one.channel, one.source, one.target) for one in found.edges if one.pattern == "tree"]
    assert tree == [(0, 1, 0), (0, 0, 2), (1, 0, 1)]
    via = [(one.channel, one.source, one.target, one.via) for one in found.edges if one.via]
    assert via == [(1, 3, 0, "NET/IB/1/GDRDMA"), (0, 0, 1, "P2P/CUMEM")]
    assert {one.group for one in found.edges} == {"0xfeed"}
    assert found.world == 4
    assert "bind failed" in found.remarks[0]


@pytest.mark.parametrize(
    ("name", "part", "counter", "value"),
    [
        ("perfquery.txt", "lid 6 port 5", "SymbolErrorCounter", 1234),
        ("errors.txt", "leaf1 port 5", "LinkDownedCounter", 3),
        ("metrics.prom", "n2 mlx5_0 port 1", "node_infiniband_symbol_error_total", 5e6),
        ("sonic.json", "Ethernet0", "SAI_PORT_STAT_PFC_3_RX_PKTS", 77),
        ("otlp.json", "leaf7 Ethernet4", "if_in_errors", 41),
        ("sflow.csv", "10.0.0.1 interface 17", "ifInErrors", 55),
    ],
)
def test_counters(tmp_path, name, part, counter, value):
    assert (part, counter, value) in [(one.part, one.name, one.value) for one in piece(tmp_path, name).counts]


def test_a_port_with_far_more_errors_is_named_and_one_that_waits_is_not(tmp_path):
    piece(tmp_path, "metrics.prom")
    answer = diagnose(tmp_path / "metrics.prom")
    assert [(one.part, one.kind) for one in answer.verdict] == [("n2 mlx5_0 port 1", "nic")]
    piece(tmp_path, "sonic.json")
    answer = diagnose(tmp_path / "sonic.json")
    assert (answer.verdict, answer.unknown) == ([], True)
    assert any("downstream" in note for note in answer.notes)


def test_switches_of_the_same_ports_are_named_by_their_folders(tmp_path, capsys):
    """Five switches whose files name no switch; port Ethernet0 of two of them errs."""
    for number, errors in enumerate(("9123", "9123", "0", "0", "0")):
        leaf = f"be-leaf{number}"
        (tmp_path / leaf).mkdir()
        values = {"SAI_PORT_STAT_IF_IN_ERRORS": errors, "SAI_PORT_STAT_PFC_3_RX_PKTS": "0"}
        (tmp_path / leaf / "counters.json").write_text(json.dumps(SONIC | {"COUNTERS:oid:0x1": {"value": values}}))
    answer = diagnose(tmp_path)
    assert [one.part for one in answer.verdict] == ["be-leaf0 Ethernet0", "be-leaf1 Ethernet0"]
    assert guard.run(["observe", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith(
        "2 of 10 counters are not zero; the largest is SAI_PORT_STAT_IF_IN_ERRORS at be-leaf0"
    )


def test_ranks_behind_in_a_text_of_ras(tmp_path):
    piece(tmp_path, "ras.txt")
    answer = diagnose(tmp_path / "ras.txt")
    assert [one.part for one in answer.verdict] == ["rank 12", "rank 13"]
    ahead = RAS.replace("30 ranks have launched up to operation 641", "30 ranks have launched up to operation 639")
    (tmp_path / "ahead.txt").write_text(ahead, encoding="utf-8")
    answer = diagnose(tmp_path / "ahead.txt")
    assert (answer.verdict, answer.unknown) == ([], True)


def test_measured_against_expected(tmp_path, capsys):
    """busbw = 2 x 15 / 16 x size / time; a cluster of 16 expects something of the same order."""
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(
        "cluster: {accelerators: 16, server: hgx-h100, back_end: {topology: rail-optimized, fabric: infiniband}}\n",
        encoding="utf-8",
    )
    log = tmp_path / "log.json"
    rows = [{"size": 1 << 28, "out_of_place": {"time": 1500, "alg_bw": 178.96, "bus_bw": 335.5, "nwrong": 0}}]
    log.write_text(json.dumps({**JSON, "results": rows}), encoding="utf-8")
    record, figures = observed(log, cluster)
    assert record is None
    (row,) = figures["timings"]
    assert row["expected_busbw_bps"] == pytest.approx(8 * 2 * 15 / 16 * 2**28 / row["expected_s"])
    assert 0.3 < row["measured_over_expected"] < 3
    assert guard.run(["observe", str(log), "--cluster", str(cluster)]) == 0
    assert "all_reduce" in capsys.readouterr().out


LONG = "1" * 5000


@pytest.mark.parametrize("number", ["\u00b2", "9" * 21, "9" * 400, LONG])
@pytest.mark.parametrize(
    ("name", "spoilt"),
    [
        ("all_reduce_perf.log", "1048576"),
        ("debug.log", "00/02"),
        ("debug.log", "1/-1/-1->0->2"),
        ("debug.log", "nranks 4"),
        ("debug.log", "3[3]"),
        ("perfquery.txt", "1234"),
        ("errors.txt", "1234"),
        ("otlp.json", "41"),
        ("sonic.json", "77"),
        ("sflow.csv", "400000000000"),
        ("ras.txt", "641"),
    ],
)
def test_a_number_that_no_program_prints_is_no_fault_of_ours(tmp_path, name, spoilt, number):
    """Digits of other scripts, and counts beyond 64 bits: the line is left out, or the file is refused by name."""
    text = SAMPLES[name]
    assert spoilt in text
    (tmp_path / name).write_text(text.replace(spoilt, number + spoilt.lstrip("0123456789")), encoding="utf-8")
    assert guard.run(["observe", str(tmp_path)]) in (0, 2)
    assert guard.run(["diagnose", str(tmp_path)]) in (0, 2)


@pytest.mark.parametrize("gpus", ["x", 10**400, -1])
def test_a_count_of_gpus_that_is_none_is_not_known(tmp_path, gpus):
    spoilt = {**JSON, "config": {"ngpus": gpus}}
    (tmp_path / "t.json").write_text(json.dumps(spoilt), encoding="utf-8")
    _, figures = observed(tmp_path / "t.json", None)
    assert {row["ranks"] for row in figures["timings"]} <= {0, None}


@pytest.mark.parametrize("name", ["all_reduce_perf.log", "i.log", "debug.log"])
def test_logs_that_say_of_no_part_whether_it_is_well_are_not_called_wrong(tmp_path, capsys, name):
    (tmp_path / name).write_text(SAMPLES[name], encoding="utf-8")
    assert guard.run(["diagnose", str(tmp_path / name)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "railyard observe" in printed.err


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(sorted(SAMPLES)),
    cut=st.floats(0, 1),
    spoils=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=12),
)
def test_spoilt_files_are_refused_by_name_and_nothing_else(tmp_path, name, cut, spoils):
    data = bytearray(SAMPLES[name].encode())
    for place, byte in spoils:
        data[int(place * (len(data) - 1))] = byte
    (tmp_path / name).write_bytes(bytes(data[: 1 + int(cut * len(data))]))
    try:
        diagnose(tmp_path / name)
        observed(tmp_path / name)
    except InputError:
        return
