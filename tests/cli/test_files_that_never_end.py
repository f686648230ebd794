"""Every file that a command reads, in place of it a pipe, a device, a folder, 10 GB of zeros, a file that grows.

None is waited for or read without end: the command ends with exit code 2 and names the file.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from railyard.face.cli import guard, installed

DATA = Path(__file__).parents[1] / "observe" / "data"

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
    "run BAD", "compare BAD", "diff BAD BAD", "explain BAD", "packet --traffic BAD --fabric roce --set hosts=16",
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
    "serve-api --tokens BAD", "catalog list --catalog BAD", "catalog show h100 --catalog BAD", "catalog server BAD",
    "calibrate runs --table BAD", "calibrate serving --runs BAD", "plan BAD", "plan growth BAD", "plan worth BAD",
    "plan query BAD", "plan serving BAD", "lab exec BAD -- true", "operate BAD",
    "operate failures --fit BAD --servers 4 --days 10", "watch --once --prometheus http://127.0.0.1:9 --cluster BAD",
    "watch --rehearse BAD --cluster plain.yaml --out out", "place jobs.csv --nodes plain.yaml --names BAD",
    "audit --ibnetdiscover seen.topo --with BAD",
    "ui BAD --no-open", "ui --tokens BAD --no-open", "ui --certificate BAD --key plain.yaml --no-open",
    "ui --certificate plain.yaml --key BAD --no-open", "serve-api BAD", "serve-api --certificate BAD --key plain.yaml",
    "serve-api --certificate plain.yaml --key BAD", "catalog server host.xml --catalog BAD", "lab exec BAD true",
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


WRITTEN = ("Write ", "Where ", "Keep ", "Put ", "The file to write")
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
    commands, tried = dict(leaves(installed.command())), set()
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
    shutil.copy(DATA.parents[1] / "deploy" / "data" / "ibnetdiscover-manual.topo", tmp_path / "seen.topo")
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

SERVED = ("ui BAD --no-open", "serve-api BAD")
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
    path.write_text("a,b\n", encoding="utf-8")

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
