"""What the network carried, and its drawing."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from railyard.measure.result.section import Count, Figures


class TierRow(Figures):
    """One tier of links."""

    name: str = Field(description="as in the cluster's link table")
    links: Count = Field(description="physical links, one way each")
    rate_bps: float = Field(description="median line rate, bit/s")
    mean_utilization: float = Field(
        description="mean load over links and step; above 1 where the engine leaves contention out"
    )
    max_utilization: float = Field(description="load of the busiest link, as above")
    bytes: float = Field(description="on all its wires, bytes")


class HotLink(Figures):
    """One of the most loaded links."""

    name: str = Field(description="from where to where")
    tier: str = Field(description="its tier")
    utilization: float = Field(description="load over the step")


class Waited(Figures):
    """Shares of the step that a rank waits for communication."""

    scale_up: float = Field(description="inside scale-up domains, 0 to 1")
    scale_out: float = Field(description="across them, 0 to 1")


class NetworkFigures(Figures):
    """What the network carried in a step."""

    tiers: tuple[TierRow, ...] = Field(description="from the accelerators upwards")
    saturated_tier: str | None = Field(description="the tier that limits; null where none does")
    hot_links: tuple[HotLink, ...] = Field(description="the busiest links")
    waited: Waited = Field(description="for communication")
    crosses: bool = Field(description="whether anything crosses links between switches of the back-end")
    crosses_from: Count | None = Field(
        description="where nothing does: fewest servers with which this topology makes it cross; null where it could "
        "already, or never does"
    )


class PictureBox(Figures):
    """One or several neighbouring nodes."""

    label: str = Field(description="their names")
    count: Count = Field(description="how many nodes")


class PictureTier(Figures):
    """One row of the drawing."""

    name: str = Field(description="of the tier")
    nodes: tuple[PictureBox, ...] = Field(description="from left to right")


class PictureEdge(Figures):
    """All links between two boxes."""

    model_config = ConfigDict(populate_by_name=True)

    from_: tuple[Count, Count] = Field(validation_alias="from", serialization_alias="from", description="tier and box")
    to: tuple[Count, Count] = Field(description="tier and box")
    links: Count = Field(description="cables")
    mean: float = Field(description="mean load")
    max: float = Field(description="load of the busiest")


class Picture(Figures):
    """A tiered drawing: switches, or bundles of them, and how busy the cables between two of them are."""

    tiers: tuple[PictureTier, ...] = Field(description="from the servers upwards")
    edges: tuple[PictureEdge, ...] = Field(description="between boxes")


class SwitchRow(Figures):
    """Switches of one role: what of their ports is used."""

    role: str = Field(description="leaf, spine, core, router, border")
    box: str = Field(description="catalogue entry")
    count: Count = Field(description="boxes that are bought")
    ports: Count = Field(description="of all of them, at the rate of their links")
    used: Count = Field(description="with a link")
    stranded: Count = Field(description="bought and empty")


class TopologyFigures(Figures):
    """The back-end network."""

    kind: str = Field(description="name of the topology")
    tiers: tuple[str, ...] = Field(description="names of its link tiers")
    nodes: Count = Field(description="switches")
    switches: tuple[SwitchRow, ...] = Field(description="a row a role and box: ports used and stranded")
    picture: Picture | None = Field(description="its drawing")


class CollectiveRow(Figures):
    """Collectives of one group, kind, size and count."""

    group: str = Field(description="communicator class")
    kind: str = Field(description="all-reduce, all-gather, ...")
    ranks: Count = Field(description="members of one communicator")
    size_bytes: Count = Field(description="bytes of one")
    count: Count = Field(description="collectives issued as one")
    times: Count = Field(description="how often in a step")
    algorithm: str = Field(description="ring, tree, ...")
    protocol: str = Field(description="of the collective library")
    alone_s: float = Field(description="mean, with the network to itself, s")
    mean_s: float = Field(description="mean as it was, s")
    low_s: float = Field(description="alone, above which nine of ten measured times should lie, s")
    high_s: float = Field(description="alone, below which nine of ten measured times should lie, s")
    beyond: tuple[str, ...] = Field(description="in what it lies beyond published logs, which widens that band")
