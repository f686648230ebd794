"""The search: settings compete together, on the same draws, and only the better half goes on to the next draw.

1. Every value alone, on the first draw, beside the scenario as written on the same draw: a paired comparison.
2. The best value of every key, together. Then generations: some designs take for each key a value that was good alone,
   by chance; others cross two of the best so far; a few keys are set anew at random. So values meet that help only
   together, whatever they do alone. A generation begins on the first draw; its better half runs on the second, and so
   on: most steps go to what is promising.
3. What the best design does not need is taken out again, key by key, over all draws: what is left are settings of which
   each earns `WORTH`. For each of them it is then known what it does alone, and what the others do without it; where
   these differ, it is the combination that pays.

The budget is a number of steps. The same seed gives the same designs on any number of workers.
"""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from railyard.ask.tune.settings.space import Case
    from railyard.ask.tune.settings.trials import Trials

    Settings = dict[str, Any]

WORTH = 0.002
"""Of a step: smaller gains on the draws of the search are chance."""

LEAST, MOST = 4, 12
"""Designs that compete at a time, half of all values within these: on every draw half as many as on the one before."""

PARENTS = 4
"""Best designs that later ones descend from."""

STALE = 3
"""Generations in a row without a better design, after which the search ends."""

_RESERVE = 6
"""Keys of the best design for which steps are kept back, to see which are needed."""


@dataclass
class Design:
    """Settings and what is known of them.

    Attributes:
        settings: Dotted keys and values that differ from the scenario.
        ratios: Steps over those as written, on the first draws of the search.
        error: Why it cannot run; else empty.
    """

    settings: Settings
    ratios: list[float] = field(default_factory=list)
    error: str = ""

    @property
    def mean(self) -> float:
        """Of the ratios; infinite where it cannot run."""
        return statistics.fmean(self.ratios) if self.ratios and not self.error else float("inf")


@dataclass(frozen=True)
class Part:
    """What one setting of the outcome does, on the draws of the search.

    Attributes:
        key: Dotted.
        alone: Share by which steps are shorter with it and nothing else changed; None: that was not run.
        without: Share by which they are longer with all but it; None: that was not run.
    """

    key: str
    alone: float | None
    without: float | None


