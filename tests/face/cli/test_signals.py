"""Ctrl-C and SIGTERM: when they raise, which exit code they end in, and what `plan --json` prints by then."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from railyard.face import signals
from railyard.face.cli import guard
from railyard.face.verbs import init
from railyard.kit.schema import yaml

PLAN = {
    "name": "p",
    "cluster": {"accelerators": 64, "server": "hgx-h100", "back_end": {"topology": "leaf-spine"}},
    "workload": {
        "training": {
            **{"model": "llama-3-8b", "global_batch": 64, "sequence": 4096, "tokens": "1 T"},
            "parallelism": {"tp": 2, "pp": 1},
        }
    },
    "plan": {
        "space": {"fabric": ["roce", "uec"], "oversubscription": [f"{n}:1" for n in range(1, 9)]},
        "effort": {"flow": 16, "draws": 100},
    },
}

PATIENT = """
from railyard.face import signals
from railyard.face.cli import main

signals.PATIENCE_S = signals._LONGEST_S = 100
main()
"""
"""A command with time to end on a machine that is busy with others."""


@pytest.fixture
def ears(monkeypatch):
    monkeypatch.setattr(signals, "_ears", signals._Ears())
    return signals._ears


def test_a_signal_waits_until_the_command_is_ready(ears):
    ears.waits = True
    ears.hear(signal.SIGTERM, None)
    with pytest.raises(signals.Interrupted):
        signals.ready(once=True)
    ears.hear(signal.SIGINT, None)  # nothing disturbs the end
    assert (signals.exit_code(), signals.name()) == (143, "SIGTERM")


def test_without_a_signal_a_ready_command_goes_on_and_hears_the_next(ears):
    signals.ready()
    with pytest.raises(KeyboardInterrupt):
        ears.hear(signal.SIGINT, None)
    with pytest.raises(KeyboardInterrupt):
        ears.hear(signal.SIGTERM, None)
    assert (signals.exit_code(), signals.name()) == (130, "Ctrl-C")


@pytest.mark.parametrize("after", ["", "flow: "])
def test_a_plan_that_is_stopped_prints_what_it_found(tmp_path, after):
    """Before anything is looked at, and once a stage is said on stderr.

    Where the test waits for a line, one comes every 10 ms, so that a fast machine does not finish the plan before it.
    """
    file = tmp_path / "plan.yaml"
    file.write_text(yaml.to_text(PLAN), encoding="utf-8")
    often = "from railyard.face.verb import verbs\nvars(verbs.get('plan designs'))['every_s'] = 0.01\n" if after else ""
    command = [sys.executable, "-c", f"{often}{PATIENT}", "plan", str(file), "--json", "--out", str(tmp_path / "runs")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(0.0 if after else 1.0)
        while after and after not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        out, words = process.communicate(timeout=60)
    found = json.loads(out)
    assert (process.returncode, found["stopped"]) == (143, True)
    assert "stopped by SIGTERM" in words
    if after == "flow: ":
        assert found["best"] in words
    if not after:
        assert found["best"] is None


@pytest.mark.parametrize("came", [True, False])
def test_an_error_that_a_library_makes_of_a_signal_is_the_signal(ears, monkeypatch, capsys, came):
    """Pydantic words what it caught in its own message; without a signal an error is a fault."""

    def caught():
        if came:
            signals.heard(signal.SIGTERM)
        raise ValueError("Error building `model` serializer:\n  Interrupted: ")

    monkeypatch.setattr(init, "template", caught)
    assert guard.run(["init"]) == (143 if came else guard.OUR_FAULT)
    assert capsys.readouterr().err.startswith("stopped by SIGTERM" if came else "error: an internal error")


DEAF = """
import pathlib, sys, time
from railyard.face.cli import main
from railyard.face.verbs import init
from railyard.kit.files import appearing

def deaf():
    with appearing(pathlib.Path("out.txt")) as unfinished:
        unfinished.write_text("half of it")
        print("begun", flush=True)
        while True:
            try:
                time.sleep(60)
            except KeyboardInterrupt:
                pass

init.template = deaf
sys.argv = ["railyard", "init"]
main()
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_command_that_hears_nothing_is_ended_and_leaves_nothing(tmp_path, number, code):
    """As a library does whose call asks for no signals; what is half written vanishes."""
    command = [sys.executable, "-c", DEAF]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stdout.readline() == "begun\n"
        assert list(tmp_path.iterdir()) != []
        process.send_signal(number)
        _, words = process.communicate(timeout=60)
    assert (process.returncode, words) == (code, f"stopped by {'Ctrl-C' if code == 130 else 'SIGTERM'}\n")
    assert list(tmp_path.iterdir()) == []


POOL = """
import os, sys
from railyard.face.cli import main
from railyard.face.verbs import init
from railyard.work.study.tasks import Task
from railyard.work.study.workers import Local

def pooled():
    pool = Local(2)
    tasks = [Task("time:sleep", 0), Task("time:sleep", 600), Task("time:sleep", 600)]
    for done in pool.run(tasks):
        print(*(worker.process.pid for worker in pool._busy), flush=True)

init.template = pooled
if __name__ == "__main__":
    sys.argv = ["railyard", "init"]
    main()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_the_command(tmp_path, number):
    """However it ends: a kill gives it no time to end them."""
    (tmp_path / "pooled.py").write_text(POOL, encoding="utf-8")
    with subprocess.Popen([sys.executable, "pooled.py"], stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        workers = [int(word) for word in process.stdout.readline().split()]
        process.send_signal(number)
        process.wait(timeout=60)
    assert workers
    begin = time.monotonic()
    while any(alive(worker) for worker in workers):
        assert time.monotonic() - begin < 60
        time.sleep(0.05)


def alive(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


SWEEP = {
    **{"name": "s", "cluster": {**PLAN["cluster"], "accelerators": 16}},
    "workload": {
        "training": {"model": "llama-3-8b", "global_batch": 16, "sequence": 2048, "parallelism": {"tp": 2, "pp": 1}}
    },
    "compare": {"vary": {"fabric": ["roce", "uec", "infiniband", "spectrum-x"]}},
}


def test_a_sweep_that_is_stopped_prints_and_keeps_the_variants_that_had_ended(tmp_path):
    """And the same command goes on from there: its variants are those of a sweep that nobody stopped."""
    (tmp_path / "s.yaml").write_text(yaml.to_text(SWEEP), encoding="utf-8")
    command = [sys.executable, "-c", PATIENT, "run", "s.yaml", "--json", "--engine", "flow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        while not any("." not in one.parent.name for one in tmp_path.glob("runs/.points/*/*/measured.json")):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        out, words = process.communicate(timeout=120)
    found = json.loads(out)
    ended, stopped = len(found["variants"]), len(found["failed"])
    assert (process.returncode, ended + stopped) == (143, 4)
    assert 0 < ended < 4
    assert all("stopped before it ended" in one["error"] for one in found["failed"])
    assert f"{ended} of 4 variants had ended; the same command continues from here\nstopped by SIGTERM" in words
    (kept,) = tmp_path.glob("runs/s-*/result.json")
    assert json.loads(kept.read_text()) == found
    whole = json.loads(subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=True).stdout)
    assert {one["name"] for one in found["variants"]} < {one["name"] for one in whole["variants"]}
    assert len(whole["variants"]) == 4
