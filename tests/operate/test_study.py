"""A scenario from end to end, as its user meets it."""

import json
import os
import signal
import subprocess
import sys
import time

import polars as pl
import pytest

from railyard.cli import guard
from railyard.errors import InputError
from railyard.operate import saving
from railyard.operate.page import busy_share
from railyard.operate.prepare import prepare
from railyard.operate.study import operate
from railyard.scenario.load import from_values
from railyard.scenario.variants import expand

LEAFS = {"topology": {"kind": "leaf-spine", "ports_per_leaf": 64}}
CLUSTER = {"accelerators": 128, "server": "hgx-h100", "back_end": LEAFS}
DRAWN = {"count": 400, "load": 0.95, "sizes": {"1": 0.5, "8": 0.3, "32": 0.2}, "median": "20 min", "p90": "2 h"}


def scenario(seed=0, **section):
    section = {"jobs": {"synthetic": DRAWN}, **section}
    return from_values({"name": "yard", "seed": seed, "cluster": CLUSTER, "workload": {"operate": section}})


def test_figures_add_up_and_compare():
    found = operate(scenario(failures={"profile": "llama3", "scale": 200.0}), ["backfill=none,easy"]).result
    assert [one["name"] for one in found["variants"]] == ["backfill none", "backfill easy"]
    for one in found["variants"]:
        assert sum(one["time"].values()) == pytest.approx(1.0)
        assert one["goodput"] == one["time"]["work"]
        assert one["failures"]["faults"] > 20
        assert one["jobs"]["done"] + one["jobs"]["ended"] == 400
        assert one["usd"]["total"]["low"] < one["usd"]["total"]["typical"] < one["usd"]["total"]["high"]
        tenants = one["tenants"].values()
        hours = sum(row["useful_accelerator_hours"] for row in tenants)
        assert hours == pytest.approx(one["time"]["work"] * 128 * one["span_s"] / 3600)
    none, easy = found["variants"]
    assert easy["queue_s"]["mean"] < none["queue_s"]["mean"]


def test_a_run_goes_on_from_any_state(tmp_path):
    draft = scenario(
        failures={"profile": "rsc1", "scale": 100.0}, queue={"discipline": "fair-share"}, recovery={"spares": 1}
    )
    prepared = prepare(expand(draft)[0])
    straight = prepared.operation()
    assert straight.run()
    for moments in (3, 150, 700):
        first = prepared.operation()
        assert not first.run(moments)
        saving.save(first, tmp_path / "state.npz")
        second = prepared.operation()
        assert saving.load(second, tmp_path / "state.npz")
        assert second.run()
        assert second.ledger.allocations == straight.ledger.allocations
        assert second.ledger.series == straight.ledger.series
        assert second.ledger.faults == straight.ledger.faults
        assert second.state.spent == straight.state.spent
        assert second.ledger.nodes == straight.ledger.nodes


