"""Ctrl-C and SIGTERM: when they raise, which exit code they end in, and what `plan --json` prints by then."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

from railyard.cli import signals
from railyard.schema import yaml

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
    assert (signals.code(), signals.name()) == (143, "SIGTERM")


def test_without_a_signal_a_ready_command_goes_on_and_hears_the_next(ears):
    signals.ready()
    with pytest.raises(KeyboardInterrupt):
        ears.hear(signal.SIGINT, None)
    with pytest.raises(KeyboardInterrupt):
        ears.hear(signal.SIGTERM, None)
    assert (signals.code(), signals.name()) == (130, "Ctrl-C")


@pytest.mark.parametrize("after", ["", "closed form", "flow: "])
def test_a_plan_that_is_stopped_prints_what_it_found(tmp_path, after):
    """Before anything is looked at, and once a stage is said on stderr.

    Where the test waits for a line, one comes every 10 ms, so that a fast machine does not finish the plan before it.
    """
    file = tmp_path / "plan.yaml"
    file.write_text(yaml.to_text(PLAN), encoding="utf-8")
    often = "import runpy; from railyard.cli import plan_designs; plan_designs._EVERY_S = 0.01"
    main = ["-c", f"{often}; runpy.run_module('railyard', run_name='__main__')"] if after else ["-m", "railyard"]
    command = [sys.executable, *main, "plan", str(file), "--json", "--out", str(tmp_path / "runs")]
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
