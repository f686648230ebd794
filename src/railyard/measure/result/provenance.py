"""Where the numbers of a result come from."""

from __future__ import annotations

from pydantic import Field

from railyard.measure.result.section import Figures


class SourceRow(Figures):
    """The origin of one number."""

    item: str = Field(description="what it belongs to: `h100-sxm`, `cost of capital`")
    field: str = Field(description="which number of it")
    value: str = Field(description="as written, with its unit")
    source: str = Field(description="who says so")
    year: int | str = Field(description="of the source; empty where none is named")
    confidence: str = Field(description="vendor, measured, estimated, published or user")


class ProvenanceFigures(Figures):
    """How a result was made."""

    version: str = Field(description="of Railyard")
    engine: str = Field(description="that ran the work")
    seed: int = Field(description="of every random choice")
    digest: str = Field(description="fingerprint of the first variant's run")
    created: str | None = Field(
        default=None,
        description="date and time, UTC; absent where a run that was killed and goes on gives the same bytes",
    )
    sources: tuple[SourceRow, ...] = Field(description="of prices, powers and rates")
    left_out: tuple[str, ...] = Field(description="what engine and model leave out")
    defaults: tuple[str, ...] = Field(description="what was chosen because the document did not say")
