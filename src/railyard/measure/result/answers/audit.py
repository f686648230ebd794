"""What is wrong with a network as found: what `audit.json` holds."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from railyard.measure.result.answers.place import PicturePlace
from railyard.measure.result.network import Picture
from railyard.measure.result.section import Count, Figures, Values


class CableEnds(Figures):
    """A cable by its two ends."""

    a: str = Field(description="device and port")
    b: str = Field(description="device and port")


class FindingRow(Figures):
    """One thing that is wrong, where, and what it costs."""

    model_config = ConfigDict(populate_by_name=True)

    kind: str = Field(description="missing, swapped, degraded, ...")
    about: str = Field(description="what that kind is")
    a: str = Field(description="device and port of one end")
    b: str = Field(description="device and port of the other end")
    detail: str = Field(description="what to do")
    loss: float | None = Field(
        description="share of the accelerators' time that it costs by itself, or of the cluster's price where absent"
        " parts cost more (`priced_by` says so); null: no price"
    )
    usd_per_month: float | None = Field(description="the same in dollars")
    loss_band: tuple[float, float] | None = Field(default=None, description="least and most; absent where it is exact")
    priced_by: str | None = Field(
        default=None, description="engine and load behind it, where not the audit's usual ones"
    )
    unpriced: str | None = Field(default=None, description="why it has no price; absent where it has one")
    worst_load: float = Field(description="flows on the fullest cable of the worst shift permutation, with it alone")
    all_reduce: float = Field(description="time of an all-reduce with it over that without")
    step_s: float | None = Field(default=None, description="step of the scenario with it alone, s; absent without one")
    with_: CableEnds | None = Field(
        default=None, validation_alias="with", serialization_alias="with", description="second cable of a swap"
    )
    place: PicturePlace = Field(description="on the picture")
    cables: tuple[Count, ...] = Field(description="rows of the plan's cables; empty without a plan")


class AuditAnswer(Figures):
    """What is wrong with a network as found, dearest first."""

    format: Literal["railyard-audit/1"] = Field(description="of this document")
    name: str = Field(description="of what was read")
    version: str = Field(description="of Railyard")
    findings: tuple[FindingRow, ...] = Field(description="dearest first")
    design: Values = Field(description="against what, in figures")
    loss: float = Field(description="share of the accelerators' time that all findings cost together")
    usd_per_month: float = Field(description="the same in dollars")
    loss_after_repair: tuple[float, ...] = Field(description="what is left after each repair, in order")
    usd_after_repair: tuple[float, ...] = Field(description="the same in dollars a month")
    problems: tuple[str, ...] = Field(description="what of the input could not be read")
    picture: Picture | None = Field(description="of the network; null where no tiers were made out")

    def sentence(self) -> str:
        """The answer in one sentence."""
        if not self.findings:
            doubts = self.design.get("doubts")
            return without_findings((len(doubts) if isinstance(doubts, list | tuple) else 0) + len(self.problems))
        count = f"{len(self.findings):,} finding{'s' if len(self.findings) > 1 else ''}"
        return f"{count}, ${self.usd_per_month:,.0f} a month; first {self.findings[0].kind} at {self.findings[0].a}"


def without_findings(unsure: int) -> str:
    """What an audit says that named no fault, and so many times that it is not sure."""
    return f"nothing was found wrong; {unsure} remarks say what is not sure" if unsure else "nothing is wrong"
