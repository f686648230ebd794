"""Trials of a search, for `plan` and `tune`: each runs once, on any workers, and is kept, errors too.

A search that was stopped asks for the same trials again, is given those that are known, and ends with the same answer:
what it decides follows from answers and from how many trials it asked for, not from which of them ran now.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from railyard.work.study.folder import Journal, key_of, slug
from railyard.work.study.tasks import GONE

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from pathlib import Path

    from railyard.work.scenario.load import Draft
    from railyard.work.study.tasks import Task, Workers

    Report = Callable[[str, float], None]

USUAL_S = {"closed form": 0.3, "flow": 5.0, "serving": 0.5, "packet": 60.0, "chances": 2.0}
"""Seconds of a task of each kind before one was seen: only the order of magnitude is meant."""

STATES = ".points"
"""Folder next to the runs for trials that are known already."""


class TimeIsUp(Exception):
    """The time of a search is spent."""


class TrialResult(NamedTuple):
    """What came of a trial: its number among those asked for, and its value, or why there is none."""

    at: int
    value: Any
    error: str


def journal_of(draft: Draft, verb: str, out: Path | None) -> Journal:
    """What is known of a scenario's trials, kept next to its runs; None keeps them in memory alone."""
    name = draft.scenario.name
    key = key_of(verb, str(draft.folder.resolve()), name)[:8]
    return Journal(None if out is None else out / STATES / f"{slug(name)}-{key}.jsonl")


@dataclass
class Ahead:
    """Tasks that are still to come, at most, at the pace that was seen of each kind of work.

    Attributes:
        steps: Kind of work and tasks left of every step, in order.
        clock: Seconds, rising.
        at: Step that is under way.
    """

    steps: list[tuple[str, int]]
    clock: Callable[[], float] = time.monotonic
    at: int = -1
    _seen: dict[str, tuple[float, int]] = field(default_factory=dict)
    _share: float = 0.0

    def __post_init__(self) -> None:
        self._begun = self._last = self.clock()

    def step(self) -> None:
        """The next step begins; what the one before left undone is not done any more."""
        self.at += 1
        self._last = self.clock()

    def ended(self, kind: str) -> None:
        """A task of a kind has ended."""
        now = self.clock()
        spent, count = self._seen.get(kind, (0.0, 0))
        self._seen[kind] = spent + now - self._last, count + 1
        self._last = now
        left = self.steps[self.at]
        self.steps[self.at] = left[0], max(left[1] - 1, 0)

    def share(self, until: float = math.inf) -> float:
        """Part of the time that is over, less than 1, never less than before; it is spent at `until` of the clock."""
        now = self.clock()
        left_s = sum(self._pace_s(kind) * count for kind, count in self.steps[max(self.at, 0) :])
        left_s = max(min(left_s, until - now), 1e-9)
        self._share = max(self._share, (now - self._begun) / (now - self._begun + left_s))
        return self._share

    def _pace_s(self, kind: str) -> float:
        spent, count = self._seen.get(kind, (0.0, 0))
        return spent / count if count else USUAL_S.get(kind, USUAL_S["flow"])


@dataclass
class Trials:
    """Runs the trials of one search.

    Attributes:
        until: Of the monotonic clock, when the time of the search is spent.
        best: Words on the best so far, for progress; empty where nothing is known.
        taken: Keys of all trials that were asked for, which a budget counts.
    """

    workers: Workers
    journal: Journal
    ahead: Ahead
    report: Report
    until: float = math.inf
    best: Callable[[], str] = lambda: ""
    taken: set[str] = field(default_factory=set)

    def run(
        self,
        keys: Sequence[str],
        task: Callable[[Sequence[int]], Task],
        kind: str,
        *,
        together: int = 1,
        first: int = 0,
    ) -> Iterator[TrialResult]:
        """Every trial once: those that are known, then the others as they end.

        Args:
            keys: What each trial's answer follows from.
            task: Of the numbers of some trials; it gives a list of values where several may go together.
            kind: Of the work.
            together: Trials of a task at most; those of a task that fails run again, each alone.
            first: Trials of the first task, so that something is known soon; 0: as many as of the others.

        Raises:
            TimeIsUp: Not all have ended.
        """
        self.taken.update(keys)
        left = []
        for at, key in enumerate(keys):
            if key in self.journal.known:
                yield TrialResult(at, *self.journal.known[key])
            else:
                left.append(at)
        chunks = [left[:first]] if first and left else []
        chunks += [left[at : at + together] for at in range(first, len(left), together)]
        alone = yield from self._ended(chunks, keys, task, kind, several=together > 1)
        if alone:
            yield from self._ended([[at] for at in sorted(alone)], keys, task, kind, several=True)

    def tell(self, what: str) -> None:
        """Reports what is done now, with the best so far."""
        best = self.best()
        self.report(f"{what}; {best}" if best else what, self.ahead.share(self.until))

    def _ended(
        self,
        chunks: Sequence[Sequence[int]],
        keys: Sequence[str],
        task: Callable[[Sequence[int]], Task],
        kind: str,
        *,
        several: bool,
    ) -> Generator[TrialResult, None, list[int]]:
        """Trials as their tasks end; then those of tasks of several that failed, for one of them may be to blame."""
        alone: list[int] = []
        count = 0
        if chunks:
            self.tell(f"{kind}: 0 of {len(chunks)}")
        for count, done in enumerate(self.workers.run([task(chunk) for chunk in chunks], self.until), 1):
            self.ahead.ended(kind)
            chunk = chunks[done.number]
            if done.error and len(chunk) > 1:
                alone += chunk
                continue
            values = done.value if several and not done.error else [done.value]
            for at, value in zip(chunk, values, strict=True):
                if done.error != GONE:  # a process that was killed may live another time
                    self.journal.add(keys[at], [value, done.error], sync=at == chunk[-1])
                yield TrialResult(at, value, done.error)
            self.tell(f"{kind}: {count} of {len(chunks)}")
        if count < len(chunks) or time.monotonic() >= self.until:
            raise TimeIsUp
        return alone
