"""What was measured, by test: what readers of results add to, and the judge reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from railyard.kit.errors import Problem


@dataclass
class Results:
    """What was measured.

    Attributes:
        values: By test and size; several where it was measured several times, in the test's unit.
        wrong: Tests whose data came out wrong, and how many values.
        problems: Files that were not read, and why.
        files: How many were.
        ends: Of counters: values by test and end of the cable.
        short: Of counters: tests that they show too little for, and why.
    """

    values: dict[tuple[str, int], list[float]] = field(default_factory=dict)
    wrong: dict[str, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    files: int = 0
    ends: dict[str, dict[str, float]] = field(default_factory=dict)
    short: dict[str, str] = field(default_factory=dict)

    @property
    def unknown(self) -> bool:
        """Whether a table names a test that there is not."""
        return any(problem.key == "test" for problem in self.problems)

    def add(self, test: str, size_bytes: int, value: float) -> None:
        """One value."""
        self.values.setdefault((test, size_bytes), []).append(value)

    def add_end(self, test: str, end: str, value: float, short: str) -> None:
        """What counters show of a cable at one end; the worse end is the cable's."""
        ends = self.ends.setdefault(test, {})
        ends[end] = value
        self.values[test, 0] = [max(ends.values())]
        if short:
            self.short[test] = short