@dataclass
class Race:
    """One search.

    Attributes:
        space: Keys and the values to try.
        draws: On which designs compete, in their order.
        trials: Runs steps.
        budget: Steps that may be run.
        seed: Of what is left to chance.
        told: Of the share that is done.
        designs: All that were tried, in their order; the first is the scenario as written.
        written_s: Its steps, draw by draw.
    """

    space: Mapping[str, Sequence[Any]]
    draws: Sequence[Case]
    trials: Trials
    budget: int
    seed: int
    told: Callable[[float], None] = lambda _share: None
    designs: list[Design] = field(default_factory=list)
    written_s: list[float] = field(default_factory=list)

    def run(self) -> Design:
        """The best design, with no more settings than it needs.

        Raises:
            InputError: The scenario as written cannot run.
        """
        self.dice = np.random.default_rng([self.seed, 99])
        self._index: dict[str, Design] = {}
        self._write()
        self.singles = {key: [self._made({key: value}) for value in values] for key, values in self.space.items()}
        self._compete([one for ones in self.singles.values() for one in ones], draws=1)
        self._on(self._first(), len(self.draws))
        reserve = len(self.draws) * min(_RESERVE, len(self.space))
        stale, best = 0, self._best().mean
        while stale < STALE and self.trials.count + self._cost() + reserve <= self.budget:
            children = self._children()
            if not children:
                break
            self._compete(children, draws=len(self.draws))
            stale = 0 if self._best().mean < best - WORTH else stale + 1
            best = min(best, self._best().mean)
            self.told(self.trials.count / self.budget)
        return self._needed()

    def so_far(self) -> Design:
        """Of the designs that are better than the scenario as written, the best of those that got furthest."""
        good = [one for one in self.designs if one.mean <= 1.0 - WORTH]
        return min(good, key=lambda one: (-len(one.ratios), one.mean, len(one.settings)), default=self.designs[0])

    def parts(self, found: Design) -> list[Part]:
        """What each setting of a design does alone, and what the others do without it."""
        self._on([one for pair in self._around(found) for one in pair], len(self.draws))
        return self.known_parts(found)

    def known_parts(self, found: Design) -> list[Part]:
        """The same as far as it was run."""
        return [
            Part(
                key,
                1.0 - alone.mean if alone.ratios else None,
                rest.mean / found.mean - 1.0 if rest.ratios else None,
            )
            for key, (alone, rest) in zip(found.settings, self._around(found), strict=True)
        ]

    def _around(self, found: Design) -> list[tuple[Design, Design]]:
        """Each setting of a design alone, and the others without it."""
        return [
            (self._made({key: value}), self._made(_less(found.settings, key))) for key, value in found.settings.items()
        ]

    def _write(self) -> None:
        rows = self.trials.steps([({}, case) for case in self.draws])
        wrong = next((row for row in rows if isinstance(row, str)), None)
        if wrong is not None:
            raise InputError(f"the scenario as written cannot run: {wrong}")
        self.written_s = [float(row) for row in rows]
        self._made({}).ratios = [1.0] * len(rows)

    def _made(self, settings: Settings) -> Design:
        """The design of these settings: the one that is known, or a new one."""
        key = json.dumps(settings, sort_keys=True, default=str)
        if key not in self._index:
            self._index[key] = Design({name: settings[name] for name in self.space if name in settings})
            self.designs.append(self._index[key])
        return self._index[key]

    def _cost(self) -> int:
        """Steps of a generation."""
        return sum(max(1, self._size >> at) for at in range(len(self.draws)))

    @property
    def _size(self) -> int:
        """Designs of a generation."""
        return min(MOST, max(LEAST, sum(map(len, self.space.values())) // 2))

    def _compete(self, designs: list[Design], draws: int) -> None:
        """All on the first draw; the better half of those on the next, and so on."""
        left = designs
        for count in range(1, draws + 1):
            self._on(left, count)
            left = sorted(left, key=lambda one: one.mean)[: max(1, len(left) // 2)]

    def _on(self, designs: Sequence[Design], draws: int) -> None:
        """Runs designs on the first so many draws, where they have not been."""
        apart = {id(one): one for one in designs if not one.error}.values()
        asked = [(one, at) for one in apart for at in range(len(one.ratios), draws)]
        rows = self.trials.steps([(one.settings, self.draws[at]) for one, at in asked])
        for (one, at), row in zip(asked, rows, strict=True):
            if isinstance(row, str):
                one.error = row
            else:
                one.ratios.append(row / self.written_s[at])

    def _ranked(self) -> list[Design]:
        """Designs that ran on all draws, best first; of equal ones the one with fewer settings."""
        done = [one for one in self.designs if len(one.ratios) == len(self.draws) and not one.error]
        return sorted(done, key=lambda one: (one.mean, len(one.settings)))

    def _best(self) -> Design:
        return self._ranked()[0]

    def _children(self) -> list[Design]:
        """Designs that nobody has tried; fewer than a generation where the space is nearly used up."""
        found: list[Design] = []
        parents = self._ranked()[:PARENTS]
        for number in range(20 * self._size):
            if len(found) == self._size:
                break
            born = self._sampled() if number % 3 == 0 or len(parents) < 2 else self._crossed(parents)
            known = len(self.designs)
            child = self._made(born)
            if len(self.designs) > known:
                found.append(child)
        return found

    def _first(self) -> list[Design]:
        """The best value alone, and the best of every key that has a good one."""
        good = [min(ones, key=lambda one: one.mean) for ones in self.singles.values()]
        good = [one for one in good if one.mean < 1.0 - WORTH / 2]
        together = {key: value for one in good for key, value in one.settings.items()}
        return [min(good, key=lambda one: one.mean), self._made(together)] if good else []

    def _sampled(self) -> Settings:
        """Of every key a value that was good alone, by chance."""
        found: Settings = {}
        for key, ones in self.singles.items():
            good = sorted((one for one in ones if one.mean < 1.0 - WORTH / 2), key=lambda one: one.mean)
            if good and self.dice.random() < 0.8:
                found[key] = good[min(len(good) - 1, int(self.dice.geometric(0.6)) - 1)].settings[key]
        return self._moved(found)

    def _crossed(self, parents: Sequence[Design]) -> Settings:
        """Key by key from one of two of the best."""
        first, second = self.dice.choice(len(parents), 2, replace=False).tolist()
        found: Settings = {}
        for key in self.space:
            taken = parents[first if self.dice.random() < 0.6 else second].settings
            if key in taken:
                found[key] = taken[key]
        return self._moved(found)

    def _moved(self, settings: Settings) -> Settings:
        """One key or two set anew: to a value that can run, or back to what is written."""
        keys = list(self.space)
        for key in self.dice.choice(keys, min(len(keys), 1 + int(self.dice.integers(2))), replace=False).tolist():
            values = [one.settings[key] for one in self.singles[key] if not one.error]
            place = int(self.dice.integers(len(values) + 1))
            if place < len(values):
                settings[key] = values[place]
            else:
                settings.pop(key, None)
        return settings

    def _needed(self) -> Design:
        """The best design without what it does not need."""
        best = self._best()
        if best.mean > 1.0 - WORTH:
            return self.designs[0]
        while best.settings:
            less = [self._made(_less(best.settings, key)) for key in best.settings]
            self._on(less, len(self.draws))
            shortest = min(less, key=lambda one: one.mean)
            if shortest.mean > best.mean + WORTH:
                break
            best = shortest
        return best


def _less(settings: Settings, key: str) -> Settings:
    return {name: value for name, value in settings.items() if name != key}
