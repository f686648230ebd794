"""A scenario from end to end, as its user meets it."""

import base64
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import polars as pl
import pytest

from railyard.face.cli import guard
from railyard.kit.errors import InputError
from railyard.measure.result.reading import result_from
from railyard.measure.result.variants import OperateVariant
from railyard.work.operate import files
from railyard.work.operate.failures.fault import Effect, NodeFault
from railyard.work.operate.files import away_us, busy_us, heat
from railyard.work.operate.loop import ClusterRun
from railyard.work.operate.prepare import prepare
from railyard.work.operate.rules import RecoveryRules, Rules
from railyard.work.operate.steady import columns, steady
from railyard.work.operate.summary import by_size
from railyard.work.scenario.load import expand, from_values
from railyard.work.study.study import run as operate

from .yard import Given, S, accounts_add_up, jobs, played, tree

LEAFS = {"topology": {"kind": "leaf-spine", "ports_per_leaf": 64}}
CLUSTER = {"accelerators": 128, "server": "hgx-h100", "back_end": LEAFS}
DRAWN = {"count": 400, "load": 0.95, "sizes": {"1": 0.5, "8": 0.3, "32": 0.2}, "median": "20 min", "p90": "2 h"}


def scenario(seed=0, **section):
    section = {"jobs": {"synthetic": DRAWN}, **section}
    return from_values({"name": "yard", "seed": seed, "cluster": CLUSTER, "workload": {"operate": section}})


def test_figures_add_up_and_compare():
    found = operate(scenario(failures={"profile": "llama3", "scale": 200.0}), ["backfill=none,easy"]).result
    assert [one.name for one in found.variants] == ["backfill none", "backfill easy"]
    for one in (variant.operate for variant in found.variants):
        assert sum(part.share for part in one.time) == pytest.approx(1.0)
        assert one.goodput == one.share("work")
        assert one.failures.faults == sum(row.faults for row in one.failures.by_mode) > 10
        assert one.jobs.done + one.jobs.ended == 400
        assert one.usd.total.low < one.usd.total.typical < one.usd.total.high
        hours = sum(row.useful_accelerator_hours for row in one.tenants)
        window_h = (one.steady.end_s - one.steady.start_s) / 3600
        assert hours == pytest.approx(one.share("work") * 128 * window_h)
        assert sum(row.jobs for row in one.sizes) == 400
        failed = sum(row.accelerator_hours for row in one.sizes)
        assert failed == pytest.approx(one.utilization * 128 * window_h)
        parts = (one.whole, one.drain)
        hours = [part.utilization * (part.end_s - part.start_s) for part in parts]
        assert hours[0] == pytest.approx(one.utilization * window_h * 3600 + hours[1])
        assert one.whole.end_s == one.span_s == one.drain.end_s
        assert one.usd.total.typical == pytest.approx(one.usd.per_h.typical * window_h)
    none, easy = (variant.operate for variant in found.variants)
    assert easy.queue_s.mean < none.queue_s.mean
    assert result_from(found.text()) == found


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
        files.save(first, tmp_path / "state.npz")
        second = prepared.operation()
        assert files.load(second, tmp_path / "state.npz")
        assert second.run()
        assert second.ledger.allocations == straight.ledger.allocations
        assert second.ledger.series == straight.ledger.series
        assert second.ledger.faults == straight.ledger.faults
        assert second.ledger.outages == straight.ledger.outages
        assert second.state.spent == straight.state.spent
        assert second.ledger.nodes == straight.ledger.nodes


