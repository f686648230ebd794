"""What makes a cluster slow: what `diagnosis.json` holds."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from railyard.measure.result.answers.place import PicturePlace
from railyard.measure.result.network import Picture
from railyard.measure.result.section import Figures, Share, Values

NOT_KNOWN = "which part is to blame, if any, is not known"

ALL_RANKS = "all ranks"
"""The part where work is spread unevenly, on other ranks in every step."""

EVEN = 0.5
"""Confidence below which the part that is named first is more likely well than not."""


class SuspectRow(Figures):
    """A part that is named."""

    part: str = Field(description="as faults of scenarios write it")
    kind: str = Field(
        description="accelerator, host, nic, cable, switch, stage, rank, software; sequences or experts: no bad part,"
        " but work that is unevenly spread"
    )
    confidence: Share = Field(description="0 to 1")
    pattern: Literal["constant", "intermittent"] = Field(description="slow in every step, or in some")
    slow_steps: tuple[int, ...] = Field(
        description="in which steps, as traces number them (from 0 where nothing marks them); empty where steps were"
        " not told apart"
    )
    evidence: str = Field(description="what is slow, by how much and in which steps, in words")
    usd_per_hour: float | None = Field(description="what it costs; null where no price is known")
    place: PicturePlace | None = Field(default=None, description="on the picture; absent without a cluster")


class TestStep(Figures):
    """A test that would settle it."""

    run: str = Field(description="what to do")
    expected: str = Field(description="what comes out where it is well")
    otherwise: str = Field(description="what it means where that does not come out")


class DiagnosisAnswer(Figures):
    """Which part is to blame, if any."""

    format: Literal["railyard-diagnosis/1"] = Field(description="of this document")
    name: str = Field(description="of what was looked at")
    version: str = Field(description="of Railyard")
    verdict: tuple[SuspectRow, ...] = Field(description="parts, the surest first")
    unknown: bool = Field(
        description="whether something is wrong that no single part explains, or too little was measured to say that"
        " nothing is wrong"
    )
    missing_ranks: tuple[int, ...] = Field(description="ranks of the job without a trace")
    what_if: Values = Field(description="S and the like, where there is a replay; else empty")
    notes: tuple[str, ...] = Field(description="what stands between and a surer answer")
    steps: tuple[TestStep, ...] = Field(description="tests that would settle it, in order")
    picture: Picture | None = Field(description="of the cluster's network; null without a cluster")

    def sentence(self) -> str:
        """The answer in one sentence: which part, what is slow by how much, in which steps, and how sure that is."""
        if not self.verdict:
            why = f": {self.notes[0]}" if self.notes else ""
            return f"{NOT_KNOWN}{why}" if self.unknown else f"nothing is wrong{why}"
        first = self.verdict[0]
        more = [f"{one.part} ({one.kind}, {one.confidence:.0%})" for one in self.verdict[1:]]
        price = "" if first.usd_per_hour is None else f", ${first.usd_per_hour:,.0f} an hour"
        said = f"{first.part} {'are' if first.part == ALL_RANKS else 'is'} to blame ({first.kind})"
        if self.unknown and first.confidence < EVEN:
            said = f"{NOT_KNOWN}; it may be {first.part} ({first.kind})"
        also = f"; also named: {', '.join(more)}" if more else ""
        return f"{said}: {first.evidence}; {first.confidence:.0%} sure{price}{also}"
