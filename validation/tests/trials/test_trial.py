"""Drawing, running and judging of trials."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from railyard.kit.errors import SimulationError
from railyard.work.study.tasks import call
from railyard.work.study.workers import Local, every
from railyard_validation.traces.judge import JUDGED
from railyard_validation.trials.trial import NAMED, Case, Trial, run, trials

if TYPE_CHECKING:
    import numpy as np

TOOLS = Path(__file__).resolve().parents[2] / "tools"


def drawn(generator: np.random.Generator, folder: Path) -> Case:
    name = f"model-{generator.integers(1_000_000)}"
    (folder / "drawn.txt").write_text(name, encoding="utf-8")
    return Case(
        words=name,
        commands=[["catalog", "show", name], ["catalog", "show", "h100", "--json"]],
        judge=lambda outputs: [] if outputs[0].code == 2 and outputs[1].data else ["found"],
    )


def test_a_variant_depends_on_seed_and_number_alone(tmp_path):
    trial = Trial("toy", "an unknown model is refused", drawn)
    first = [run(trial, number, seed=3, folder=tmp_path / "a") for number in range(2)]
    assert first[0] == run(trial, 0, seed=3, folder=tmp_path / "b")
    assert first[0].words != first[1].words
    assert [row.problems for row in first] == [(), ()]
    assert (tmp_path / "a" / "toy-1" / "drawn.txt").read_text(encoding="utf-8") == first[1].words


def dies_once(mark: Path) -> None:
    """The first process that begins is killed."""
    with suppress(FileExistsError):
        mark.touch(exist_ok=False)
        os.kill(os.getpid(), signal.SIGKILL)


TASKS = {
    NAMED: [{"trial": "memory-refusal", "seed": 3, "number": 0}],
    JUDGED: [{"seed": 3, "number": number, "noise": 1.0} for number in (0, 11)],
}


@pytest.mark.parametrize("function", TASKS, ids=("trials", "diagnosis"))
def test_a_killed_worker_changes_nothing_of_what_comes_out(function, tmp_path):
    tasks = [{**task, "folder": str(tmp_path)} for task in TASKS[function]]
    alone = [call(function, task) for task in tasks]
    pool, words = Local(2, partial(dies_once, tmp_path / "mark")), []
    assert every(pool, function, tasks, lambda what, _: words.append(what)) == alone
    assert words[-1] == f"{len(tasks)} of {len(tasks)}"
    assert (tmp_path / "mark").exists()


def test_a_task_that_fails_is_named():
    with pytest.raises(SimulationError, match="there is no trial"):
        every(Local(1), NAMED, [{"trial": "x", "seed": 3, "number": 0}], lambda *_: None)


def test_an_answer_without_what_was_asked_is_a_problem(tmp_path):
    trial = Trial(
        "toy", "", lambda _generator, _folder: Case("x", [["--version"]], lambda outputs: outputs[0].data["x"])
    )
    judged = run(trial, 0, seed=3, folder=tmp_path)
    assert "the answer cannot be read" in judged.problems[0]
    assert "exit 0" in judged.problems[0]


def test_the_page_is_of_the_table_and_the_table_of_known_trials(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    import trials_page

    try:
        records = trials_page.records()
        assert set(records) <= set(trials.names())
        assert all(row["correction"] for row in records.values() if row["first"] not in ("", row["now"]))
        assert trials_page.PAGE.read_text(encoding="utf-8") == trials_page.page()
    finally:
        sys.modules.pop("trials_page")
