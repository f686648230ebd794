"""What makes a cluster slow: what `diagnosis.json` holds."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from railyard.result.answers.place import PicturePlace
from railyard.result.network import Picture
from railyard.result.section import Figures, Share, Values


class SuspectRow(Figures):
    """A part that is named."""

    part: str = Field(description="as faults of scenarios write it")
    kind: str = Field(description="accelerator, host, nic, link, switch, rank, stage or software")
    confidence: Share = Field(description="0 to 1")
    evidence: str = Field(description="in words, with figures")
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
    unknown: bool = Field(description="whether something is wrong that could not be laid to one part")
    what_if: Values = Field(description="S and the like, where there is a replay; else empty")
    notes: tuple[str, ...] = Field(description="what stands between and a surer answer")
    steps: tuple[TestStep, ...] = Field(description="tests that would settle it, in order")
    picture: Picture | None = Field(description="of the cluster's network; null without a cluster")

    def sentence(self) -> str:
        """The answer in one sentence."""
        if not self.verdict:
            return "something is wrong; which part is not known" if self.unknown else "nothing is wrong"
        first = self.verdict[0]
        more = f" and {len(self.verdict) - 1} more" if len(self.verdict) > 1 else ""
        price = "" if first.usd_per_hour is None else f", ${first.usd_per_hour:,.0f} an hour"
        return f"{first.part} ({first.kind}), {first.confidence:.0%} sure{price}{more}"
