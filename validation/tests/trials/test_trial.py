"""Drawing, running and judging of trials."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from railyard_validation.trials.trial import Case, Trial, run, trials

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
    first = list(run(trial, variants=2, seed=3, folder=tmp_path / "a"))
    again = list(run(trial, variants=1, seed=3, folder=tmp_path / "b"))
    assert first[0] == again[0]
    assert first[0].words != first[1].words
    assert [row.problems for row in first] == [(), ()]
    assert (tmp_path / "a" / "toy-1" / "drawn.txt").read_text(encoding="utf-8") == first[1].words


def test_an_answer_without_what_was_asked_is_a_problem(tmp_path):
    trial = Trial(
        "toy", "", lambda _generator, _folder: Case("x", [["--version"]], lambda outputs: outputs[0].data["x"])
    )
    (judged,) = run(trial, variants=1, seed=3, folder=tmp_path)
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
