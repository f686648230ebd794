"""Input that was written to break readers: each ends at once with exit code 2 and one message, never with a fault."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from railyard.face.cli import guard
from railyard.face.cli.commands import command

FUZZ = Path(__file__).parents[2] / "fuzz" / "bases"

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
    assert "is not UTF-8" in refused(capsys, "run", plain, "--set", f"name={value}")


def test_a_file_with_half_a_letter(plain, capsys):
    plain.write_bytes(PLAIN.encode().replace(b"plain", b"pl\xed\xa0\x80ain"))
    assert "is not UTF-8 text" in refused(capsys, "run", plain)
    plain.write_text(PLAIN.replace("name: plain", 'name: "\\ud800"'), encoding="utf-8")
    assert "plain.yaml:2" in refused(capsys, "run", plain)


def test_a_hundred_thousand_brackets(tmp_path, capsys):
    path = tmp_path / "deep.json"
    path.write_text("[" * 100_000, encoding="utf-8")
    assert "this is not complete JSON" in refused(capsys, "explain", path)
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


# Every file that a command reads, in place of it a pipe, a device, a folder, 10 GB of zeros, a file that
# grows.

DATA = Path(__file__).parents[2] / "ask" / "observe" / "data"

SCENARIO = """
name: plain
cluster: {accelerators: 16, server: hgx-h100}
workload: {training: {model: llama-3.2-1b, global_batch: 16, sequence: 512, tokens: 1 B, parallelism: {dp: 16}}}
"""
SERVED = """
name: served
cluster: {accelerators: 8, server: hgx-h100, back_end: {topology: rail-optimized, fabric: roce}}
workload:
  serving:
    model: llama-3-8b
    software: vllm
    requests: {REQUESTS}
    pools: {both: {replicas: 1, tp: 1}}
"""
DRAWN = "synthetic: {rate: 1, input: 100, output: 10, count: 10}"

DOCUMENTS = {
    "requests": SERVED.replace("REQUESTS", "trace: BAD"),
    "profiles": SERVED.replace("REQUESTS", DRAWN).replace("    requests", "    profiles: BAD\n    requests"),
    "replayed": "name: r\ncluster: {accelerators: 16, server: hgx-h100}\nworkload: {trace: {file: BAD}}\n",
    "jobs": "name: j\ncluster: {accelerators: 16, server: hgx-h100}\nworkload: {operate: {jobs: {trace: BAD}}}\n",
    "catalog": f"catalog: BAD\n{SCENARIO}",
    "constants": f"collectives: {{constants: BAD}}\n{SCENARIO}",
    "model": SCENARIO.replace("llama-3.2-1b", "./BAD"),
}
"""Scenarios that name a file."""

COMMANDS = [
    "run BAD", "compare BAD", "diff BAD BAD", "explain BAD", "memo BAD",
    "packet --traffic BAD --fabric roce --set hosts=16",
    "packet --traffic flows.csv --fabric roce --set hosts=16 --faults BAD",
    "packet --traffic flows.csv --topology BAD", "export BAD --as perfetto", "place BAD --nodes nodes.txt",
    "place jobs.csv --nodes BAD", "place jobs.csv --nodes nodes.txt --busy BAD", "topology BAD",
    "topology plain.yaml --names BAD",
    "synthesize --links BAD", "synthesize --cluster BAD",
    "synthesize --collective all-to-all --links links.csv --matrix BAD", "tune BAD", "trace BAD", "observe BAD",
    "observe sampled.pcap --cluster BAD", "diagnose BAD", "diagnose sampled.pcap --cluster BAD", "deploy BAD --out out",
    "deploy plain.yaml --out out --inventory BAD", "accept BAD --out out",
    "accept plain.yaml --results BAD", "audit --ibnetdiscover BAD", "audit --netbox BAD",
    "audit --lldp BAD", "audit --ibnetdiscover flows.csv --plan BAD", "bring-up BAD", "check BAD",
    "ui --api-only --tokens BAD", "catalog list --catalog BAD", "catalog show h100 --catalog BAD", "catalog server BAD",
    "calibrate runs --table BAD", "calibrate serving --runs BAD", "plan BAD", "plan growth BAD", "plan worth BAD",
    "plan query BAD", "plan serving BAD", "lab exec BAD -- true", "operate BAD",
    "operate failures --fit BAD --servers 4 --days 10", "watch --once --prometheus http://127.0.0.1:9 --cluster BAD",
    "watch --rehearse BAD --cluster plain.yaml --out out", "place jobs.csv --nodes plain.yaml --names BAD",
    "audit --ibnetdiscover seen.topo --with BAD",
    "ui BAD --no-open", "ui --tokens BAD --no-open", "ui --certificate BAD --key plain.yaml --no-open",
    "ui --certificate plain.yaml --key BAD --no-open", "ui --api-only BAD",
    "ui --api-only --certificate BAD --key plain.yaml",
    "ui --api-only --certificate plain.yaml --key BAD", "catalog server host.xml --catalog BAD", "lab exec BAD true",
    "scale BAD --cluster plain.yaml", "scale sampled.pcap --cluster BAD",
    *(f"run {name}.yaml" for name in DOCUMENTS),
]  # fmt: skip

FOLDERS = (
    "observe BAD",
    "diagnose BAD",
    "accept BAD --out out",
    "accept plain.yaml --results BAD",
    "calibrate serving",
    "plan query",
    "catalog",
    "run catalog",
    "watch --rehearse",
    "audit --ibnetdiscover seen.topo --with",
)
"""These read folders too, and say of an empty one what they miss in it."""


WRITTEN = ("Write ", "Folder in which ", "File to write", "Keep ", "The file to write")
"""How the help of files begins that a command writes."""


def leaves(command, words=()):
    """Every command, with its words."""
    for name, below in getattr(command, "commands", {}).items():
        yield from leaves(below, (*words, name))
    if not hasattr(command, "commands"):
        yield " ".join(words), command


def reads(command):
    """Parameters that name a file or a folder which is read."""
    paths = (one for one in command.params if "Path" in str(one.type_descriptor.annotation))
    return {one.name for one in paths if not (one.help or "").startswith(WRITTEN)}


def given(command, words):
    """Parameters that a command line gives the bad file to."""
    found = command.make_context(command.name, words, resilient_parsing=True).params
    return {name for name, value in found.items() if "BAD" in map(str, value if isinstance(value, list) else [value])}


def test_every_file_that_a_command_reads_is_tried():
    """By the command line's own list of parameters."""
    commands, tried = dict(leaves(command())), set()
    short = {"plan": "plan designs", "operate": "operate scenario"}  # where no command is named
    for line in COMMANDS:
        words = line.split()
        two = " ".join(words[:2])
        name = two if two in commands else words[0]
        rest = words[2 if two in commands else 1 :]
        tried |= {(short.get(name, name), one) for one in given(commands[short.get(name, name)], rest)}
    assert tried == {(name, one) for name, command in commands.items() for one in reads(command)}


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain.yaml").write_text(SCENARIO, encoding="utf-8")
    shutil.copy(DATA / "sflow-counters.pcap", tmp_path / "sampled.pcap")
    shutil.copy(DATA.parents[1] / "deploy" / "data" / "ibnetdiscover-x5.topo", tmp_path / "seen.topo")
    (tmp_path / "host.xml").write_text('<system version="1"><cpu numaid="0"/></system>', encoding="utf-8")
    (tmp_path / "flows.csv").write_text("source,target,size_bytes\n1,0,10000\n", encoding="utf-8")
    (tmp_path / "links.csv").write_text(
        "source,destination,gb_per_s,latency_us\n0,1,50,1\n1,0,50,1\n", encoding="utf-8"
    )
    (tmp_path / "jobs.csv").write_text("job,nodes\na,1\n", encoding="utf-8")
    (tmp_path / "nodes.txt").write_text("n1\nn2\n", encoding="utf-8")
    for name, text in DOCUMENTS.items():
        (tmp_path / f"{name}.yaml").write_text(text.replace("BAD", "bad.json"), encoding="utf-8")
    return tmp_path


