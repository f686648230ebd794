"""The assertions of a scenario, each judged of every variant."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from railyard.ask.check.assertion import FIGURES, Assertion, CheckSubject, assertions
from railyard.ask.deploy.files import JunitCase
from railyard.kit.errors import InputError, Interrupted, did_you_mean, suggest
from railyard.measure.result.answers import CheckAnswer, CheckRow
from railyard.work.scenario.load import blaming, expand
from railyard.work.study import study
from railyard.work.study.provenance import version
from railyard.work.study.study import prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from railyard.ask.check.assertion import Assertion, AssertionOutcome
    from railyard.kit.errors import Problem
    from railyard.measure.result.reading import Result
    from railyard.work.scenario.load import Draft


SIGNS = {
    "less than or equal to": "<=",
    "greater than or equal to": ">=",
    "more than": ">",
    "greater than": ">",
    "less than": "<",
    "at most": "<=",
    "at least": ">=",
    "below": "<",
    "under": "<",
    "above": ">",
    "over": ">",
    "≤": "<=",
    "≥": ">=",
    "=<": "<=",
    "=>": ">=",
}
"""Comparisons in words; longer ones first."""

_ONE = r"(?:any |the |a |an )*(?:one|1|single)?"
_LOST = r"(?:survives?|tolerates?|withstands?)(?: the)?(?: loss(?: of)?| failure(?: of)?| losing)?"
_SURVIVES = re.compile(
    rf"{_LOST} {_ONE} ?([a-z][\w-]*?)(?: (?:failure|failing|loss|down|lost|outage))?( with step < ?.+)?",
    re.IGNORECASE,
)
_ALONE = re.compile(r"no single (?:point of failure|points of failure)|no spof", re.IGNORECASE)
_DEADLOCK = re.compile(
    r"(?:no |free of )?(?:pfc )?deadlocks?(?:[ -]free)?(?:: .*)?|pfc deadlock[ -]free", re.IGNORECASE
)
_HEADROOM = re.compile(
    r"(?:pfc )?headroom(?: holds| ok| is enough| suffices| is sufficient)? (?:at|for|over) ?(.+?)(?: holds)?",
    re.IGNORECASE,
)
_PLURALS = {"spines": "spine", "leaves": "leaf", "leafs": "leaf", "links": "link", "cables": "link", "cable": "link"}


def as_plain(text: str) -> str:
    """An assertion in the words that its kind reads; the same text where it is none of these."""
    words = " ".join(text.split())
    if _ALONE.fullmatch(words):
        return "survives any one part"
    if _DEADLOCK.fullmatch(words) and words.lower() not in ("deadlock", "pfc deadlock", "deadlocks"):
        return "no PFC deadlock"
    if (found := _HEADROOM.fullmatch(words)) is not None:
        return f"headroom holds at {found[1]}"
    if (found := _SURVIVES.fullmatch(words)) is not None:
        return _survives(found[1].lower(), found[2] or "")
    return _figure(words)


def _survives(part: str, rest: str) -> str:
    part = _PLURALS.get(part, part)
    rest = re.sub(r"< ?(\d+(?:\.\d+)?)$", r"< \1 x", rest)
    return f"survives any one {part}{rest}"


def _figure(words: str) -> str:
    """`p99 step < 1s`, `GPU utilization above 90%`: names with blanks, in another order, comparisons in words."""
    for word, sign in SIGNS.items():
        bounds = (r"(?<!\w)", r"(?!\w)") if word[0].isalpha() else ("", "")
        words = re.sub(re.escape(word).join(bounds), sign, words, flags=re.IGNORECASE)
    found = re.fullmatch(r"([^<>=]*?) ?([<>=]+) ?(.*)", words)
    if found is None:
        return words
    name, sign, value = found.groups()
    parts = re.sub(r"99th percentile(?: of)?", "p99", re.sub(r" is$", "", name.lower())).replace("-", " ")
    listed = parts.replace("_", " ").split()
    known = {frozenset(one.split("_")): one for one in FIGURES}
    return f"{known.get(frozenset(listed), name)} {sign} {value}"


FIGURE = "figure"
"""The kind of everything that begins with no word of another: `NAME < VALUE`."""

_WORD = re.compile(r"[A-Za-z_]\w*")


def read(text: str) -> Assertion:
    """One assertion.

    Raises:
        InputError: It is none; says what is allowed, and the nearest right spelling.
    """
    plain = as_plain(text)
    found = _WORD.match(plain)
    first = found[0].lower() if found else ""
    if first != FIGURE and first in assertions:
        return assertions.get(first).read(plain)
    if not re.search("[<>=]", plain):
        words = [name for name in assertions.names() if name != FIGURE]
        near = suggest(first, words)
        hint = (
            did_you_mean(plain, forms_of(words)) if near is None else f"did you mean `{assertions.get(near).forms[0]}`?"
        )
        raise InputError(f"`{plain}` is not an assertion", found=plain, allowed=forms(), hint=hint)
    return assertions.get(FIGURE).read(plain)


def forms_of(kinds: list[str]) -> list[str]:
    """Forms of some kinds."""
    return [form for kind in kinds for form in assertions.get(kind).forms]


def forms() -> list[str]:
    """Forms of assertions."""
    return [f"`{form}`" for _, kind in assertions.items() for form in kind.forms]


@dataclass(frozen=True)
class CheckedAssertion:
    """One assertion of one variant."""

    assertion: str
    variant: str
    outcome: AssertionOutcome

    def case(self, *, several: bool) -> JunitCase:
        """Name of the case in JUnit, with the variant if there are several."""
        one, name = self.outcome, f"{self.assertion} [{self.variant}]" if several else self.assertion
        words = f"found: {one.found}" + (f"\n{one.remark}" if one.remark else "")
        return JunitCase(name, None if one.holds else one.found, words)


def check(
    draft: Draft, run: Callable[[Sequence[Any]], Result], progress: Callable[[str, float], None]
) -> tuple[list[CheckedAssertion], bool]:
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
        CheckSubject(
            variant.name,
            variant.draft,
            partial(lambda at: prepared()[at], number),
            partial(_measured, result, variant.name),
            progress,
        )
        for number, variant in enumerate(expand(draft))
    ]
    for number, (_, assertion) in enumerate(asserted):
        for subject in subjects:
            with blaming(draft, "check", str(number)):
                assertion.check(subject)
    return _judged(asserted, subjects)


def _judged(
    asserted: Sequence[tuple[str, Assertion]], subjects: Sequence[CheckSubject]
) -> tuple[list[CheckedAssertion], bool]:
    """Every assertion of every variant; after a signal only those of the kind that waited for the run."""
    found: list[CheckedAssertion] = []
    stopped: type[Assertion] | None = None
    for text, assertion in asserted:
        for subject in subjects:
            if stopped not in (None, type(assertion)):
                continue
            try:
                found.append(CheckedAssertion(text, subject.name, assertion.judge(subject)))
            except Interrupted:
                stopped = type(assertion)
    if stopped is not None and not found:
        raise Interrupted
    return found, stopped is not None


def _measured(result: Callable[[], Result], name: str) -> Any:
    """One variant of a result that is made when it is asked for.

    Raises:
        Interrupted: The run was stopped before it ended.
    """
    found = next((one for one in result().variants if one.name == name), None)
    if found is None:
        raise Interrupted
    return found


def _read(draft: Draft) -> list[tuple[str, Assertion]]:
    texts = draft.scenario.check
    if texts is None:
        raise InputError("the scenario has no assertions under `check`", key="check", allowed=forms())
    out: list[tuple[str, Assertion]] = []
    problems: list[Problem] = []
    for number, text in enumerate(texts):
        try:
            with blaming(draft, "check", str(number)):
                out.append((text, read(text)))
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError.many(problems)
    return out


def judged(draft: Draft, progress: Callable[[str, float], None]) -> tuple[list[CheckedAssertion], CheckAnswer]:
    """Every assertion of every variant.

    Args:
        draft: The scenario.
        progress: Takes what is being done, and its share from 0 to 1.

    Raises:
        InputError: The scenario or an assertion is wrong.
        SimulationError: The run cannot finish.
    """

    def run(prepared: Sequence[Any]) -> Result:
        """Writes nothing, and leaves out the trials of what would help: no assertion is about these."""
        return study.run(draft, progress=progress, searched=False, prepared=prepared).result

    checked, stopped = check(draft, run, progress)
    rows = tuple(_row(one) for one in checked)
    answer = CheckAnswer(
        format="railyard-check/1",
        name=draft.title,
        version=version(),
        stopped=stopped,
        holds=not stopped and all(row.holds for row in rows),
        checks=rows,
    )
    return checked, answer


def _row(one: CheckedAssertion) -> CheckRow:
    found = one.outcome
    remark = {"remark": found.remark} if found.remark else {}
    return CheckRow(assertion=one.assertion, variant=one.variant, found=found.found, holds=found.holds, **remark)
