"""Comparisons variant by variant: kept as they end, so that a kill loses none; what fails takes no other with it."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from railyard.face import api
from railyard.face.cli import guard
from railyard.face.reports import decision
from railyard.face.web.views import prices
from railyard.kit.errors import InputError, SimulationError
from railyard.kit.schema import yaml
from railyard.work.scenario import load
from railyard.work.scenario.load import expand
from railyard.work.study import study, sweep
from railyard.work.study.folder import Journal, key_of, read_result
from railyard.work.study.kind import StudyKind
from railyard.work.study.tasks import Done, Task, call
from railyard.work.study.workers import Local, workers

if TYPE_CHECKING:
    from pathlib import Path

SCENARIO = {
    "name": "s",
    "cluster": {"accelerators": 16, "server": "hgx-h100", "back_end": {"topology": "leaf-spine"}},
    "workload": {
        "training": {
            **{"model": "llama-3-8b", "global_batch": 16, "sequence": 2048, "tokens": "1 T"},
            "parallelism": {"tp": 4, "pp": 1},
        }
    },
}
VARIES = ["fabric=roce,uec,infiniband", "micro_batch=1,2"]


def files_of(folder: Path) -> dict[str, bytes]:
    """What a run wrote, but for when it was and what follows from that."""
    found = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    plain = json.loads(found["result.json"])
    del plain["provenance"]["created"]
    found["result.json"] = json.dumps(plain).encode()
    return {name: data for name, data in found.items() if name not in ("report.html", ".railyard-files")}


def ran(out: Path, **more: Any) -> study.FinishedStudy:
    return study.run(load.from_values(SCENARIO), VARIES, engine="analytic", out=out, searched=False, **more)


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    found = ran(tmp_path_factory.mktemp("straight"))
    assert not list(found.folder.parent.glob(".*"))  # nothing is kept of a run that is complete
    return files_of(found.folder)


class Counted:
    """Variants as their kind runs them; some end otherwise."""

    def __init__(self, monkeypatch, ends: dict[str, BaseException] | None = None) -> None:
        self.names: list[str] = []
        through = StudyKind.one

        def one(kind: Any, prepared: Any, place: Path | None, control: Any) -> Any:
            name = prepared.variant.name
            if name in (ends or {}):
                raise ends[name]
            found = through(kind, prepared, place, control)
            self.names.append(name)
            return found

        monkeypatch.setattr(StudyKind, "one", one)


def test_after_a_kill_what_ended_does_not_run_again_and_the_bytes_are_the_same(tmp_path, monkeypatch, straight):
    first = Counted(monkeypatch, {"infiniband, micro batch 1": KeyboardInterrupt()})
    with pytest.raises(KeyboardInterrupt):
        ran(tmp_path)
    monkeypatch.undo()
    assert first.names
    points = tmp_path / sweep.POINTS
    (state,) = points.iterdir()
    torn = state / f"{next(state.iterdir()).name}.4711"
    torn.mkdir()
    (torn / "timeline.parquet").write_bytes(b"half of it")
    second = Counted(monkeypatch)
    found = ran(tmp_path)
    assert sorted([*first.names, *second.names]) == sorted(one.name for one in found.result.variants)
    assert files_of(found.folder) == straight
    assert not points.exists()


def test_a_variant_that_fails_is_kept_with_its_error(tmp_path, monkeypatch, capsys):
    Counted(monkeypatch, {"uec, micro batch 2": SimulationError("a rank waits for ever")})
    found = ran(tmp_path)
    assert [one.name for one in found.result.failed] == ["uec, micro batch 2"]
    assert found.result.failed[0].settings == {"fabric": "uec", "micro_batch": 2}
    missing = {"title": "Left out", "lines": ['"uec, micro batch 2" has no figures: a rank waits for ever.']}
    assert missing in decision(found.result)["lists"]
    assert len(found.result.variants) == 5
    folders = sorted(path.name for path in (found.folder / "variants").iterdir())
    assert folders == [f"{at}-{name}" for at, name in enumerate(NAMES, 1)]
    monkeypatch.undo()
    again = Counted(monkeypatch)
    assert [one.error for one in ran(tmp_path).result.failed] == ["a rank waits for ever"]
    assert again.names == []
    kept = read_result(found.folder / "result.json")
    assert prices.ledgers(kept, found.folder)
    assert len(api.compare_runs([found.folder, ran(tmp_path / "other").folder], out=tmp_path).result.variants) == 11
    file = tmp_path / "s.yaml"
    file.write_text(yaml.to_text(SCENARIO), encoding="utf-8")
    Counted(monkeypatch, {"uec": SimulationError("a rank waits for ever")})
    args = ["compare", str(file), "--vary", "fabric=roce,uec", "--engine", "analytic", "--out", str(tmp_path)]
    assert guard.run([*args, "--quiet"]) == 1
    printed = capsys.readouterr()
    assert "roce" in printed.out
    assert "1 of 2 variants failed: uec: a rank waits for ever" in printed.err


NAMES = ["roce-micro-batch-2", "uec-micro-batch-1", "infiniband-micro-batch-1", "infiniband-micro-batch-2"]


def test_where_none_ends_well_nothing_is_written(tmp_path, monkeypatch):
    Counted(monkeypatch, dict.fromkeys(["roce", "uec"], SimulationError("a rank waits for ever")))
    with pytest.raises(SimulationError, match="none of the 2 variants succeeded: a rank waits for ever"):
        study.run(load.from_values(SCENARIO), ["fabric=roce,uec"], engine="analytic", out=tmp_path, searched=False)
    assert [path.name for path in tmp_path.iterdir()] == [sweep.POINTS]


class Elsewhere:
    """Tasks as Ray has them: plain values there and back, the last first; one may be killed."""

    def __init__(self, killed: int = -1) -> None:
        self.killed, self.tasks = killed, []

    def run(self, tasks: list[Any]):
        for number in reversed(range(len(tasks))):
            task = tasks[number]
            self.tasks.append(task.argument["variants"][-1][0])
            if number == self.killed:
                yield Done(number, error=sweep.GONE)
                continue
            yield Done(number, call(task.function, json.loads(json.dumps(task.argument))))

    def close(self) -> None:
        """Nothing runs on."""


def test_elsewhere_the_bytes_are_the_same_and_a_killed_task_runs_again(tmp_path, monkeypatch, straight):
    pool = Elsewhere(killed=1)
    lost = ran(tmp_path, pool=lambda: pool)
    assert [one.error for one in lost.result.failed] == [sweep.GONE]
    pool.killed = -1
    found = ran(tmp_path, pool=lambda: pool)
    assert pool.tasks.count("roce, micro batch 2") == 2
    assert len(pool.tasks) == 7
    assert files_of(found.folder) == straight


@pytest.mark.parametrize("pool", [None, Elsewhere], ids=["here", "elsewhere"])
def test_where_the_input_of_all_is_wrong_its_place_is_named_and_nothing_is_written(tmp_path, pool):
    faults = [{"kind": "switch-down", "switch": "spine 99"}]
    file = tmp_path / "s.yaml"
    file.write_text(yaml.to_text({**SCENARIO, "faults": faults}), encoding="utf-8")
    with pytest.raises(InputError) as wrong:
        study.run(load.load(file), VARIES[:1], engine="analytic", out=tmp_path / "runs", searched=False, pool=pool)
    (problem,) = wrong.value.problems
    lines = file.read_text(encoding="utf-8").splitlines()
    assert (problem.file, problem.key) == (str(file), "faults.0.switch")
    assert "spine 99" in lines[problem.line - 1]
    assert problem.allowed == "leaf 0"
    assert not (tmp_path / "runs").exists()


def test_a_bound_goes_elsewhere_with_the_products_whose_layout_it_has(tmp_path):
    """The task of `ideal` has all three, that of a product only itself."""
    document = load.from_values({**SCENARIO, "compare": {"vary": {"fabric": ["ideal", "roce", "uec"]}}})
    found = sweep.Sweep.of(document, expand(document), "analytic", tmp_path, searched=False)
    tasks = [[name for name, *_ in found._task(number)["variants"]] for number in range(3)]
    assert tasks == [["roce", "uec", "ideal"], ["roce"], ["uec"]]
    assert sweep.ran(found._task(0))["measured"]["variant"]["name"] == "ideal"


def test_what_is_known_follows_from_scenario_files_and_engine(tmp_path):
    def places(text: str, **more: Any) -> set[str]:
        (tmp_path / "parts.yaml").write_text(text, encoding="utf-8")
        draft = load.from_values({**SCENARIO, "catalog": "parts.yaml"})
        draft = dataclasses.replace(draft, folder=tmp_path)
        variants = [sweep.Variant("a", {}, draft)]
        found = sweep.Sweep.of(draft, variants, more.get("engine"), tmp_path, searched=more.get("searched", True))
        return {found.place(0).name}

    first = places("{}")
    assert places("{}") == first
    assert len(set.union(first, places("# other"), places("{}", engine="flow"), places("{}", searched=False))) == 4


# Tasks on processes: every one once, with its error where it fails, however its process ends.

HERE = "tests.work.study.test_sweep"


def squared(number: int) -> int:
    if number == 3:
        raise InputError("three is no number", key="number")
    return number * number


def killed(_argument: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def asleep(seconds: float) -> None:
    time.sleep(seconds)


@pytest.fixture(scope="module")
def pool():
    found = Local(2)
    yield found
    found.close()


@pytest.mark.processes
def test_every_task_once_with_its_error(pool):
    tasks = [Task(f"{__name__}:squared", number) for number in range(6)]
    done = {one.number: one for one in pool.run(tasks)}
    assert [done[number].value for number in (0, 1, 2, 4, 5)] == [0, 1, 4, 16, 25]
    assert "three is no number" in done[3].error


@pytest.mark.processes
def test_a_killed_worker_loses_its_task_alone(pool):
    tasks = [Task(f"{__name__}:killed", None), Task(f"{__name__}:squared", 7)]
    done = {one.number: one for one in pool.run(tasks)}
    assert "killed" in done[0].error
    assert done[1].value == 49


def test_a_task_that_takes_too_long_is_given_up(pool):
    done = list(pool.run([Task(f"{__name__}:asleep", 60.0, limit_s=0.2)]))
    assert done[0].error == "stopped after 0.2 s"


def test_ray_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"railyard\[ray\]"):
        workers("127.0.0.1:1")


def test_a_journal_keeps_whole_lines(tmp_path):
    path = tmp_path / "a" / "j.jsonl"
    journal = Journal(path)
    journal.add(key_of("one", 1), {"x": 0.1})
    journal.add(key_of("two"), [1], sync=False)
    journal.close()
    path.write_bytes(path.read_bytes() + b'["torn", {"x')
    again = Journal(path)
    assert again.known == {key_of("one", 1): {"x": 0.1}, key_of("two"): [1]}
    assert path.read_bytes().endswith(b"\n")
    assert key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1}) != key_of({"a": 2, "b": 1})
    path.write_text("no json\n")
    with pytest.raises(InputError, match="not a journal"):
        Journal(path)
