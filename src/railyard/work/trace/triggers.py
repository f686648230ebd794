"""Triggers of a connection matrix: flows fire them when they are done, and they start flows.

`oneshot` starts all its targets when it is fired, `multishot` one more each time it is fired, in the order of the file,
and `barrier` all of them when it has been fired `count` times (htsim's `trigger.cpp`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from railyard.work.trace.builder import GraphBuilder

KINDS = ("oneshot", "multishot", "barrier")


@dataclass
class Trigger:
    """One trigger.

    Attributes:
        line: Where it is declared.
        id: Its number.
        kind: One of `KINDS`.
        count: Of a barrier, how often it must be fired.
        targets: Rows that it starts, in the order of the file.
        firers: Rows that fire it, and where they must be done.
    """

    line: int
    id: int = 0
    kind: str = ""
    count: int = 0
    targets: list[int] = field(default_factory=list)
    firers: list[tuple[int, int]] = field(default_factory=list)


def connect(builder: GraphBuilder, trigger: Trigger) -> None:
    """Lets the targets of a trigger wait for those who fire it.

    Raises:
        InputError: More flows fire it than it can take.
    """
    if trigger.kind == "multishot":
        for shot, row in enumerate(trigger.targets, start=1):
            builder.wait(row, trigger.firers, need=shot)
        return
    most = trigger.count if trigger.kind == "barrier" else 1
    if len(trigger.firers) > most:
        raise InputError(
            f"the {trigger.kind} {trigger.id} can be fired {most} times, but {len(trigger.firers)} flows fire it",
            hint="use `multishot` or `barrier count <n>`",
        )
    for row in trigger.targets:
        builder.wait(row, trigger.firers, need=most)
