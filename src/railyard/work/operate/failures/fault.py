"""One thing that goes wrong in a run, drawn or given."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol


class Effect(IntEnum):
    """What a fault does to the jobs that it hits."""

    OUT = 0
    """Nodes stop; their jobs hang until it is seen; the nodes are repaired."""
    CRASH = 1
    """A job ends, its nodes are well; of a group of nodes, every job on them."""
    SLOW = 2
    """Nodes go on slowly, and their jobs with them, until it is seen; then the nodes are repaired."""
    CORRUPT = 3
    """Nodes compute wrongly; the work since is lost when it is seen; then the nodes are repaired."""
    STALL = 4
    """Jobs stand still until the network leads around, or the link is back; nothing is lost."""


@dataclass(frozen=True)
class Fault:
    """A fault.

    Attributes:
        time_us: When.
        nodes: Whose; of a crash, the node by which the job is found.
        effect: See `Effect`.
        mode: Number of its mode, for the accounts.
        detect_us: From then until it is known.
        repair_us: From then until the nodes are back.
        slow_ppm: Speed of slow nodes, in millionths.
        stall_us: How long jobs stand still.
    """

    time_us: int
    nodes: tuple[int, ...]
    effect: Effect
    mode: int = 0
    detect_us: int = 0
    repair_us: int = 0
    slow_ppm: int = 1_000_000
    stall_us: int = 0


class Faults(Protocol):
    """Faults of a run, chunk by chunk of time: a function of the chunk's number alone."""

    chunk_us: int

    @property
    def random(self) -> bool:
        """Whether another draw differs."""

    def again(self, seed: int) -> Faults:
        """The same in another draw."""

    def chunk(self, number: int) -> tuple[Fault, ...]:
        """Faults from `number * chunk_us` on, in order."""