def test_states_of_other_runs_are_left_alone_and_broken_ones_refused(tmp_path):
    one, other = (prepare(expand(scenario(seed))[0]).operation() for seed in (1, 2))
    one.run(50)
    saving.save(one, tmp_path / "state.npz")
    assert not saving.load(other, tmp_path / "state.npz")
    text = (tmp_path / "state.npz").read_bytes()
    (tmp_path / "state.npz").write_bytes(text[: len(text) // 2])
    with pytest.raises(InputError, match="remove it to begin anew"):
        saving.load(other, tmp_path / "state.npz")


def test_killed_and_begun_again_it_writes_the_same_bytes(tmp_path):
    jobs = {"synthetic": {**DRAWN, "count": 2000}}
    values = {"name": "yard", "cluster": CLUSTER, "workload": {"operate": {"jobs": jobs, "save_every": 700}}}
    file = tmp_path / "yard.yaml"
    file.write_text(json.dumps(values))
    command = [sys.executable, "-m", "railyard.cli", "operate", str(file), "--quiet", "--out"]
    run = subprocess.Popen([*command, str(tmp_path / "killed")], stdout=subprocess.DEVNULL)
    state = tmp_path / "killed" / ".states"
    while run.poll() is None and not (state.is_dir() and any(one.suffix == ".npz" for one in state.iterdir())):
        time.sleep(0.01)
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    for place in ("killed", "straight"):
        subprocess.run([*command, str(tmp_path / place)], check=True, stdout=subprocess.DEVNULL)
    folders = [next(one for one in (tmp_path / place).iterdir()) for place in ("killed", "straight")]
    names = sorted(one.name for one in folders[0].iterdir())
    assert "jobs.parquet" in names
    for name in names:
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes(), name


def test_files(tmp_path):
    finished = operate(scenario(failures="rsc1"), out=tmp_path)
    rows = pl.read_parquet(finished.folder / "allocations.parquet")
    assert rows["nodes"].list.len().min() >= 1
    jobs = pl.read_parquet(finished.folder / "jobs.parquet")
    assert len(jobs) == 400
    assert not (tmp_path / ".states").exists()
    page = (finished.folder / "operate.html").read_text()
    assert "{{" not in page
    assert "http" not in page
    run = finished.played[0].run
    share = busy_share(run)
    assert share.shape == (16, 400)
    busy = sum(sum(parts) for parts in run.state.spent) / (128 * run.ledger.time_us)
    assert share.mean() == pytest.approx(busy, rel=0.01)
    kept = json.loads((finished.folder / "result.json").read_text())
    assert kept == json.loads(json.dumps(finished.result))


@pytest.mark.parametrize(
    ("section", "key", "words"),
    [
        ({"placement": "first-fitt"}, "workload.operate.placement", "did you mean `first-fit`"),
        ({"queue": {"discipline": "fifoo"}}, "workload.operate.queue.discipline", "did you mean `fifo`"),
        ({"queue": {"backfill": "eazy"}}, "workload.operate.queue.backfill", "did you mean `easy`"),
        ({"queue": {"quotas": {"al": 8}}}, "workload.operate.queue.quotas", "did you mean `all`"),
        ({"within": "leef"}, "workload.operate.within", "did you mean `leaf`"),
        ({"failures": "lama3"}, "workload.operate.failures.profile", "did you mean `llama3`"),
        ({"failures": {"modes": [{"name": "cat"}]}}, "workload.operate.failures.modes.0", "how often"),
        ({"windows": [{"start": "0 s", "length": "1 h", "nodes": [3, 16]}]}, "workload.operate.windows.0", "no such"),
        ({"jobs": {"trace": "none.csv"}}, "workload.operate.jobs.trace", "no such trace"),
        ({"jobs": {}}, "workload.operate.jobs", "one of `trace` and `synthetic`"),
        ({"recovery": {"spares": 16}}, "workload.operate.recovery.spares", "leave no node"),
    ],
)
def test_wrong_scenarios_are_refused_by_key(section, key, words):
    with pytest.raises(InputError, match=words) as caught:
        prepare(expand(scenario(**section))[0])
    assert str(caught.value.problems[0].key).startswith(key)


def test_jobs_that_nothing_could_place_are_refused():
    jobs = {"synthetic": {**DRAWN, "sizes": {"128": 1.0}}}
    with pytest.raises(InputError, match="even on an empty cluster beside 1 spares"):
        prepare(expand(scenario(jobs=jobs, recovery={"spares": 1}))[0])


def test_a_queue_that_grows_is_said():
    found = operate(scenario(jobs={"synthetic": {**DRAWN, "load": 1.7}})).result
    assert "1.70 times" in found["variants"][0]["notes"][0]


def test_command_line(tmp_path, capsys):
    file = tmp_path / "yard.yaml"
    section = {"jobs": {"synthetic": DRAWN}}
    file.write_text(json.dumps({"cluster": CLUSTER, "workload": {"operate": section}}))
    assert guard.run(["operate", str(file), "--out", str(tmp_path), "--json"]) == 0
    out = capsys.readouterr().out
    assert json.loads(out)["variants"][0]["jobs"]["done"] == 400
    assert guard.run(["operate", str(file), "--out", str(tmp_path), "--vary", "policy=first-fit,ranodm"]) == 2
    assert "first-fit" in capsys.readouterr().err
    data = os.path.join(os.path.dirname(__file__), "data", "infinitehbd_first_half.csv")  # noqa: PTH118, PTH120
    assert guard.run(["operate", "failures", "--fit", data, "--servers", "400", "--days", "174", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"faults_per_week", "repair_h", "servers_out"}
    assert set(found["faults_per_week"]) == {"low", "mean", "high"}
