"""One model answered from several places."""

from __future__ import annotations

from pydantic import Field

from railyard.measure.result.section import Band, Count, Figures, Share
from railyard.measure.result.wide import CauseRow, SpreadRow


class PlaceRow(Figures):
    """What a place would do if it answered all."""

    name: str = Field(description="place, `device`, or `PLACE, one site down`")
    possible: bool = Field(description="whether the model fits and the load is carried")
    why_not: str | None = Field(description="null where it is possible")
    ttft_s: SpreadRow | None = Field(description="until the first token is seen, s; null where impossible")
    e2e_s: SpreadRow | None = Field(description="until the last one is, s")
    in_time: Share | None = Field(description="of the requests")
    within: bool = Field(description="whether the bound holds")
    causes: tuple[CauseRow, ...] = Field(description="of the mean time until the last token")
    up_bytes: float = Field(description="of a request that leave the device")
    down_bytes: float = Field(description="of an answer")
    accelerators: Count = Field(description="at all sites together; 0 for devices")
    joules: Band | None = Field(description="of a request: servers and the client's radio, or the device")
    usd: Band | None = Field(description="of a request: rent and egress; devices are the clients' own")
    leaves: str = Field(description="what of the prompt leaves the device, and where to")


class OffloadRow(Figures):
    """Where clients with one device and one access link had best ask."""

    device: str = Field(description="of the catalogue")
    link: str = Field(description="of the catalogue")
    requests: Share = Field(description="of all")
    place: str = Field(description="cheapest one within the bound for them; else the one with most of them in time")
    in_time: Share = Field(description="of their requests, there")


class OffloadFigures(Figures):
    """Each kind of client asks where it had best."""

    in_time: Share = Field(description="of all requests")
    usd: Band = Field(description="of a request, USD, mean")
    joules: Band = Field(description="of a request, J, mean")
    rows: tuple[OffloadRow, ...] = Field(description="by device and link, most requests first")


class EdgeFigures(Figures):
    """Places compared under a bound."""

    bound: str = Field(description="in words")
    choice: str | None = Field(description="cheapest place within the bound; null where none is")
    reason: str = Field(description="in words")
    places: tuple[PlaceRow, ...] = Field(min_length=1, description="each as if it answered all")
    offload_share: Share | None = Field(
        description="of the requests that miss the bound on the device and hold it at the choice; null without devices"
    )
    offload: OffloadFigures | None = Field(
        description="each kind of client where it had best ask, places loaded as if each answered all; null: none"
    )
