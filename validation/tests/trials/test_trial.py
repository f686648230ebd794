"""Drawing, running and judging of trials."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard_validation.trials.trial import Case, Trial, run

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np


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
