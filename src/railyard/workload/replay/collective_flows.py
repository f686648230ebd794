"""Collectives of a trace as flows: what each member sends, and after what.

Rings in the order of the members for reductions and gathers (Thakur, Rabenseifner, Gropp 2005, section 4), direct sends
for all-to-all, scatter, gather and barriers, a binomial tree for broadcast and reduce. Sizes are what one member puts
in, as ASTRA-sim counts them (`Ring.cc`). Topology plays no part: choosing algorithms is what a scenario's engine does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.workload.replay.flows import AT_RECEIVER, AT_SENDER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from railyard.workload.replay.flows import FlowBuilder

Wait = tuple[int, int]


class Collective:
    """One collective that is being laid out.

    Args:
        builder: Takes the flows.
        members: Hosts.
        size_bytes: What one member puts in.
        entry: A row of each member that is done when the member may begin.
        root: Place of the root among the members.
    """

    def __init__(
        self, builder: FlowBuilder, members: Sequence[int], size_bytes: int, entry: Sequence[int], *, root: int = 0
    ) -> None:
        self.builder = builder
        self.members = members
        self.size = size_bytes
        self.entry = entry
        self.root = root
        self.done: list[list[Wait]] = [[(row, AT_SENDER)] for row in entry]

    @property
    def count(self) -> int:
        """Number of members."""
        return len(self.members)

    def part(self) -> int:
        """One member's share of the bytes, rounded up; one byte at least."""
        return max(1, -(-self.size // self.count))

    def send(self, source: int, target: int, size_bytes: int, after: Sequence[Wait] = ()) -> int:
        """A flow between two places, after the entry of the source and what else is given."""
        row = self.builder.add(self.members[source], self.members[target], max(size_bytes, 1))
        self.builder.wait(row, [(self.entry[source], AT_SENDER), *after])
        self.done[source].append((row, AT_SENDER))
        self.done[target].append((row, AT_RECEIVER))
        return row

    def ring(self, steps: int, size_bytes: int) -> None:
        """Every member passes on what it has just got, so many times."""
        before: list[int] = []
        for _ in range(steps):
            after: list[list[Wait]] = [[(row, AT_RECEIVER)] for row in before[-1:] + before[:-1]]
            before = [
                self.send(place, (place + 1) % self.count, size_bytes, after[place] if after else ())
                for place in range(self.count)
            ]

    def direct(self, size_bytes: int) -> None:
        """Everybody sends to everybody, to the next one first."""
        for step in range(1, self.count):
            for place in range(self.count):
                self.send(place, (place + step) % self.count, size_bytes)

    def tree(self, *, down: bool) -> None:
        """A binomial tree from the root or, backwards, to it."""
        spans = [1 << level for level in range((self.count - 1).bit_length())]
        edges = [(low, low + span) for span in spans for low in range(span) if low + span < self.count]
        have: dict[int, list[Wait]] = {place: [] for place in range(self.count)}
        for low, high in edges if down else reversed(edges):
            source, target = (low, high) if down else (high, low)
            begin, end = ((place + self.root) % self.count for place in (source, target))
            row = self.send(begin, end, self.size, have[source])
            have[target].append((row, AT_RECEIVER))

    def star(self, *, down: bool) -> None:
        """The root sends each its part, or gets each one's bytes."""
        for place in range(self.count):
            if place != self.root:
                ends = (self.root, place) if down else (place, self.root)
                self.send(*ends, self.part() if down else self.size)


LAYOUTS: dict[str, Callable[[Collective], None]] = {
    "ALL_REDUCE": lambda it: it.ring(2 * (it.count - 1), it.part()),
    "REDUCE": lambda it: it.tree(down=False),
    "ALL_GATHER": lambda it: it.ring(it.count - 1, it.size),
    "GATHER": lambda it: it.star(down=False),
    "SCATTER": lambda it: it.star(down=True),
    "BROADCAST": lambda it: it.tree(down=True),
    "ALL_TO_ALL": lambda it: it.direct(it.part()),
    "REDUCE_SCATTER": lambda it: it.ring(it.count - 1, it.part()),
    "REDUCE_SCATTER_BLOCK": lambda it: it.ring(it.count - 1, it.part()),
    "BARRIER": lambda it: it.direct(1),
}
"""How each kind is laid out; the names and their order are those of Chakra's `CollectiveCommType`."""
