"""Whether what a scenario asserts holds: what `check.json` holds."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from railyard.measure.result.section import Figures


class CheckRow(Figures):
    """One assertion of one variant."""

    assertion: str = Field(description="as the scenario writes it")
    variant: str = Field(description="of which it was judged")
    found: str = Field(description="what was found, in words")
    holds: bool = Field(description="whether it holds")
    remark: str | None = Field(default=None, description="what should be known besides; absent where nothing is")


class CheckAnswer(Figures):
    """Every assertion of a scenario, judged of every variant."""

    format: Literal["railyard-check/1"] = Field(description="of this document")
    name: str = Field(description="of the scenario")
    version: str = Field(description="of Railyard")
    stopped: bool = Field(description="whether it was stopped before its end: only some assertions are judged then")
    holds: bool = Field(description="whether all hold; false where it was stopped")
    checks: tuple[CheckRow, ...] = Field(description="in the order of the scenario, variant by variant")

    def sentence(self) -> str:
        """The answer in one sentence."""
        failed, judged = [row for row in self.checks if not row.holds], f"{len(self.checks)}"
        early = f"stopped after {judged} were judged: " if self.stopped else ""
        if not failed:
            return f"{early}all {judged} assertions hold"
        return f"{early}{len(failed)} of {judged} do not hold: {failed[0].assertion} ({failed[0].found})"
