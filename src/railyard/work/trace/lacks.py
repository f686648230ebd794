"""What a trace lacks, counted while it is read: every kind of gap is one sentence in the result."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Lacks:
    """Gaps of a trace.

    Attributes:
        counts: Of each kind; sentences have a place `{}` for the number.
    """

    counts: Counter[str] = field(default_factory=Counter)

    def note(self, sentence: str, count: int = 1) -> None:
        """Counts gaps of a kind."""
        if count:
            self.counts[sentence] += count

    def sentences(self) -> tuple[str, ...]:
        """One sentence a kind of gap, in the order in which they came up."""
        return tuple(sentence.format(f"{count:,}") for sentence, count in self.counts.items())
