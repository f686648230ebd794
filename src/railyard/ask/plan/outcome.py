"""What an engine found of one design under one demand: plain values, which travel and are kept as lines of JSON."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from railyard.measure.decompose import TimeRow
from railyard.work.training.spec import Layout

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class DesignOutcome:
    """One design under one demand on one engine.

    Attributes:
        error: Why there is nothing else; empty where there is.
        step_s: A mean step, meetings in, checkpoints and jitter out; of a service the mean time of an answer.
        samples_s: Steps by seed of the hashes, where there are several.
        time: Cause, group, phase and share of the step.
        layouts: The best, as fields of `Layout`, the best first.
        tail: 99th percentile of flow completion over its median, from packets; 0 elsewhere.
        excluded: Makers and catalogue names that the plan excludes and the design has.
        kept: Of a service, goodput tokens a second where everything takes as long as `SLOWER` says.
        drawn_w: Of a service, mean power of an accelerator of each pool.
        bound: Whether no product can be as good: its network is a crossbar that blocks nothing.
        ended: The fault that ends the job, in words; empty where it finishes.
        hops: Packets times links that its step would be.
        sliced: How many times fewer bytes than a step has were sent as packets; 1: all of them were.
        cluster: Digest of what is built, from the closed form: equal where the same is built.
    """

    point: int
    demand: int
    engine: str
    error: str = ""
    step_s: float = 0.0
    samples_s: tuple[float, ...] = ()
    time: tuple[tuple[str, str, str, float], ...] = ()
    layouts: tuple[Mapping[str, Any], ...] = ()
    steps_s: tuple[float, ...] = ()
    tried: int = 0
    checkpoint_s: tuple[float, float, float] = (0.0, 0.0, 0.0)
    tail: float = 0.0
    figures: Mapping[str, float] = field(default_factory=dict)
    excluded: tuple[str, ...] = ()
    kept: tuple[float, ...] = ()
    drawn_w: tuple[float, ...] = ()
    bound: bool = False
    ended: str = ""
    lost_s: float = 0.0
    hops: float = 0.0
    sliced: float = 1.0
    cluster: str = ""

    def plain(self) -> dict[str, Any]:
        """The outcome as JSON values, without those that are as usual."""
        default = DesignOutcome(0, 0, "")
        values = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        return {
            name: value
            for name, value in values.items()
            if name in ("point", "demand", "engine") or value != getattr(default, name)
        }

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> DesignOutcome:
        """Restores an outcome from the values of `plain`."""
        given = dict(plain)
        for name in ("samples_s", "steps_s", "checkpoint_s", "layouts", "excluded", "kept", "drawn_w"):
            if name in given:
                given[name] = tuple(given[name])
        if "time" in given:
            given["time"] = tuple(tuple(row) for row in given["time"])
        return cls(**given)

    @property
    def rows(self) -> tuple[TimeRow, ...]:
        """Rows of the time of the step."""
        return tuple(
            TimeRow(cause, group, phase, share * self.step_s, share) for cause, group, phase, share in self.time
        )

    @property
    def whole(self) -> bool:
        """Whether all bytes of a step were sent."""
        return not self.error and self.sliced == 1.0

    def share(self, *causes: str) -> float:
        """Share of the step that goes to some causes."""
        return sum(row[3] for row in self.time if row[0] in causes)


@dataclass(frozen=True)
class StepTime:
    """A step as power and money see it."""

    rows: tuple[TimeRow, ...]
    step_s: float
    ranks: int


def layout_values(layout: Layout) -> dict[str, Any]:
    """A layout as plain values; what is as usual is left out."""
    return {
        item.name: getattr(layout, item.name)
        for item in dataclasses.fields(layout)
        if item.default is dataclasses.MISSING or getattr(layout, item.name) != item.default
    }


def layout_of(values: Mapping[str, Any]) -> Layout:
    """A layout from plain values."""
    given = dict(values)
    if "recompute_modules" in given:
        given["recompute_modules"] = tuple(given["recompute_modules"])
    return Layout(**given)