@contextmanager
def within(seconds):
    """An end for a test that would have none."""

    def late(number, frame):
        raise AssertionError("the command does not end")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def pipe(path):
    os.mkfifo(path)
    os.open(path, os.O_RDWR | os.O_CLOEXEC)  # a writer that never writes


def sparse(path):
    with path.open("wb") as file:
        file.truncate(10 << 30)


KINDS = {"pipe": pipe, "device": lambda path: path.symlink_to("/dev/zero"), "folder": os.mkdir, "sparse": sparse}


GOES_ON = "audit --ibnetdiscover seen.topo --with BAD"
"""What devices say is left out where it cannot be read, which is said; the audit itself is of the cables."""

SERVED = ("ui BAD --no-open", "ui --api-only BAD")
"""These are given a folder."""


@pytest.mark.parametrize(
    ("command", "kind"), [(one, kind) for one in COMMANDS for kind in KINDS if kind != "folder" or one not in SERVED]
)
def test_every_command_refuses_what_is_no_file(place, capsys, command, kind):
    KINDS[kind](place / "bad.json")
    with within(120):
        code = guard.run([word.replace("BAD", "bad.json") for word in command.split()])
    said = capsys.readouterr().err
    assert code == (0 if command == GOES_ON and kind != "folder" else 2), said
    if kind != "folder" or not command.startswith(FOLDERS):
        assert "bad.json" in said or "/dev/zero" in said


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_ends_on_a_file_that_grows(place, capsys, command):
    path, over = place / "bad.json", threading.Event()
    # Its first line alone is a list of names, or a network, like any other.
    path.write_text("a,b\n" + "1,2\n" * 1000, encoding="utf-8")

    def grow():
        with path.open("ab", buffering=0) as file:
            while not over.wait(0.0005):
                file.write(b"1,2\n" * 1000)

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        with within(120):
            code = guard.run([word.replace("BAD", "bad.json") for word in command.split()])
    finally:
        over.set()
        writer.join()
    assert code == (0 if command == GOES_ON else 2), capsys.readouterr().err