def test_states_of_other_runs_are_left_alone_and_broken_ones_refused(tmp_path):
    one, other = (prepare(expand(scenario(seed))[0]).operation() for seed in (1, 2))
    one.run(50)
    files.save(one, tmp_path / "state.npz")
    assert not files.load(other, tmp_path / "state.npz")
    text = (tmp_path / "state.npz").read_bytes()
    (tmp_path / "state.npz").write_bytes(text[: len(text) // 2])
    with pytest.raises(InputError, match="remove it to start over"):
        files.load(other, tmp_path / "state.npz")


def test_killed_and_begun_again_it_writes_the_same_bytes(tmp_path):
    jobs = {"synthetic": {**DRAWN, "count": 1000}}
    values = {"name": "yard", "cluster": CLUSTER, "workload": {"operate": {"jobs": jobs, "save_every": 300}}}
    file = tmp_path / "yard.yaml"
    file.write_text(json.dumps(values))
    words = ["operate", str(file), "--quiet", "--out"]
    command = [sys.executable, "-m", "railyard.face.cli", *words, str(tmp_path / "killed")]
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    state = tmp_path / "killed" / ".states"
    while run.poll() is None and not (state.is_dir() and any(one.suffix == ".npz" for one in state.iterdir())):
        time.sleep(0.01)
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    for place in ("killed", "straight"):
        assert guard.run([*words, str(tmp_path / place)]) == 0
    folders = [next(one for one in (tmp_path / place).iterdir()) for place in ("killed", "straight")]
    names = sorted(one.name for one in folders[0].iterdir() if one.is_file())
    assert {"jobs.parquet", "report.html", "result.json"} <= set(names)
    for name in names:
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes(), name


def test_files(tmp_path):
    finished = operate(scenario(failures="rsc1"), out=tmp_path)
    rows = pl.read_parquet(finished.folder / "allocations.parquet")
    assert rows["nodes"].list.len().min() >= 1
    jobs = pl.read_parquet(finished.folder / "jobs.parquet")
    assert len(jobs) == 400
    assert not (tmp_path / ".states").exists()
    assert result_from((finished.folder / "result.json").read_bytes()) == finished.result
    assert "operate:" in (finished.folder / "scenario.yaml").read_text()


def test_the_heat_map_is_what_happened():
    """Node 1 breaks at 25 % of the time for half of it, node 3 is the spare that takes over, node 2 is used by half."""
    table = jobs((0, 100, 2), (0, 100, 1), each=np.array([8, 4], np.int32))
    fault = NodeFault(25 * S, (1,), Effect.OUT, 0, 0, 50 * S)
    run = played(table, faults=Given(fault), recovery=RecoveryRules(interval_us=S, spares=1), until=100)
    assert busy_us(run).sum() == pytest.approx(sum(sum(parts) for parts in run.state.spent))
    assert away_us(run).sum(axis=(1, 2)).tolist() == pytest.approx([50 * S * 8, (25 + 25) * S * 8, 0])
    found = heat(run)
    cells = np.frombuffer(base64.b64decode(found.cells), np.uint8).reshape(found.rows, found.columns)
    assert cells[:, [10, 180, 350]].tolist() == [[200, 200, 200], [200, 201, 202], [100, 100, 100], [202, 200, 200]]
    assert found.first == ("n0", "n1", "n2", "n3")
    rows = by_size(columns(run), steady(run, given=False).whole, np.ones(2, np.bool_))
    assert [row.accelerators for row in rows] == ["3 to 4", "9 to 16"]
    assert rows[1].mtbf_h == pytest.approx(100 / 3600)


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


def test_policies_that_pass_over_what_is_asked_are_refused(tmp_path):
    file = tmp_path / "jobs.csv"
    file.write_text("submit_s,duration_s,accelerators,segment\n0,9,32,\n1,9,64,4\n")
    with pytest.raises(InputError, match="would ignore what is asked by `segment`") as caught:
        prepare(expand(scenario(jobs=str(file), placement="slurm-tree"))[0])
    problem = caught.value.problems[0]
    assert problem.line == 3
    assert "slurm-block" in str(problem.allowed)
    assert prepare(expand(scenario(jobs=str(file), placement="slurm-block"))[0])
    with pytest.raises(InputError, match="by `within`"):
        prepare(expand(scenario(within="leaf"))[0])


def test_a_queue_that_grows_is_said():
    found = operate(scenario(jobs={"synthetic": {**DRAWN, "load": 1.7}})).result
    assert "1.70 times" in found.variants[0].warnings[0]


def test_a_queue_that_never_drains_is_said(tmp_path):
    # Leafs of four nodes and of two; a spare of the second takes over in the first, whose mended node is a spare then.
    file = tmp_path / "jobs.csv"
    rows = ("0,2000000,40,all,", "2592000,100,32,wide,leaf", "2592010,100,8,late,")
    file.write_text("\n".join(["submit_s,duration_s,accelerators,job,within", *rows]))
    cluster = {
        "accelerators": 48,
        "server": "hgx-h100",
        "back_end": {"topology": {"kind": "leaf-spine", "ports_per_leaf": 32}},
    }
    section = {"jobs": str(file), "placement": "slurm-tree", "recovery": {"spares": 1}, "draws": 1}
    section["failures"] = {"profile": "llama3", "scale": 8.0}
    found = operate(from_values({"name": "stuck", "cluster": cluster, "workload": {"operate": section}})).result
    assert found.variants[0].warnings == ("the queue never drains: job `wide` waits forever",)
    assert (found.variants[0].operate.jobs.done, found.variants[0].operate.jobs.stuck) == (2, 1)


def test_command_line(tmp_path, capsys):
    file = tmp_path / "yard.yaml"
    section = {"jobs": {"synthetic": DRAWN}}
    file.write_text(json.dumps({"cluster": CLUSTER, "workload": {"operate": section}}))
    assert guard.run(["operate", str(file), "--out", str(tmp_path), "--json"]) == 0
    out = capsys.readouterr().out
    assert json.loads(out)["variants"][0]["operate"]["jobs"]["done"] == 400
    varied = ["--vary", "policy=first-fit,random", "--quiet"]
    assert guard.run(["compare", str(file), "--out", str(tmp_path), *varied]) == 0
    assert "random  " in capsys.readouterr().out
    assert guard.run(["run", str(file), "--out", str(tmp_path), "--engine", "packet"]) == 2
    assert "one engine" in capsys.readouterr().err
    file.with_name("other.yaml").write_text("name: x\ncluster: {accelerators: 8, server: hgx-h100}\n")
    assert guard.run(["operate", str(file.with_name("other.yaml"))]) == 2
    assert guard.run(["operate", str(file), "--out", str(tmp_path), "--vary", "policy=first-fit,ranodm"]) == 2
    assert "first-fit" in capsys.readouterr().err
    data = os.path.join(os.path.dirname(__file__), "data", "infinitehbd_first_half.csv")  # noqa: PTH118, PTH120
    recorded = ["operate", "failures", "--fit", data, "--servers", "400", "--days", "174"]
    assert guard.run([*recorded, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"faults_per_week", "repair_h", "servers_out"}
    assert set(found["faults_per_week"]) == {"low", "mean", "high"}
    assert guard.run([*recorded, "--group", "32", "--json"]) == 0
    idle = json.loads(capsys.readouterr().out).pop("idle_share")
    assert set(idle) == {"domain-72", "cube-64", "ring-2-hop", "ring-3-hop"}  # 36 is no number of servers of 8
    assert guard.run([*recorded, "--group", "32"]) == 0
    assert f"{100 * idle['domain-72']:.2f} %" in capsys.readouterr().out


# The steady window: figures from the first submission to the last, and what lies around it.

STEADY_CLUSTER = {"accelerators": 32, "server": "hgx-h100"}


def steady_scenario(folder, rows, **section):
    file = folder / "jobs.csv"
    file.write_text("\n".join(["submit_s,duration_s,accelerators", *(",".join(map(str, row)) for row in rows)]) + "\n")
    return from_values(
        {"name": "yard", "cluster": STEADY_CLUSTER, "workload": {"operate": {"jobs": str(file), **section}}}
    )


def figures(draft):
    (found,) = operate(draft).result.of(OperateVariant)
    return found


def test_the_drain_is_left_out_by_hand():
    """Four nodes: two jobs of two from 0 s and 100 s for 100 s; one of one node from 200 s, the last, for 800 s."""
    run = played(jobs((0, 100, 2), (100, 100, 2), (200, 800, 1)))
    parts = steady(run, given=False)
    window, drain, whole = parts.window, parts.drain, parts.whole
    assert (window.start_us, window.end_us, drain.end_us) == (0, 200 * S, 1000 * S)
    assert window.busy / window.capacity == pytest.approx(2 / 4)
    assert drain.busy / drain.capacity == pytest.approx(1 / 4)
    assert whole.busy / whole.capacity == pytest.approx((200 * 2 + 800) / 4 / 1000)
    assert (parts.figures.submitted, parts.figures.running_at_end, parts.figures.waiting_at_end) == (3, 1, 0)
    assert window.work + drain.work == whole.work


def test_work_that_is_lost_after_the_window_is_lost_in_it():
    """Checkpoints every 100 s, so that a fault at 250 s loses 50 s: 25 s before the window's end at 225 s, 25 after."""
    fault = NodeFault(250 * S, (0,), Effect.CRASH, 0, 0, 0)
    run = played(
        jobs((0, 400, 1), (0, 10, 1), (225, 10, 1)),
        faults=Given(fault),
        recovery=RecoveryRules(interval_us=100 * S, restart_us=30 * S),
    )
    accounts_add_up(run)
    parts = steady(run, given=False)
    assert parts.window.end_us == 225 * S
    job = [part.spent[0] / (8 * S) for part in (parts.window, parts.drain, parts.whole)]
    work, lost = 0, 6
    assert [row[work] for row in job] == pytest.approx([200, 200, 400])
    assert [row[lost] for row in job] == pytest.approx([25, 25, 50])


def test_a_mark_moves_nothing_of_the_run():
    table = jobs((0, 97, 3), (13, 41, 2), (14, 33, 1), (31, 77, 4), (40, 10, 1))
    runs = [ClusterRun(table, tree(), Rules(), steady_us=window) for window in (None, (7 * S, 23 * S))]
    for run in runs:
        assert run.run()
    assert runs[0].ledger.allocations == runs[1].ledger.allocations
    assert runs[0].state.spent == runs[1].state.spent
    window = steady(runs[1], given=True).window
    assert window.busy == window.had.sum() == (16 * 3 + 9) * 8 * S  # from 14 s on the third job has the fourth node
    assert window.useless == 1 * 8 * S  # from 13 s to 14 s that is free, while the second job waits for two


def test_a_run_goes_on_with_its_marks(tmp_path):
    table = jobs(*((10 * number, 35, 1) for number in range(30)))
    straight = ClusterRun(table, tree(), Rules())
    straight.run()
    for moments in (1, 20, 40):
        first, second = (ClusterRun(table, tree(), Rules()) for _ in range(2))
        assert not first.run(moments)
        files.save(first, tmp_path / "state.npz")
        assert files.load(second, tmp_path / "state.npz")
        second.run()
        assert second.state.marks == straight.state.marks
        np.testing.assert_array_equal(*(steady(run, given=False).window.spent for run in (second, straight)))


def test_jobs_that_come_at_even_times_have_a_closed_form(tmp_path):
    """A node every 100 s for 250 s: from 300 s on 2.5 of 4 nodes are in use, for ever."""
    draft = steady_scenario(tmp_path, [(100 * number, 250, 8) for number in range(40)], steady={"start": "300 s"})
    found = figures(draft).operate
    assert found.utilization == found.goodput == pytest.approx(2.5 / 4)
    assert (found.steady.start_s, found.steady.end_s, found.steady.chosen) == (300, 3900, "scenario")
    assert found.before.utilization == pytest.approx((100 * 1 + 100 * 2 + 100 * 2.5 + 50 * 0) / 4 / 300, abs=0.02)
    assert found.usd.per_useful_accelerator_hour.typical == pytest.approx(found.usd.per_h.typical / (2.5 * 8))
    assert found.steady.submitted == 37


def test_an_empty_cluster_at_the_start_is_said(tmp_path):
    """Jobs of 40 h every hour on four nodes, one after the other: full from the fourth hour on."""
    rows = [(3600 * number, 144_000, 4) for number in range(8)] + [
        (3600 * number, 14_000, 8) for number in range(8, 200)
    ]
    found = figures(steady_scenario(tmp_path, rows))
    warm_up = found.operate.warm_up
    assert warm_up is not None
    assert warm_up.utilization < found.operate.utilization < warm_up.utilization_after
    assert any("the cluster starts empty" in words for words in found.warnings)


def test_jobs_that_never_start_are_counted_and_said(tmp_path):
    rows = [(0, 500, 32), (10, 500, 32), (20, 50, 8), (30, 50, 8), (900, 10, 8)]
    found = figures(steady_scenario(tmp_path, rows, until="600 s", queue={"backfill": "none"}))
    counts = found.operate.jobs
    assert (counts.done, counts.running, counts.waiting, counts.never_started, counts.unsubmitted) == (1, 1, 2, 2, 1)
    assert any("2 of the 4 submitted jobs never start" in words and "0.16 h" in words for words in found.warnings)
    assert found.operate.steady.end_s == 600


def test_without_an_end_inside_it_a_window_is_the_whole_run(tmp_path):
    found = figures(steady_scenario(tmp_path, [(0, 5000, 8), (60, 5000, 8)]))
    assert found.operate.steady.chosen == "whole run"
    assert found.operate.utilization == found.operate.whole.utilization
    assert found.operate.drain is None
    assert any("no job ends between" in words for words in found.warnings)
