"""Precision, recall and calibration of `railyard diagnose` on drawn cases."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.observe.answer import answer_of
from railyard.ask.observe.diagnose import diagnose
from railyard_validation.traces.cases import SITUATIONS, drawn

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from railyard_validation.traces.cases import Truth, Wrong

BINS = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 1.01)
HEDGED = 0.7
"""Where evidence does not suffice, a part may be named with no more confidence than this."""


@dataclass(frozen=True)
class Judged:
    """A case, what was answered, and how they compare.

    Attributes:
        number: Of the case.
        truth: What is true.
        answer: What `diagnose --json` printed.
        found: For each fault the row of the verdict that names it; None where none does.
        right: For each row of the verdict whether it names a fault, part and kind.
    """

    number: int
    truth: Truth
    answer: dict[str, Any]
    found: tuple[dict[str, Any] | None, ...]
    right: tuple[bool, ...]

    @property
    def enough(self) -> bool:
        """Whether the evidence suffices."""
        return self.truth.evidence == "enough"

    @property
    def unknown(self) -> bool:
        """Whether the answer is "I do not know" where a fault could have been named, or health confirmed."""
        named_all = bool(self.truth.wrong) and all(self.found)
        return bool(self.answer["unknown"]) and not named_all

    @property
    def honest(self) -> bool:
        """Where evidence is short or faint: no wrong part is claimed, and short evidence is not called health."""
        wrong = [row for row, right in zip(self.answer["verdict"], self.right, strict=True) if not right]
        if any(row["confidence"] > HEDGED for row in wrong):
            return False
        named = bool(self.truth.wrong) and all(self.found)
        return self.truth.evidence == "faint" or named or bool(self.answer["unknown"])


JUDGED = f"{__name__}:judged"


def judged(task: Mapping[str, Any]) -> Judged:
    """Draws a case, diagnoses it and compares.

    Args:
        task: `number`, `seed`: case `n` depends on the seed and `n` alone; the situations of 60 come round again after
            60. `folder`: where the traces of each case go; what is true of them does not. `noise`: factor on what
            differs by chance.
    """
    number = task["number"]
    place = Path(task["folder"]) / f"case-{number:03}"
    draw = np.random.default_rng([task["seed"], number])
    truth = drawn(SITUATIONS[number % len(SITUATIONS)], draw, place, task["noise"])
    return compared(number, truth, json.loads(answer_of(diagnose(place), place.name, None).text()))


def compared(number: int, truth: Truth, answer: dict[str, Any]) -> Judged:
    """An answer against the truth."""
    rows = answer["verdict"]
    right = tuple(any(_names(wrong, row) for wrong in truth.wrong) for row in rows)
    return Judged(number, truth, answer, tuple(_found(wrong, rows) for wrong in truth.wrong), right)


def _names(wrong: Wrong, row: dict[str, Any]) -> bool:
    """Whether a row names the fault or one of its ranks, and its kind."""
    names = (*wrong.parts, *wrong.each)
    return row["kind"] in wrong.kinds and (not names or row["part"] in names)


def _found(wrong: Wrong, rows: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """A row that names all of the fault, or the first of several that do together."""
    mine = [row for row in rows if _names(wrong, row)]
    alone = next((row for row in mine if row["part"] in wrong.parts or not (wrong.parts or wrong.each)), None)
    together = bool(wrong.each) and {row["part"] for row in mine} >= set(wrong.each)
    return alone or (mine[0] if together else None)


def report(cases: Sequence[Judged]) -> dict[str, Any]:
    """Figures over all cases."""
    rows = [(row, right) for case in cases for row, right in zip(case.answer["verdict"], case.right, strict=True)]
    enough = [case for case in cases if case.enough]
    faults = [(case, wrong, row) for case in enough for wrong, row in zip(case.truth.wrong, case.found, strict=True)]
    named = [(wrong, row) for _, wrong, row in faults if row is not None]
    patterned = [(wrong, row) for wrong, row in named if wrong.pattern]
    healthy = [case for case in cases if not case.truth.wrong]
    return {
        "cases": len(cases),
        "precision": _share([right for _, right in rows]),
        "recall": _share([row is not None for _, _, row in faults]),
        "unknown_where_evidence_suffices": _share([case.unknown for case in enough]),
        "named_where_nothing_is_wrong": _share([bool(case.answer["verdict"]) for case in healthy]),
        "honest_where_evidence_is_short": _share([case.honest for case in cases if not case.enough]),
        "missing_ranks": _share([tuple(case.answer.get("missing_ranks", ())) == case.truth.missing for case in cases]),
        "pattern": _share([row.get("pattern") == wrong.pattern for wrong, row in patterned]),
        "slow_steps": _share([tuple(row.get("slow_steps", ())) == wrong.steps for wrong, row in patterned]),
        "by_situation": {
            name: _share([case.found == () or all(case.found) for case in enough if case.truth.situation == name])
            for name in dict.fromkeys(SITUATIONS)
        },
        "reliability": _reliability(rows),
    }


def _share(found: Sequence[bool]) -> tuple[int, int]:
    """How many, of how many."""
    return sum(found), len(found)


def _reliability(rows: Sequence[tuple[dict[str, Any], bool]]) -> list[dict[str, Any]]:
    """Rows of verdicts by the confidence that they state."""
    listed = []
    for low, high in pairwise(BINS):
        mine = [(row["confidence"], right) for row, right in rows if low <= row["confidence"] < high]
        if mine:
            mean = float(np.mean([sure for sure, _ in mine]))
            right, count = _share([one for _, one in mine])
            listed.append({"from": low, "to": min(high, 1.0), "stated": mean, "right": right, "rows": count})
    return listed


def mistakes(cases: Sequence[Judged]) -> Iterator[str]:
    """A sentence for every case that is not as it should be."""
    for case in cases:
        wrong = not all(case.right) or (case.enough and (case.unknown or not all(case.found)))
        missing = tuple(case.answer.get("missing_ranks", ())) != case.truth.missing
        if wrong or missing or not (case.enough or case.honest):
            said = "; ".join(map(_words, case.answer["verdict"])) or "nothing"
            yield (
                f"{case.number} ({case.truth.evidence}): {case.truth.words} -> {said}, unknown {case.answer['unknown']}"
            )


def _words(row: dict[str, Any]) -> str:
    where = f"{row.get('pattern', '')} {row.get('slow_steps', '')}"
    return f"{row['part']} {row['kind']} {row['confidence']:.2f} {where}"
