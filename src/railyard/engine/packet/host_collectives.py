"""Collectives between hosts as flows: what each member sends, and after what.

Rings in the order of the members for reductions and gathers (Thakur, Rabenseifner, Gropp 2005, section 4), direct sends
for all-to-all, a binomial tree from or to the first member for broadcast and reduce. Topology plays no part: choosing
algorithms is what the engine does on a cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railyard.graph import AT_RECEIVER, AT_SENDER, CollectiveKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Wait = tuple[int, int]
"""A row and where it must be done."""


@dataclass
class CollectiveLayout:
    """One collective that is being laid out.

    Attributes:
        members: Hosts.
        size_bytes: As in the graph: the larger of one member's send and receive buffer.
        first: Row of its first flow.
        flows: Source, target, bytes of each.
        waits: What each flow waits for besides the entry of its source.
        done: Of each member: the rows after which it is done.
    """

    members: Sequence[int]
    size_bytes: int
    first: int
    flows: list[tuple[int, int, int]] = field(default_factory=list)
    entry: list[int] = field(default_factory=list)
    waits: list[list[Wait]] = field(default_factory=list)
    done: list[list[Wait]] = field(default_factory=list)

    @property
    def count(self) -> int:
        """Number of members."""
        return len(self.members)

    def part(self) -> int:
        """One member's share of the bytes, rounded up; one byte at least."""
        return max(1, -(-self.size_bytes // self.count))

    def send(self, source: int, target: int, size_bytes: int, after: Sequence[Wait] = ()) -> int:
        """A flow between two places, after what is given; returns its row."""
        row = self.first + len(self.flows)
        self.flows.append((self.members[source], self.members[target], max(size_bytes, 1)))
        self.entry.append(source)
        self.waits.append(list(after))
        self.done[source].append((row, AT_SENDER))
        self.done[target].append((row, AT_RECEIVER))
        return row

    def ring(self, steps: int) -> None:
        """Every member passes on what it has just got, so many times."""
        before: list[int] = []
        for _ in range(steps):
            after: list[list[Wait]] = [[(row, AT_RECEIVER)] for row in before[-1:] + before[:-1]]
            before = [
                self.send(place, (place + 1) % self.count, self.part(), after[place] if after else ())
                for place in range(self.count)
            ]

    def direct(self) -> None:
        """Everybody sends a part to everybody, to the next one first."""
        for step in range(1, self.count):
            for place in range(self.count):
                self.send(place, (place + step) % self.count, self.part())

    def tree(self, *, down: bool) -> None:
        """A binomial tree from the first member or, backwards, to it."""
        spans = [1 << level for level in range((self.count - 1).bit_length())]
        edges = [(low, low + span) for span in spans for low in range(span) if low + span < self.count]
        have: dict[int, list[Wait]] = {place: [] for place in range(self.count)}
        for low, high in edges if down else reversed(edges):
            source, target = (low, high) if down else (high, low)
            row = self.send(source, target, self.size_bytes, have[source])
            have[target].append((row, AT_RECEIVER))


LAYOUTS: dict[CollectiveKind, Callable[[CollectiveLayout], None]] = {
    CollectiveKind.ALL_REDUCE: lambda it: it.ring(2 * (it.count - 1)),
    CollectiveKind.REDUCE: lambda it: it.tree(down=False),
    CollectiveKind.ALL_GATHER: lambda it: it.ring(it.count - 1),
    CollectiveKind.BROADCAST: lambda it: it.tree(down=True),
    CollectiveKind.ALL_TO_ALL: lambda it: it.direct(),
    CollectiveKind.REDUCE_SCATTER: lambda it: it.ring(it.count - 1),
}


def laid_out(kind: CollectiveKind, members: Sequence[int], size_bytes: int, first: int) -> CollectiveLayout:
    """The flows of one collective.

    Args:
        kind: What it does.
        members: Hosts, the root first.
        size_bytes: The larger of one member's send and receive buffer.
        first: Row of the first flow.
    """
    layout = CollectiveLayout(members, size_bytes, first, done=[[] for _ in members])
    LAYOUTS[kind](layout)
    return layout
