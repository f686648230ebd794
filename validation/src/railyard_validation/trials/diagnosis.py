"""Diagnosis of traces: uneven sequences, slow steps, missing files, too little data, two faults at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from railyard_validation.traces.cases import (
    Plan,
    Truth,
    accelerator,
    intermittent,
    loader,
    plan,
    sequences,
    written,
)
from railyard_validation.traces.judge import compared
from railyard_validation.trials.trial import Case, Trial, trials

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import numpy as np

    from railyard_validation.trials.trial import Output

    Check = Callable[["DiagnosedCase"], Iterator[str]]

HEDGED = 0.7
"""Confidence above which a claim is no longer hedged."""


@dataclass(frozen=True)
class DiagnosedCase:
    """A case, and what was answered.

    Attributes:
        truth: What is true.
        answer: As JSON.
        text: As users read it.
    """

    truth: Truth
    answer: dict[str, Any]
    text: str


def _trial(name: str, expected: str, make: Callable[[np.random.Generator], Plan], *checks: Check) -> None:
    def draw(rng: np.random.Generator, folder: Path) -> Case:
        truth = written(make(rng), name, rng, folder / "traces")

        def judge(outputs: Sequence[Output]) -> list[str]:
            diagnosed = DiagnosedCase(truth, outputs[0].data, outputs[1].text)
            return [problem for check in checks for problem in check(diagnosed)]

        commands = [["diagnose", "traces", "--json"], ["diagnose", "traces"]]
        return Case(truth.words, commands, judge)

    trials.add(name, Trial(name, expected, draw))


def _named(diagnosed: DiagnosedCase) -> Iterator[str]:
    """Every fault is named, with its kind, pattern and steps, and nothing else is."""
    case = compared(0, diagnosed.truth, diagnosed.answer)
    for wrong, row in zip(diagnosed.truth.wrong, case.found, strict=True):
        if row is None:
            yield f"{wrong.parts or wrong.each} ({wrong.kinds[0]}) is not named: {diagnosed.answer['verdict']}"
        elif (row["pattern"], tuple(row["slow_steps"])) != (wrong.pattern, wrong.steps):
            yield f"{row['part']} is {wrong.pattern} in steps {wrong.steps}: {row['pattern']} in {row['slow_steps']}"
    wrongly = [row["part"] for row, right in zip(diagnosed.answer["verdict"], case.right, strict=True) if not right]
    if wrongly:
        yield f"named without reason: {', '.join(wrongly)}"
    if not diagnosed.answer["steps"]:
        yield "no test is recommended"


def _first_line(diagnosed: DiagnosedCase) -> Iterator[str]:
    """The first line names the part, says what is slow by how much, and how sure that is."""
    first = diagnosed.text.splitlines()[0] if diagnosed.text else ""
    words = [str(diagnosed.answer["verdict"][0]["part"]), "%"] if diagnosed.answer["verdict"] else []
    if diagnosed.truth.wrong and diagnosed.truth.wrong[0].pattern == "intermittent":
        words += [str(diagnosed.truth.wrong[0].steps[0]), "step"]
    missing = [word for word in words if word.lower() not in first.lower()]
    if missing:
        yield f"the first line does not say {', '.join(missing)}: {first!r}"


def _missing(diagnosed: DiagnosedCase) -> Iterator[str]:
    """Which files are missing."""
    if tuple(diagnosed.answer["missing_ranks"]) != diagnosed.truth.missing:
        yield f"files of {diagnosed.truth.missing} are missing: {diagnosed.answer['missing_ranks']}"


def _hedged(diagnosed: DiagnosedCase) -> Iterator[str]:
    """Unknown, or claimed with little confidence; no claim of another part or kind."""
    case = compared(0, diagnosed.truth, diagnosed.answer)
    sure = [row["part"] for row in diagnosed.answer["verdict"] if row["confidence"] > HEDGED]
    if sure:
        yield f"claimed with more than {HEDGED:.0%}: {', '.join(sure)}"
    if not diagnosed.answer["unknown"] and not diagnosed.answer["verdict"]:
        yield "nothing is called wrong where too little is known"
    if not all(case.right):
        yield f"claimed without reason: {diagnosed.answer['verdict']}"


def _two(rng: np.random.Generator) -> Plan:
    """Two files of a job with one slow rank."""
    drawn = plan(rng, "data")
    accelerator(drawn, rng)
    guilty = next(iter(drawn.wrong[0].effects[0].ranks))
    other = int(rng.choice([rank for rank in range(drawn.job.ranks) if rank != guilty]))
    drawn.files = tuple(sorted((guilty, other)))
    return drawn


def _short(rng: np.random.Generator) -> Plan:
    """A few kernels of every rank."""
    drawn = plan(rng, "data")
    drawn.kernels = int(rng.integers(2, 10))
    return drawn


def _both(rng: np.random.Generator) -> Plan:
    """A slow accelerator and a slow host."""
    drawn = plan(rng, "data")
    accelerator(drawn, rng)
    loader(drawn, rng)
    return drawn


def _of(*draws: Callable[[Plan, np.random.Generator], None]) -> Callable[[np.random.Generator], Plan]:
    def make(rng: np.random.Generator) -> Plan:
        drawn = plan(rng)
        for draw in draws:
            draw(drawn, rng)
        return drawn

    return make


_trial(
    "diagnose-sequences",
    "longer attention with equal GEMMs is uneven sequences, no bad accelerator",
    _of(sequences),
    _named,
    _first_line,
)
_trial(
    "diagnose-intermittent",
    "a rank that is slow in some steps is intermittent, with those steps",
    _of(intermittent),
    _named,
    _first_line,
)
_trial("diagnose-two-files", "two files of many: unknown or hedged, and which are missing", _two, _missing, _hedged)
_trial("diagnose-too-little", "a handful of kernels is unknown, not healthy", _short, _hedged, _missing)
_trial("diagnose-two-faults", "both of two faults are named", _both, _named, _first_line)
