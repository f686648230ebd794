"""What commands print that a signal stops: what they had found, marked as incomplete, and the exit code of the signal.

SIGTERM comes when the command reports a count or a share of its progress: the moments are the same on any machine,
except of shares that are estimated from the clock. How a process hears a signal is the subject of `test_signals`.
"""

from __future__ import annotations

import json
import signal
from types import SimpleNamespace

import pytest

from railyard.face import signals
from railyard.face.cli import guard
from railyard.face.terminal import Progress
from railyard.kit.schema import yaml

CLUSTER = {"accelerators": 16, "server": "hgx-h100", "back_end": {"topology": "leaf-spine", "fabric": "roce"}}
TRAINING = {"model": "llama-3-8b", "global_batch": 16, "sequence": 2048, "parallelism": {"tp": 1, "zero": 3}}
TUNED = {
    **{"name": "t", "cluster": {**CLUSTER, "placement": "scattered"}, "workload": {"training": TRAINING}},
    "tune": {
        "space": {"qps": [4, 8]},
        **{"seeds": 1, "steps": 4, "unseen_seeds": 3, "unseen_loads": [0, 0.2], "unseen_jobs": 0},
    },
}
CHECKED = {
    **{"name": "c", "cluster": CLUSTER, "workload": {"training": {**TRAINING, "tokens": "1 T"}}, "engine": "flow"},
    "compare": {"vary": {"global_batch": [16, 32, 48]}},
    "check": ["no PFC deadlock", "step < 100 s", "gpu_utilization > 1 %", "headroom holds at 10 m"],
}
JOBS = 1200
PLAYED = {
    "name": "o",
    "cluster": {**CLUSTER, "accelerators": 64},
    "workload": {
        "operate": {"jobs": {"synthetic": {"count": JOBS, "load": 0.8, "sizes": {"8": 1}}}, "save_every": 50},
    },
}


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs a command in the folder; `stopped`: at which stage and share of its progress SIGTERM comes."""
    monkeypatch.chdir(tmp_path)
    report = Progress.__call__

    def call(*words, stopped=None):
        def reported(self, what, done):
            report(self, what, done)
            if stopped is not None and stopped[0] in what and done >= stopped[1]:
                signals._ears.hear(signal.SIGTERM, None)

        with monkeypatch.context() as patch:
            patch.setattr(signals, "_ears", signals._Ears())
            patch.setattr(Progress, "__call__", reported)
            code = guard.run(words)
        out, err = capsys.readouterr()
        return SimpleNamespace(returncode=code, stdout=out, stderr=err)

    return call


def scenario(folder, values):
    (folder / "s.yaml").write_text(yaml.to_text(values), encoding="utf-8")


def incomplete(ended):
    assert (ended.returncode, ended.stderr.splitlines()[-1]) == (143, "stopped by SIGTERM"), ended.stderr
    assert "incomplete: " in ended.stderr


@pytest.mark.processes
@pytest.mark.parametrize("ended_runs", [0, 4])
def test_a_tuning_gives_the_best_settings_so_far(run, tmp_path, ended_runs):
    """As an answer that is kept too; no file for machines is written, whatever is asked for."""
    scenario(tmp_path, TUNED)
    files = ["--env", "e.sh", "--even-unsure", "--out", "runs"]
    ended = run("tune", "s.yaml", "--json", *files, stopped=(f"not seen: {ended_runs} of", 0.0))
    incomplete(ended)
    found = json.loads(ended.stdout)
    assert (found["stopped"], found["recommended"]) == (True, {})
    assert [trial["settings"] for trial in found["trials"] if trial["kept"]] == [found["settings"]]
    judged = 0 if found["unseen"] is None else len(found["unseen"]["cases"])
    assert judged == ended_runs
    (kept,) = tmp_path.glob("runs/*/tune.json")
    assert json.loads(kept.read_text(encoding="utf-8")) == found
    assert not (tmp_path / "e.sh").exists()


def test_online_settings_are_compared_on_the_cases_that_had_run(run, tmp_path):
    training = {"model": "mpt-125m", "global_batch": 16, "sequence": 2048, "parallelism": {"tp": 4}}
    values = {"cluster": {**CLUSTER, "back_end": {"topology": "rail-optimized", "fabric": "roce"}}}
    packets = {"packet": {"budget_hops": 50000}, "tune": {"unseen_seeds": 3, "unseen_loads": [0], "twins": 1}}
    scenario(tmp_path, {**values, "workload": {"training": training}, **packets})
    ended = run("tune", "s.yaml", "--online", "--json", stopped=("steps in packets", 0.7))
    incomplete(ended)
    found = json.loads(ended.stdout)
    assert found["stopped"]
    assert 1 <= len(found["cases"]) < 3
    assert all(len(steps) == len(found["cases"]) for steps in found["steps_s"].values())


@pytest.mark.parametrize("matrix", [False, True])
def test_a_synthesis_gives_the_best_schedule_so_far(run, tmp_path, matrix):
    """Which is no better than that of the whole search, and sound: it is written where files are asked for."""
    links = [f"{a},{b},50,1" for a in range(6) for b in range(6) if a != b and (a + b) % 3]
    (tmp_path / "l.csv").write_text("\n".join(["source,destination,gb_per_s,latency_us", *links]), encoding="utf-8")
    rows = [",".join(str(0 if a == b else 1000000 * (a + b)) for b in range(6)) for a in range(6)]
    (tmp_path / "m.csv").write_text("\n".join(rows), encoding="utf-8")
    command = ["synthesize", "--links", "l.csv", "--collective", "all-to-all", "--json", "--switches", ""]
    command += ["--matrix", "m.csv"] if matrix else ["--size", "64 MB"]
    best = json.loads(run(*command).stdout)
    for share in (0.1, 0.4):
        ended = run(*command, "--out", "sends.csv", stopped=("schedules", share))
        incomplete(ended)
        found = json.loads(ended.stdout)
        assert (found["stopped"], best["stopped"]) == (True, False)
        assert found["finish_us"] >= best["finish_us"] >= best["lower_bound_us"] * (1 - 1e-6)
        assert found["lower_bound_us"] == best["lower_bound_us"]
        assert len((tmp_path / "sends.csv").read_text(encoding="utf-8").splitlines()) == found["steps"] + 1
        (tmp_path / "sends.csv").unlink()


def test_a_check_gives_what_was_judged_by_then(run, tmp_path):
    """All variants of what needs no run, and figures of those that had ended; never that all holds."""
    scenario(tmp_path, CHECKED)
    whole = json.loads(run("check", "s.yaml", "--json").stdout)
    assert (whole["stopped"], whole["holds"], len(whole["checks"])) == (False, True, 12)
    for share in (0.25, 0.5):
        ended = run("check", "s.yaml", "--json", "--junit", "j.xml", stopped=("", share))
        incomplete(ended)
        found = json.loads(ended.stdout)
        assert (found["stopped"], found["holds"]) == (True, False)
        assert 3 <= len(found["checks"]) < 12
        assert all(row in whole["checks"] for row in found["checks"])
        assert not (tmp_path / "j.xml").exists()


def test_a_cluster_in_time_is_measured_up_to_where_it_was_stopped(run, tmp_path):
    """And the same command goes on from there, to the figures of a run that nobody stopped."""
    scenario(tmp_path, PLAYED)
    whole = json.loads(run("operate", "s.yaml", "--json", "--out", "whole").stdout)
    assert "stopped" not in whole["variants"][0]
    for share in (0.2, 0.8):
        command = ["operate", "s.yaml", "--json", "--out", f"to-{share}"]
        ended = run(*command, stopped=("playing", share))
        incomplete(ended)
        found = json.loads(ended.stdout)
        (variant,) = found["variants"]
        days = variant["operate"]["span_s"] / 86400
        done = variant["operate"]["jobs"]["done"]
        assert JOBS * share <= done < JOBS
        assert variant["stopped"] == f"after {days:,.4g} simulated days, with {done:,} of {JOBS:,} jobs ended"
        assert variant["warnings"][0] == f"incomplete: stopped {variant['stopped']}"
        (kept,) = tmp_path.glob(f"to-{share}/o-*/result.json")
        assert json.loads(kept.read_text(encoding="utf-8")) == found
        (state,) = tmp_path.glob(f"to-{share}/.states/*.npz")
        state.with_name(f".{state.name}.half.tmp").write_bytes(b"half")  # of a run that was killed
        assert json.loads(run(*command).stdout)["variants"] == whole["variants"]
        assert not state.parent.exists()


def test_variants_in_time_that_had_ended_are_compared_without_the_one_that_was_stopped(run, tmp_path):
    scenario(tmp_path, {**PLAYED, "compare": {"vary": {"seed": [1, 2, 3]}}})
    ended = run("operate", "s.yaml", "--json", stopped=("playing", 0.5))
    incomplete(ended)
    found = json.loads(ended.stdout)
    assert [len(found["variants"]), len(found["failed"])] == [1, 2]
    assert "stopped" not in found["variants"][0]
    assert all("stopped before it ended" in one["error"] for one in found["failed"])
