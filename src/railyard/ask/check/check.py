"""The assertions of a scenario, each judged of every variant."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from railyard.ask.check import grammar
from railyard.ask.check.assertion import Subject
from railyard.ask.deploy.junit import Case
from railyard.kit.errors import InputError, Interrupted
from railyard.work.scenario.load import blaming
from railyard.work.scenario.variants import expand
from railyard.work.study.study import prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from railyard.ask.check.assertion import Assertion, Outcome
    from railyard.kit.errors import Problem
    from railyard.measure.result.result import Result
    from railyard.work.scenario.load import Draft


@dataclass(frozen=True)
class Checked:
    """One assertion of one variant.

    Attributes:
        assertion: As the scenario writes it.
        variant: Of which it was judged.
        outcome: What was found.
    """

    assertion: str
    variant: str
    outcome: Outcome

    def case(self, *, several: bool) -> Case:
        """As JUnit has it; with the variant in its name where there are several."""
        one, name = self.outcome, f"{self.assertion} [{self.variant}]" if several else self.assertion
        words = f"found: {one.found}" + (f"\n{one.remark}" if one.remark else "")
        return Case(name, None if one.holds else one.found, words)


def check(
    draft: Draft, run: Callable[[Sequence[Any]], Result], progress: Callable[[str, float], None]
) -> tuple[list[Checked], bool]:
    """Judges every assertion of a scenario, in its order, of every variant that it compares.

    A signal ends it with the assertions that were judged by then, and those about figures of variants that had ended.

    Args:
        draft: The scenario.
        run: Runs its variants, given ready to run; called once, and only where an assertion is about figures.
        progress: Takes what is being done, and its share from 0 to 1.

    Returns:
        The assertions that were judged, and whether a signal stopped it.

    Raises:
        InputError: There is no assertion, one is wrong, or one cannot be judged of this scenario.
        Interrupted: It was stopped before an assertion was judged.
        SimulationError: The run cannot finish.
    """
    asserted, prepared = _read(draft), cache(partial(prepare, draft))
    result = cache(lambda: run(prepared()))
    subjects = [
        Subject(variant.name, variant.draft, _Prepared(prepared, number), _Measured(result, variant.name), progress)
        for number, variant in enumerate(expand(draft))
    ]
    for number, (_, assertion) in enumerate(asserted):
        for subject in subjects:
            with blaming(draft, "check", str(number)):
                assertion.check(subject)
    return _judged(asserted, subjects)


def _judged(asserted: Sequence[tuple[str, Assertion]], subjects: Sequence[Subject]) -> tuple[list[Checked], bool]:
    """Every assertion of every variant; after a signal only those of the kind that waited for the run."""
    found: list[Checked] = []
    stopped: type[Assertion] | None = None
    for text, assertion in asserted:
        for subject in subjects:
            if stopped not in (None, type(assertion)):
                continue
            try:
                found.append(Checked(text, subject.name, assertion.judge(subject)))
            except Interrupted:
                stopped = type(assertion)
    if stopped is not None and not found:
        raise Interrupted
    return found, stopped is not None


@dataclass(frozen=True)
class _Measured:
    """One variant of a result that is not there yet; `Interrupted` where the run was stopped before it ended."""

    result: Callable[[], Result]
    name: str

    def __call__(self) -> Any:
        found = next((one for one in self.result().variants if one.name == self.name), None)
        if found is None:
            raise Interrupted
        return found


@dataclass(frozen=True)
class _Prepared:
    """One variant, ready to run; all are prepared at once, so that layouts are searched once."""

    prepared: Callable[[], Sequence[Any]]
    number: int

    def __call__(self) -> Any:
        return self.prepared()[self.number]


def _read(draft: Draft) -> list[tuple[str, Assertion]]:
    texts = draft.scenario.check
    if texts is None:
        raise InputError("the scenario asserts nothing", key="check", allowed=grammar.forms())
    out: list[tuple[str, Assertion]] = []
    problems: list[Problem] = []
    for number, text in enumerate(texts):
        try:
            with blaming(draft, "check", str(number)):
                out.append((text, grammar.read(text)))
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError.many(problems)
    return out
