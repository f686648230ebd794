"""Filters as sets of addresses: intervals, in which the first rule that fits decides."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.ask.check.isolation.configured import Line, Rule


class Permitted:
    """What a filter lets pass.

    Attributes:
        edges: First addresses of intervals, rising, the first 0.
        rule: Of each interval the rule that decides; None: none does, and it is dropped.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        spans = [(int(rule.target.network_address), int(rule.target.broadcast_address) + 1) for rule in rules]
        self.edges = sorted({0, *(edge for span in spans for edge in span)})
        self.rule: list[Rule | None] = [None] * len(self.edges)
        for (first, end), rule in reversed(list(zip(spans, rules, strict=True))):
            for at in range(bisect_right(self.edges, first) - 1, bisect_right(self.edges, end - 1)):
                self.rule[at] = rule

    def decides(self, address: int) -> Rule | None:
        """The rule for a destination."""
        return self.rule[bisect_right(self.edges, address) - 1]

    def passes(self, address: int) -> bool:
        """Whether a packet to the address goes on."""
        rule = self.decides(address)
        return rule is not None and rule.permits

    def line(self, address: int) -> Line | None:
        """The line that decides."""
        rule = self.decides(address)
        return None if rule is None else rule.line
