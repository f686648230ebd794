"""`misconfigured`: a switch neither pauses nor marks, or has too little headroom, as no other switch does."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from railyard.cluster.fault.fault import LinkSetting, expect, faults
from railyard.kit.errors import InputError
from railyard.kit.schema import field as f

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.cluster.fault.fault import Places


@dataclass(frozen=True)
class Misconfigured:
    """Ports of a switch are set otherwise than a fabric that pauses needs, from the start on (packets only).

    Attributes:
        switch: Its name.
        towards: Only its ports to this node; all when left out.
        pauses: Whether it sends pauses and obeys them there.
        marks: Whether its queues mark there.
        headroom: Of what its ports need.
    """

    kind: ClassVar[str] = "misconfigured"

    switch: str = field(metadata=f.text("switch", "Its name, as reports write it: `leaf 0`, `plane 1 spine 2`"))
    towards: str | None = field(
        default=None, metadata=f.text("towards", "Only its ports to this node, such as `spine 1`; all when left out")
    )
    pauses: bool = field(default=True, metadata=f.flag("pauses", "Whether it sends pauses and obeys them there"))
    marks: bool = field(default=True, metadata=f.flag("marks", "Whether its queues mark there"))
    headroom: float = field(
        default=1.0, metadata=f.fraction("headroom", "Of what its ports need to hold after a pause: 0 to 1")
    )

    def __post_init__(self) -> None:
        """Refuses what is no fault."""
        expect(0 <= self.headroom <= 1, "expected a part of the headroom", "headroom", self.headroom, "0 to 1")
        if self.pauses and self.marks and self.headroom == 1.0:
            allowed = "`pauses: false`, `marks: false` or `headroom` below 1"
            raise InputError("nothing is otherwise than it has to be", key="switch", found=self.switch, allowed=allowed)

    def effects(self, places: Places) -> Iterator[LinkSetting]:
        """See `Fault`."""
        mine = places.switch(self.switch)
        if self.towards is not None:
            mine = np.intersect1d(mine, places.cable(f"{self.switch} - {self.towards}", "all"))
        out = np.intersect1d(mine, places.out_of(self.switch))
        into = np.setdiff1d(mine, out)
        if not self.pauses:
            yield LinkSetting(into, "pause", 0.0)
            yield LinkSetting(out, "obey", 0.0)
        if not self.marks:
            yield LinkSetting(out, "mark", 0.0)
        if self.headroom < 1.0:
            yield LinkSetting(into, "headroom", self.headroom)


faults.add(Misconfigured.kind, Misconfigured)
