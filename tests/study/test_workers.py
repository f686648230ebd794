"""Tasks on processes: every one once, with its error where it fails, however its process ends."""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest

from railyard.kit.errors import InputError
from railyard.work.study.folder import Journal, key_of
from railyard.work.study.tasks import Task
from railyard.work.study.workers import Local, workers

HERE = "tests.study.test_workers"


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


def test_every_task_once_with_its_error(pool):
    tasks = [Task(f"{__name__}:squared", number) for number in range(6)]
    done = {one.number: one for one in pool.run(tasks)}
    assert [done[number].value for number in (0, 1, 2, 4, 5)] == [0, 1, 4, 16, 25]
    assert "three is no number" in done[3].error


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
    with pytest.raises(InputError, match="no journal"):
        Journal(path)
