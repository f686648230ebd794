"""The record of an algorithm and the registry of all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.kit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from railyard.collective.machine import Case, CollectiveMachine, Shape
    from railyard.collective.pattern import Pattern, Schedule
    from railyard.graph import CollectiveKind


STAGED_FROM = 256
"""Ranks beyond which `Algorithm.staged` is taken."""


def never(_kind: CollectiveKind, _shape: Shape, _machine: CollectiveMachine) -> None:
    """The refusals of an algorithm that works everywhere."""


@dataclass(frozen=True)
class Steps:
    """Messages that must follow one another when the data is so small that only latency counts.

    Attributes:
        scale_up: Inside a scale-up domain, from accelerator to accelerator.
        scale_out: Through NICs.
        switch: Passes through a reducing scale-up switch.
        reduction: Passes through the reducing switches of the network, up to the root of their tree and down again.
        peers: Messages that one rank posts one after another without waiting for them.
    """

    scale_up: float = 0.0
    scale_out: float = 0.0
    switch: float = 0.0
    reduction: float = 0.0
    peers: float = 0.0

    @property
    def paths(self) -> float:
        """Ways through the network from domain to domain: a pass through its reducing switches is one."""
        return self.scale_out + self.reduction


@dataclass(frozen=True)
class Algorithm:
    """One way to do one or more kinds of collectives.

    Attributes:
        name: The word by which users override the choice.
        summary: What it does, one line.
        protocols: The wire protocols it may use, a subset of "ll", "ll128", "simple".
        family: Whose measured constants it takes: "ring", "tree", "nvls", "collnet", "pat" or "peer".
        refuses: Why it cannot serve a kind on a shape and machine; None where it can.
        pattern: Bytes of each edge.
        steps: Latencies that add up.
        schedule: Every message in order; for tests and for engines that replay messages.
        sources: Where the algorithm is described.
        staged: An algorithm whose pattern is this one's when edges that change rails go through peers. It has fewer
            edges to write down, so large communicators take it.
        route: Between which domains steps go: "ring" from each to the next and round again, "chain" from the first to
            the last, "exchange" to all others at once, "mixed" also far.
        phased: Whether what it does inside domains and what it does between them follow one another, so that their
            times add up. Others pass data on in a pipeline, in which the slowest link counts.
        written: Whether it is a schedule that was made for one network: taken only where it is asked for by name, and
            its messages are sent as they are.
        fill: Of a case, seconds for each byte of the collective's size in which its busiest link waits for data that is
            stored on its journey; None: none, or counted elsewhere.
        floor_us: Of a case, what its own kernel takes for the smallest message, us: no library runs it, and it is taken
            only where it is asked for by name. None: the library's constants hold.
    """

    name: str
    summary: str
    kinds: tuple[CollectiveKind, ...]
    protocols: tuple[str, ...]
    family: str
    pattern: Callable[[CollectiveKind, Shape], Pattern]
    steps: Callable[[CollectiveKind, Shape], Steps]
    schedule: Callable[[CollectiveKind, Shape], Schedule]
    sources: tuple[str, ...]
    refuses: Callable[[CollectiveKind, Shape, CollectiveMachine], str | None] = never
    route: str = "mixed"
    phased: bool = False
    staged: str | None = None
    written: bool = False
    fill: Callable[[Case], float] | None = None
    floor_us: Callable[[Case], float] | None = None

    @property
    def to_the_next(self) -> bool:
        """Whether its steps between domains go from each to the next only."""
        return self.route in {"ring", "chain"}

    @property
    def reduces_in_network(self) -> bool:
        """Whether the network's switches add for it."""
        return self.family == "collnet" or self.name == "nvls-sharp"

    def relayed_pattern(self, kind: CollectiveKind, shape: Shape, rails: NDArray[np.int64]) -> Pattern:
        """The pattern on an aligned shape when edges that change rails go through peers; see `Pattern.relayed`."""
        grid = shape.even and shape.domains > 1 and shape.per_domain > 1
        if self.staged is not None and grid and shape.ranks > STAGED_FROM:
            return ALGORITHMS.get(self.staged).pattern(kind, shape)
        return self.pattern(kind, shape).relayed(shape, rails)

    def refusal(self, kind: CollectiveKind, shape: Shape, machine: CollectiveMachine) -> str | None:
        """Why the algorithm cannot do `kind` on `shape`; None when it can."""
        if kind not in self.kinds:
            return f"`{self.name}` does not do {kind.name.lower().replace('_', '-')}"
        if shape.ranks < 2:
            return None
        return self.refuses(kind, shape, machine)


ALGORITHMS: Registry[Algorithm] = Registry("collective algorithm", package="railyard.collective")
