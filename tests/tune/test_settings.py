"""Settings: the search on steps that a hand can work out, the verdict, what is exported."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from railyard.cli import guard
from railyard.engine.packet.mechanisms import CONSTANTS
from railyard.errors import InputError
from railyard.interval import interval
from railyard.scenario import load
from railyard.scenario.packet import PacketSettings, assign
from railyard.scenario.tune_section import TuneSection
from railyard.schema import yaml
from railyard.study.journal import Journal
from railyard.study.tasks import Done
from railyard.tune.settings.answer import answer_of
from railyard.tune.settings.export import environment, tuner_table
from railyard.tune.settings.judging import Run, Times
from railyard.tune.settings.search import Tuned, Tuner
from railyard.tune.settings.space import CONGESTION, space_of
from railyard.tune.settings.work import STEP, judged, step_s

CONSTANT = {one.key: name for name, one in CONSTANTS.items()}


def values(**more):
    cluster = {"accelerators": 16, "server": "hgx-h100", "back_end": {"topology": "leaf-spine", "fabric": "roce"}}
    training = {"model": "llama-3-8b", "global_batch": 16, "sequence": 2048, "parallelism": {"tp": 1, "zero": 3}}
    return {"name": "t", "cluster": cluster, "workload": {"training": training}, **more}


class Known:
    """Steps by a formula: 4 queue pairs are best, 8 channels help only with them, draws and loads move all alike."""

    def __init__(self) -> None:
        self.count = 0

    def run(self, tasks):
        for number, task in enumerate(tasks):
            self.count += 1
            argument = task.argument
            settings = argument["settings"]
            qps, channels = settings.get("qps", 1), settings.get("collectives.connections", 2)
            if qps == 3:
                yield Done(number, error="three is no power of two")
                continue
            step = (
                1.0 + 0.1 * abs(math.log2(qps) - 2) + (0.05 if channels == 8 and qps != 4 else 0.02 * (channels != 8))
            )
            step *= (1 + argument["load"]) * (1 + 0.01 * (argument["seed"] % 3))
            times = {"collectives": Times.of(step * np.arange(1.0, 201.0)).plain()}
            yield Done(number, step if task.function == STEP else {"step_s": step, "slice": 1.0, "times": times})

    def close(self) -> None:
        """Nothing runs on."""


SPACE = {"collectives.connections": [4, 8], "qps": [2, 3, 4, 8]}


def tuned(**section) -> Tuned:
    draft = load.from_values(values(tune={"space": SPACE, **section}))
    return Tuner(draft, "flow", draft.scenario.tune or TuneSection(), Known(), Journal(None), lambda *_: None).run()


def test_the_search_finds_what_helps_only_in_the_second_round():
    found = tuned()
    assert found.settings == {"qps": 4, "collectives.connections": 8}
    assert next(trial.error for trial in found.trials if trial.step_s is None) == "three is no power of two"
    assert found.default_s == pytest.approx(1.22 * 1.005)
    assert found.tuned_s == pytest.approx(1.005)
    assert found.gain[0] == pytest.approx(1 - 1 / 1.22)
    assert found.sure
    assert {case[1] for case in found.unseen} == {0.0, 0.2}
    assert sorted(case[0] for case in found.unseen) == list(range(1000, 1008))
    assert tuned(rounds=1).settings == {"qps": 4}


def test_intervals_are_students():
    mean, low, high = interval([0.01, 0.02, 0.03, 0.04])
    assert mean == pytest.approx(0.025)
    half = 2.353 * math.sqrt(5 / 3) * 0.01 / 2
    assert (low, high) == (pytest.approx(0.025 - half), pytest.approx(0.025 + half))
    before, after, longer = (Run(step, 1.0, {}) for step in (1.0, 0.9, 1.09))
    unseen = {(1, 0.0): (before, after), (2, 0.0): (before, longer)}
    assert not Tuned("t", "flow", settings={"qps": 2}, unseen=unseen).sure


def test_nccl_gets_its_own_names():
    found = Tuned(
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
    from railyard.study import study

    task = {"values": values(), "folder": ".", "settings": {"qps": 4}, "engine": "flow", "seed": 7, "load": 0.0}
    draft = load.from_values(values(seed=7), {"qps": 4})
    assert step_s(task) == pytest.approx(study.run(draft).result.variants[0].step.seconds, rel=1e-12)
    assert step_s({**task, "load": 0.3}) > step_s(task)


def test_a_judged_step_says_how_long_collectives_and_flows_took():
    task = {"values": values(packet={"budget_hops": 200_000}), "folder": ".", "settings": {}, "seed": 7, "load": 0.0}
    found = Run.read(judged({**task, "engine": "packet"}))
    assert set(found.times) == {"collectives", "flows"}
    assert found.slice > 1
    assert found.times["flows"].at(0.5) <= found.times["flows"].at(0.99) <= found.times["flows"].at(1.0)
    fluid = Run.read(judged({**task, "engine": "flow"}))
    assert set(fluid.times) == {"collectives"}
    assert fluid.step_s == pytest.approx(step_s({**task, "engine": "flow"}), rel=1e-12)
    assert fluid.slice == 1.0


def test_what_is_tuned_trains():
    lengths = {"input": {"mean": 100, "p99": 200}, "output": {"mean": 50, "p99": 90}}
    asked = {"synthetic": {"rate": 1, "count": 9, **lengths}}
    serving = {"model": "llama-3-8b", "pools": {"both": {"replicas": 1}}, "requests": asked}
    draft = load.from_values({**values(), "workload": {"serving": serving}})
    with pytest.raises(InputError, match="settings are tuned for training"):
        space_of(draft, "flow")
    assert "packet.set.marking_most" in space_of(load.from_values(values()), "packet")
    assert "packet.set.marking_most" not in space_of(load.from_values(values()), "flow")


@pytest.mark.parametrize("key", list(CONGESTION))
def test_settings_of_packets_are_written_as_users_do(key):
    name = key.removeprefix("packet.set.")
    written = [getattr(assign(PacketSettings(), [f"{name}={value}"]), CONSTANT[name]) for value in CONGESTION[key]]
    assert len(set(written)) == len(written)


def test_the_command_refuses_engines_that_see_no_settings(tmp_path, capsys):
    file = tmp_path / "t.yaml"
    file.write_text(yaml.to_text(values()), encoding="utf-8")
    assert guard.run(["tune", str(file), "--engine", "analytic"]) == 2
    assert "settings are tried on an engine that sees them" in capsys.readouterr().err


def test_the_command_prints_json_and_writes_what_nccl_reads(tmp_path, capsys):
    file, env, table = tmp_path / "t.yaml", tmp_path / "nccl.sh", tmp_path / "tuner.csv"
    section = {"space": {"qps": [4]}, "seeds": 1, "unseen_seeds": 2, "unseen_loads": [0.0]}
    file.write_text(yaml.to_text(values(tune=section)), encoding="utf-8")
    assert guard.run(["tune", str(file), "--json", "--quiet", "--env", str(env), "--tuner", str(table)]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["seen"]["default_s"] > 0
    assert len(printed["unseen"]["cases"]) == 2
    assert printed["environment"] == env.read_text()
    assert printed["tuner"] == table.read_text()


def test_the_answer_sets_what_was_found_beside_what_was_written():
    draft = load.from_values(values(tune={"space": SPACE}, collectives={"connections": 2}))
    found = Tuner(draft, "flow", draft.scenario.tune, Known(), Journal(None), lambda *_: None).run()
    answer = answer_of(found, load.dump(draft.scenario))
    changes = {one.key: (one.before, one.after) for one in answer.changes}
    assert changes["collectives.connections"] == (2, 8)
    assert changes["qps"][1] == 4
    assert answer.recommended == answer.settings == {"qps": 4, "collectives.connections": 8}
    assert answer.unseen.gain == pytest.approx(1 - 1 / 1.22)
    assert [one.kept for one in answer.trials].count(True) >= 2
