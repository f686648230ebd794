"""Input that was written to break readers: each ends at once with exit code 2 and one message, never with a fault."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from railyard.face.cli import guard

FUZZ = Path(__file__).parents[1] / "fuzz" / "bases"

PLAIN = """
name: plain
cluster: {accelerators: 16, server: hgx-h100}
workload: {training: {model: llama-3.2-1b, global_batch: 16, sequence: 512, tokens: 1 B, parallelism: {dp: 16}}}
"""

SERVING = """
name: served
cluster: {accelerators: 8, server: hgx-h100}
workload:
  serving:
    model: llama-3-8b
    requests: {rate: 1/s, duration: 10 s, input: 100, output: 10}
    pools: {all: {role: both, replicas: 1, parallelism: {tp: 1}}}
    ep: 3
"""

# Matrices of flows with triggers, faults and settings under which packets were once sent for ever.
TRIGGERED = """Nodes 16
Connections 10
Triggers 3
1->10 id 1 start 50 size 1000
12->14 id 2 start 0 size 50000
15->1 id 3 start 1 size 4086
6->13 id 4 start 0 size 63 recv_done_trigger 1
4->6 id 5 trigger 1 size 100 recv_done_trigger 2
0->15 id 6 trigger 2 size 50000
0->9 id 7 start 0 size 50000 send_done_trigger 3
15->4 id 8 trigger 3 size 2
2->1 id 9 start 0 size 4087
10->7 id 10 start 0 size 100
trigger id 1 oneshot
trigger id 2 oneshot
trigger id 3 oneshot
"""
STARTS = [50, 0, 1, 0, 0, 0, 0, 0, 0, 2.5, 2.5, 50, 1, 50, 0, 1, 0, 2.5, 2.5, 0]
SOURCES = [8, 8, 7, 8, 12, 15, 4, 6, 12, 5, 0, 10, 12, 13, 12, 8, 5, 14, 13, 7]
SIZES = [4087, 10000, 2, 4086, 100, 2, 1, 200000, 200000, 4086, 100, 63, 200000, 2, 50000, 1000, 100, 63, 200000, 2]
INCAST = "Nodes 16\nConnections 20\nTriggers 0\n" + "".join(
    f"{source}->11 id {number} start {start} size {size}\n"
    for number, (source, start, size) in enumerate(zip(SOURCES, STARTS, SIZES, strict=True), 1)
)
TRIGGERED_FAULTS = """at,where,event,value
5 us,h0-leaf0,rate,0.001
20 us,leaf0,down,
20 us,leaf0,up,
1 us,leaf0,errors,1e-4
20 us,h1,down,
23 us,h1,up,
"""
INCAST_FAULTS = """at,where,event,value
20 us,leaf0,errors,1e-9
5 us,h1,rate,1
1 us,*,errors,1e-4
5 us,leaf0,errors,1e-9
"""
UEC = ("reroute=50 us", "hpcc_eta=0.01", "link_credit_lanes=4", "rdma_ack_packets=1", "link_latency=1 ns")


@pytest.fixture
def plain(tmp_path):
    path = tmp_path / "plain.yaml"
    path.write_text(PLAIN, encoding="utf-8")
    return path


def refused(capsys, *arguments):
    assert guard.run([str(one) for one in arguments]) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value", "named"),
    [
        ("--set", "mtuu=3", "--set mtuu: unknown key"),
        ("--set", "mtu_bytes=x", "--set mtu_bytes: `x` is not a size"),
        ("--set", "mtu_bytes", "--set: an assignment is key=value"),
        ("--set", "mtu_bytes=20", "--set mtu_bytes: packets have no room"),
        ("--set", "congestion_control=dcqcn", "--set congestion_control: the transport uec"),
        ("--link-rate", "4x", "--link-rate: unknown unit `x`"),
        ("--set", "link_rate=4x", "--set link_rate: unknown unit `x`"),
    ],
)
def test_packet_names_the_option_that_is_wrong(option, value, named, tmp_path, capsys):
    flows = tmp_path / "one.cm"
    flows.write_text("Nodes 4\nConnections 1\n0->1 id 1 start 0 size 100000\n", encoding="utf-8")
    assert named in refused(capsys, "packet", "--traffic", flows, option, value)


@pytest.mark.parametrize("value", ["\udcff\udcfe", "\ud800"])
def test_letters_that_are_none(plain, capsys, value):
    assert "is no UTF-8" in refused(capsys, "run", plain, "--set", f"name={value}")


def test_a_file_with_half_a_letter(plain, capsys):
    plain.write_bytes(PLAIN.encode().replace(b"plain", b"pl\xed\xa0\x80ain"))
    assert "is not UTF-8 text" in refused(capsys, "run", plain)
    plain.write_text(PLAIN.replace("name: plain", 'name: "\\ud800"'), encoding="utf-8")
    assert "plain.yaml:2" in refused(capsys, "run", plain)


def test_a_hundred_thousand_brackets(tmp_path, capsys):
    path = tmp_path / "deep.json"
    path.write_text("[" * 100_000, encoding="utf-8")
    assert "this is no complete JSON" in refused(capsys, "explain", path)
    assert "nested" in refused(capsys, "run", path)


def test_a_key_of_five_hundred_letters(plain, capsys):
    assert "unknown key" in refused(capsys, "run", plain, "--set", f"{'k' * 500}=1")


@pytest.mark.parametrize("number", [str(1 << 64), str(-(1 << 63) - 1), "9" * 400, "1e400", ".inf", ".nan"])
def test_numbers_that_no_register_holds(plain, capsys, number):
    for key in ("seed", "workload.training.global_batch", "cluster.accelerators"):
        assert key in refused(capsys, "run", plain, "--set", f"{key}={number}")


@pytest.mark.parametrize("cells", ["{long},1,1000", "1,{long},1000", "1,0,{long}"])
def test_a_cell_longer_than_readers_take(tmp_path, capsys, cells):
    path = tmp_path / "flows.csv"
    path.write_text(f"source,target,size_bytes\n{cells.format(long='7' * 200_000)}\n", encoding="utf-8")
    said = refused(capsys, "packet", "--traffic", path, "--fabric", "roce", "--set", "hosts=16")
    assert "flows.csv:2" in said
    assert len(said) < 2000


def test_words_that_are_spelt_almost_right(plain, capsys):
    assert "did you mean `H100`?" in refused(capsys, "catalog", "show", "h1oo")
    said = refused(capsys, "run", plain, "--set", "server=h100")
    assert "did you mean `dgx-h100` or `hgx-h100`?" in said


def test_a_wrong_key_is_pointed_at_where_it_stands(tmp_path, capsys):
    path = tmp_path / "served.yaml"
    path.write_text(SERVING, encoding="utf-8")
    said = refused(capsys, "run", path)
    line = 1 + SERVING.splitlines().index("    ep: 3")
    assert f"served.yaml:{line}:" in said
    assert "workload.serving.ep" in said


@pytest.mark.parametrize(
    ("traffic", "faults", "fabric", "sets"),
    [(TRIGGERED, TRIGGERED_FAULTS, "roce", ("switching=lossy",)), (INCAST, INCAST_FAULTS, "uec", UEC)],
)
def test_a_run_that_comes_to_nothing_ends(tmp_path, traffic, faults, fabric, sets):
    """Bit errors of 1e-4 let no packet of 4 kB through: a run without end says so, or it finishes."""
    (tmp_path / "flows.cm").write_text(traffic, encoding="utf-8")
    (tmp_path / "faults.csv").write_text(faults, encoding="utf-8")
    named = ["--traffic", "flows.cm", "--faults", "faults.csv", "--fabric", fabric, "--seed", "1", "--json"]
    options = [word for one in sets for word in ("--set", one)]
    ended = subprocess.run(
        [sys.executable, "-m", "railyard", "packet", *named, *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert ended.returncode in (0, 1), ended.stderr
    if ended.returncode == 0:
        found = json.loads(ended.stdout)
        assert found["finished"] == found["flows"]
    else:
        assert ended.stderr.startswith("error: ")


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        (("check",), "check"),
        (("operate", "scenario"), "workload"),
        (("plan", "serving"), "workload"),
        (("place", "--nodes", "FILE"), "workload"),
    ],
)
def test_a_section_that_a_command_needs_is_asked_for_in_the_file(arguments, key, tmp_path, capsys):
    file = tmp_path / "served.yaml"
    file.write_text((FUZZ / "serving.yaml").read_text("utf-8"), encoding="utf-8")
    said = refused(capsys, *(str(file) if word == "FILE" else word for word in arguments), str(file))
    assert f"error: {key}" in said
    assert f"--> {file}:{3 if key == 'workload' else 1}:" in said
