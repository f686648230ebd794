"""Settings: the search on steps that a hand can work out, the verdict, what is exported."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest

from railyard.ask.tune.search import Tuner, TuneResult
from railyard.ask.tune.space import CONGESTION, ULTRA, JobGround, TuneCase, _neighbour, space_of
from railyard.ask.tune.study import answer_of, environment, tuner_table
from railyard.ask.tune.trials import STEP, TimedStep, Times, judged, step_s
from railyard.engine.packet.mechanisms import CONSTANTS
from railyard.face.cli import guard
from railyard.kit.errors import InputError, Interrupted
from railyard.kit.quantities import interval
from railyard.kit.schema import yaml
from railyard.work.scenario import load
from railyard.work.scenario.model import TuneSection
from railyard.work.scenario.packet import PacketSettings, assign
from railyard.work.study.folder import Journal
from railyard.work.study.tasks import Done

CONSTANT = {one.key: name for name, one in CONSTANTS.items()}


def values(**more):
    cluster = {"accelerators": 16, "server": "hgx-h100", "back_end": {"topology": "leaf-spine", "fabric": "roce"}}
    training = {"model": "llama-3-8b", "global_batch": 16, "sequence": 2048, "parallelism": {"tp": 1, "zero": 3}}
    return {"name": "t", "cluster": cluster, "workload": {"training": training}, **more}


class Known:
    """Steps by a formula: 4 queue pairs are best; 8 channels help only with them; draws and loads move all alike."""

    def __init__(self) -> None:
        self.count = 0

    def run(self, tasks, until=math.inf):
        for number, task in enumerate(tasks):
            self.count += 1
            argument = task.argument
            settings = argument["settings"]
            qps, channels = settings.get("qps", 1), settings.get("collectives.connections", 2)
            if qps == 3:
                yield Done(number, error="three is not a power of two")
                continue
            step = (
                1.0 + 0.1 * abs(math.log2(qps) - 2) + (0.05 if channels == 8 and qps != 4 else 0.02 * (channels != 8))
            )
            step *= (1 + argument["load"]) * (1 + 0.01 * (argument["seed"] % 3))
            step *= 1.5 if "workload.training.sequence" in settings else 1.0
            times = {"collectives": Times.of(step * np.arange(1.0, 201.0)).plain()}
            yield Done(number, step if task.function == STEP else {"step_s": step, "slice": 1.0, "times": times})

    def close(self) -> None:
        """Nothing runs on."""


SPACE = {"collectives.connections": [4, 8], "qps": [2, 3, 4, 8], "collectives.pxn": [False]}


def tuned(**section) -> TuneResult:
    draft = load.from_values(values(tune={"space": SPACE, **section}))
    return Tuner(draft, "flow", draft.scenario.tune or TuneSection(), Known(), lambda *_: None).run()


def test_the_search_finds_what_helps_only_together():
    found = tuned(steps=60)
    assert found.settings == {"qps": 4, "collectives.connections": 8}
    assert next(one.error for one in found.tried if one.settings == {"qps": 3}) == "three is not a power of two"
    assert found.default_s == pytest.approx(1.22 * 1.005)
    assert found.tuned_s == pytest.approx(1.005)
    assert {key: alone for key, (alone, _) in found.parts.items()} == pytest.approx(
        {"qps": 1 - 1.02 / 1.22, "collectives.connections": 1 - 1.25 / 1.22}
    )
    assert {key: without for key, (_, without) in found.parts.items()} == pytest.approx(
        {"qps": 0.25, "collectives.connections": 0.02}
    )
    assert found.gain()[0] == pytest.approx(1 - 1 / 1.22)
    assert found.sure


class Stopped(Known):
    """A signal comes after so many steps."""

    def __init__(self, after) -> None:
        super().__init__()
        self.after = after

    def run(self, tasks, until=math.inf):
        for done in super().run(tasks, until):
            if self.count > self.after:
                raise Interrupted
            yield done


def test_a_tuning_that_is_stopped_at_any_step_has_the_best_settings_so_far():
    """Never recommended, and never better than those of the whole search; none before the scenario as written ran.

    Stopped around the first of them, at the last, and at every seventh between.
    """
    draft = load.from_values(values(tune={"space": SPACE, "steps": 60, "unseen_jobs": 0}))

    def found(workers):
        return Tuner(draft, "flow", draft.scenario.tune, workers, lambda *_: None).run()

    known = Known()
    best = found(known)
    judged = []
    first = len(best.tried[0].ratios)
    for after in sorted({0, first - 1, first, *range(first, known.count, 7), known.count - 1}):
        if after < first:
            with pytest.raises(Interrupted):
                found(Stopped(after))
            continue
        early = found(Stopped(after))
        answer = answer_of(early, load.dump(draft.scenario))
        (kept,) = (one for one in answer.trials if one.kept)
        assert (early.stopped, answer.stopped, answer.recommended) == (True, True, {})
        assert kept.settings == answer.settings
        assert kept.draws == 0 or early.tuned_s / early.default_s == pytest.approx(1 + (kept.change or 0))
        assert early.tuned_s / early.default_s >= best.tuned_s / best.default_s - 1e-9
        judged.append(len(early.unseen))
    assert judged == sorted(judged)
    assert (judged[0], judged[-1]) == (0, len(best.unseen) - 1)


def test_a_tuning_that_was_stopped_goes_on_and_ends_the_same(tmp_path):
    """Nothing that had run runs again, whenever it was stopped: in the search, while it was judged, or at the end."""
    draft = load.from_values(values(tune={"space": SPACE, "steps": 60}))

    def found(workers, path=None):
        return Tuner(draft, "flow", draft.scenario.tune, workers, lambda *_: None, Journal(path)).run()

    whole = Known()
    best = found(whole)
    for after in (1, 12, whole.count - 2, whole.count):
        path, rest = tmp_path / f"{after}.jsonl", Known()
        with suppress(Interrupted):
            found(Stopped(after), path)
        again = found(rest, path)
        assert again == best
        assert rest.count == whole.count - after


def test_what_its_version_of_nccl_does_not_have_is_not_tried(tmp_path):
    old, new = (space_of(load.from_values(values(collectives={"version": one})), "flow") for one in ("2.22", "2.23"))
    names = [[name for node in one["collectives.algorithm"] for name in node.plain().values()] for one in (old, new)]
    assert ("pat" in names[0], "pat" in names[1], "tree" in names[0]) == (False, True, True)
    path = tmp_path / "s.yaml"
    wanted = {"space": {"collectives.algorithm": [{"all-gather": "pat"}]}}
    path.write_text(json.dumps(values(tune=wanted, collectives={"version": "2.22"}), indent=1))
    draft = load.load(path, [])
    with pytest.raises(InputError, match="has no `pat`, which came with") as caught:
        Tuner(draft, "flow", draft.scenario.tune, Known(), lambda *_: None).run()
    line = 1 + next(at for at, text in enumerate(path.read_text().splitlines()) if '"collectives.algorithm"' in text)
    assert f"{path}:{line + 1}:" in str(caught.value)


def test_values_that_cannot_run_are_told_with_their_place(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(json.dumps(values(tune={"space": SPACE, "steps": 60}), indent=1))
    draft = load.load(path, [])
    (refused,) = Tuner(draft, "flow", draft.scenario.tune, Known(), lambda *_: None).run().refused
    assert refused.headline() == "tune.space.qps: `3` cannot run: three is not a power of two"
    assert path.read_text().splitlines()[refused.line - 1].strip() == "3,"


def test_it_is_judged_on_draws_loads_and_jobs_that_the_search_has_not_seen():
    found = tuned(steps=60, unseen_jobs=2)
    cases = [case for case, _ in found.unseen]
    assert [case.kind for case in cases] == ["draw"] * 4 + ["load"] * 4 + ["job"] * 2
    assert [case.seed for case in cases] == list(range(1000, 1010))
    assert {case.load for case in cases} == {0.0, 0.2}
    jobs = [case for case in cases if case.kind == "job"]
    assert jobs == [case for case, _ in tuned(steps=60, unseen_jobs=2).unseen if case.kind == "job"]
    assert jobs[0].words != jobs[1].words
    assert all({"workload.training.parallelism", "packet.beside"} <= set(case.job) for case in jobs)
    assert found.kinds == ["draw", "load", "job"]
    assert len(tuned(steps=60, unseen_jobs=0).unseen) == 8


def test_the_budget_is_not_overrun_by_more_than_the_last_looks():
    assert len(tuned(steps=9).tried) < len(tuned(steps=60).tried)
    few = tuned(steps=1)
    assert len(few.tried) <= 1 + 7 + 2 * 2
    assert few.settings == {"qps": 4}


def test_intervals_are_students():
    mean, low, high = interval([0.01, 0.02, 0.03, 0.04])
    assert mean == pytest.approx(0.025)
    half = 2.353 * math.sqrt(5 / 3) * 0.01 / 2
    assert (low, high) == (pytest.approx(0.025 - half), pytest.approx(0.025 + half))
    before, after, longer = (TimedStep(step, 1.0, {}) for step in (1.0, 0.9, 1.09))
    unseen = [(TuneCase(1), (before, after)), (TuneCase(2), (before, longer))]
    assert not TuneResult("t", "flow", settings={"qps": 2}, unseen=unseen).sure


def test_settings_that_are_surely_worse_for_other_jobs_are_not_sure():
    before, after, longer = (TimedStep(step, 1.0, {}) for step in (1.0, 0.8, 1.05))
    seen = [(TuneCase(number), (before, after)) for number in range(8)]
    assert TuneResult("t", "flow", settings={"qps": 2}, unseen=seen).sure
    worse = [(TuneCase(number, 0.0, {"workload.training.sequence": 5}), (before, longer)) for number in (8, 9)]
    found = TuneResult("t", "flow", settings={"qps": 2}, unseen=[*seen, *worse])
    assert found.gain()[1] > 0
    assert found.gain("job") == pytest.approx((-0.05, -0.05, -0.05))
    assert not found.sure


def test_nccl_gets_its_own_names():
    found = TuneResult(
        "t",
        "flow",
        settings={
            "qps": 4,
            "collectives.connections": 4,
            "collectives.pxn": False,
            "collectives.algorithm": {"all-reduce": "nvls-tree", "dp all-gather": "ring"},
            "packet.set.marking_most": "1.0",
        },
        **{"ranks": 64, "servers": 8, "nics": 8},
    )
    text = environment(found)
    assert "export NCCL_IB_QPS_PER_CONNECTION=4\n" in text
    assert "export NCCL_MIN_NCHANNELS=32\n" in text
    assert "export NCCL_PXN_DISABLE=1\n" in text
    assert 'export NCCL_ALGO="allreduce:nvlstree"\n' in text
    assert "# collectives.algorithm dp all-gather: ring: not NCCL's to set\n" in text
    assert "# packet.set.marking_most: 1.0" in text
    assert (
        tuner_table(found).splitlines()[1:] == []
    )  # NCCL chooses the protocol by size, and a row cannot leave it to it
    found.settings["collectives.protocol"] = {"all-reduce": "simple"}
    assert tuner_table(found).splitlines()[1] == f"allreduce,0,{1 << 62},nvls_tree,simple,32,8,64,-1,-1"


def test_a_step_of_a_task_is_that_of_a_run():
    from railyard.work.study import study

    task = {"values": values(), "folder": ".", "settings": {"qps": 4}, "engine": "flow", "seed": 7, "load": 0.0}
    draft = load.from_values(values(seed=7), {"qps": 4})
    assert step_s(task) == pytest.approx(study.run(draft).result.variants[0].step.seconds, rel=1e-12)
    assert step_s({**task, "load": 0.3}) > step_s(task)


def test_a_judged_step_says_how_long_collectives_and_flows_took():
    task = {"values": values(packet={"budget_hops": 200_000}), "folder": ".", "settings": {}, "seed": 7, "load": 0.0}
    found = TimedStep.read(judged({**task, "engine": "packet"}))
    assert set(found.times) == {"collectives", "flows"}
    assert found.slice > 1
    assert found.times["flows"].at(0.5) <= found.times["flows"].at(0.99) <= found.times["flows"].at(1.0)
    fluid = TimedStep.read(judged({**task, "engine": "flow"}))
    assert set(fluid.times) == {"collectives"}
    assert fluid.step_s == pytest.approx(step_s({**task, "engine": "flow"}), rel=1e-12)
    assert fluid.slice == 1.0


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("qps", -8, "fabric.qps: must be at least 1"),
        ("qps", "eight", "expected an integer, got 'eight'"),
        ("collectives.conections", 4, "did you mean `connections`"),
        ("packet.set.pfc_alpa", "1", "did you mean `pfc_alpha`"),
        ("packet.set.marking_low", "400 ms", "packet.set.marking_low: "),
        ("packet.set.congestion_control", "dcqcm", "did you mean `dcqcn`"),
    ],
)
def test_a_value_that_no_scenario_has_is_refused_before_any_step_at_its_place(tmp_path, key, value, words):
    good = {"packet.set.pfc_alpha": ["0.5", "2"], "collectives.connections": [2]}
    path = tmp_path / "s.yaml"
    path.write_text(json.dumps(values(tune={"space": {**good, key: [value]}}), indent=1))
    draft = load.load(path, [])
    steps = Known()
    with pytest.raises(InputError) as caught:
        Tuner(draft, "packet", draft.scenario.tune, steps, lambda *_: None).run()
    assert words in str(caught.value)
    line = 1 + next(at for at, text in enumerate(path.read_text().splitlines()) if f'"{key}"' in text)
    assert f"{path}:{line + 1}:" in str(caught.value)
    assert not steps.count


def test_what_is_tuned_trains():
    lengths = {"input": {"mean": 100, "p99": 200}, "output": {"mean": 50, "p99": 90}}
    asked = {"synthetic": {"rate": 1, "count": 9, **lengths}}
    serving = {"model": "llama-3-8b", "pools": {"both": {"replicas": 1}}, "requests": asked}
    draft = load.from_values({**values(), "workload": {"serving": serving}})
    with pytest.raises(InputError, match="settings are tuned for training"):
        space_of(draft, "flow")
    assert "packet.set.marking_most" in space_of(load.from_values(values()), "packet")
    assert "packet.set.marking_most" not in space_of(load.from_values(values()), "flow")


@pytest.mark.parametrize("key", [*CONGESTION, *ULTRA])
def test_settings_of_packets_are_written_as_users_do(key):
    name = key.removeprefix("packet.set.")
    values = {**CONGESTION, **ULTRA}[key]
    written = [getattr(assign(PacketSettings(), [f"{name}={value}"]), CONSTANT[name]) for value in values]
    assert len(set(written)) == len(written)


def test_the_space_follows_the_fabric_and_leaves_out_what_is_written():
    def space(engine, **back_end):
        document = values()
        document["cluster"]["back_end"] |= back_end
        return space_of(load.from_values(document), engine)

    uec = space("packet", fabric="uec")
    assert "packet.set.target_delay" in uec
    assert "packet.set.dcqcn_additive" not in uec
    assert "packet.set.target_delay" not in space("flow", fabric="uec")
    assert not [key for key in space("packet", fabric="infiniband") if key.startswith("packet.")]
    assert [node.plain() for node in space("flow")["cluster.placement"]] == ["spread"]


def test_the_command_refuses_engines_that_see_no_settings(tmp_path, capsys):
    file = tmp_path / "t.yaml"
    file.write_text(yaml.to_text(values()), encoding="utf-8")
    assert guard.run(["tune", str(file), "--engine", "analytic"]) == 2
    assert "settings are tried on an engine that sees them" in capsys.readouterr().err


def test_the_command_prints_json_and_writes_what_nccl_reads(tmp_path, capsys):
    file, env, table = tmp_path / "t.yaml", tmp_path / "nccl.sh", tmp_path / "tuner.csv"
    section = {"space": {"qps": [4]}, "seeds": 1, "unseen_seeds": 2, "unseen_loads": [0.0], "unseen_jobs": 1}
    file.write_text(yaml.to_text(values(tune=section)), encoding="utf-8")
    assert (
        guard.run(["tune", str(file), "--json", "--quiet", "--even-unsure", "--env", str(env), "--tuner", str(table)])
        == 0
    )
    printed = json.loads(capsys.readouterr().out)
    assert printed["seen"]["default_s"] > 0
    assert [one["kind"] for one in printed["unseen"]["cases"]] == ["draw", "draw", "job"]
    assert printed["environment"] == env.read_text()
    assert printed["tuner"] == table.read_text()


def test_the_answer_sets_what_was_found_beside_what_was_written():
    draft = load.from_values(values(tune={"space": SPACE}, collectives={"connections": 2}))
    found = Tuner(draft, "flow", draft.scenario.tune, Known(), lambda *_: None).run()
    answer = answer_of(found, load.dump(draft.scenario))
    changes = {one.key: (one.before, one.after) for one in answer.changes}
    assert changes["collectives.connections"] == (2, 8)
    assert changes["qps"][1] == 4
    assert answer.recommended == answer.settings == {"qps": 4, "collectives.connections": 8}
    assert answer.unseen.gain == pytest.approx(1 - 1 / 1.22)
    assert [one.kept for one in answer.trials].count(True) == 1
    assert {one.key: one.without for one in answer.changes} == pytest.approx(
        {"qps": 0.25, "collectives.connections": 0.02}
    )
    assert [(one.kind, one.count) for one in answer.unseen.kinds] == [("draw", 4), ("load", 4), ("job", 4)]
    assert next(one.change for one in answer.trials if one.settings == {"qps": 8}) == pytest.approx(1.12 / 1.22 - 1)


def test_no_file_is_written_where_the_gain_may_be_chance(tmp_path, capsys, monkeypatch):
    before, longer = TimedStep(1.0, 1.0, {}), TimedStep(1.1, 1.0, {})
    found = TuneResult("t", "flow", 1.0, 0.9, {"qps": 4}, {"qps": (0.1, 0.1)}, unseen=[(TuneCase(1), (before, longer))])
    monkeypatch.setattr("railyard.ask.tune.study.tune", lambda *_, **__: (found, SimpleNamespace(text=str)))
    file, env = tmp_path / "t.yaml", tmp_path / "nccl.sh"
    file.write_text(yaml.to_text(values()), encoding="utf-8")
    assert guard.run(["tune", str(file), "--quiet", "--env", str(env)]) == 0
    printed = capsys.readouterr()
    assert "nothing was written: the gain may be chance" in printed.err
    assert "NCCL_IB_QPS_PER_CONNECTION" not in printed.out
    assert not env.exists()
    assert guard.run(["tune", str(file), "--quiet", "--env", str(env), "--even-unsure"]) == 0
    assert "NCCL_IB_QPS_PER_CONNECTION=4" in env.read_text()


@pytest.mark.parametrize(("changed", "key"), [({"ports": 2_000_000}, "ports"), ({"targets": 17}, "targets")])
def test_bursts_from_more_ports_than_there_are_are_refused_where_they_stand(changed, key, tmp_path, capsys):
    file = tmp_path / "case.yaml"
    burst = {"pattern": "incast", "ports": 15, "size": "64 kB", "every": "500 us"} | changed
    file.write_text(json.dumps(values(engine="packet", packet={"beside": [burst]}), indent=1))
    line = next(at for at, text in enumerate(file.read_text().splitlines(), 1) if f'"{key}"' in text)
    assert guard.run(["tune", str(file)]) == 2
    words = capsys.readouterr().err
    assert f"packet.beside.0.{key}: the back-end has fewer ports" in words
    assert f"{file}:{line}:" in words


def test_two_ports_have_a_neighbour():
    """On a cluster of two ports both take part: an all-to-all of one port would have no flow."""
    ground = JobGround(None, 256, 2, 1, 2, 400e9)
    for seed in range(20):
        beside = _neighbour(ground, np.random.default_rng(seed))
        assert beside["ports"] == 2
