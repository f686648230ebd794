"""Load of the network, and its drawing."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from railyard.measure.result.section import Count, Figures, Number, Share


class FlowTimes(Figures):
    """Flow completion times to the last acknowledgement at the sender; null where nothing has finished."""

    min: float | None = Field(description="least, us")
    mean: float | None = Field(description="mean, us")
    p50: float | None = Field(description="median, us")
    p99: float | None = Field(description="99th percentile, us")
    p999: float | None = Field(description="99.9th percentile, us")
    max: float | None = Field(description="greatest, us")


class TailRow(Figures):
    """Completion times of one group of flows."""

    group: str = Field(description="`all`, or a label of the flows")
    flows: Count = Field(description="that finished")
    mean_us: float = Field(description="mean, us")
    p50_us: float = Field(description="median, us")
    p99_us: float = Field(description="99th percentile, us")
    p999_us: float = Field(description="99.9th percentile, us")
    max_us: float = Field(description="greatest, us")
    slowest: str = Field(description="source and target of the slowest flow")


class BackgroundRow(Figures):
    """Background traffic while the job ran: what the job cost it."""

    group: str = Field(description="label of the flows")
    flows: Count = Field(description="that began before the job's last flow was done")
    finished_share: float = Field(description="of them, those that were done by then, 0 to 1")
    mean_us: float = Field(description="mean completion time, us")
    p99_us: float = Field(description="99th percentile, us")
    max_us: float = Field(description="greatest, us")
    alone_mean_us: float = Field(description="mean of the same flows on a network without the job, us")
    alone_p99_us: float = Field(description="their 99th percentile, us")
    slowdown: float = Field(description="mean over mean alone")


class QueueRow(Figures):
    """The egress queue of one link in time."""

    link: str = Field(description="from where to where")
    tier: str = Field(description="of the link")
    depth_bytes: tuple[Number, ...] = Field(description="at each time, bytes")
    utilization: tuple[float, ...] = Field(description="since the time before, 0 to 1")
    marks: tuple[Number, ...] = Field(description="packets marked since the time before")
    paused_share: tuple[float, ...] = Field(description="of the time since the one before, 0 to 1")


class QueueSeries(Figures):
    """Queues of some links in time."""

    time_us: tuple[float, ...] = Field(description="us")
    rows: tuple[QueueRow, ...] = Field(description="the deepest first")


class SenderRow(Figures):
    """Limits of one sender; keys that its control does not have are absent."""

    flow: str = Field(description="source and target")
    rate_gbps: tuple[float, ...] | None = Field(default=None, description="at each time, Gb/s")
    window_kb: tuple[float, ...] | None = Field(default=None, description="at each time, kB")


class SenderSeries(Figures):
    """Some senders in time."""

    time_us: tuple[float, ...] = Field(description="us")
    rows: tuple[SenderRow, ...] = Field(description="from the fastest flow to the slowest")


class PausedLink(Figures):
    """A link that was paused."""

    link: str = Field(description="from where to where")
    paused_us: float = Field(description="us")
    pauses: Count = Field(description="how often")
    origin: str = Field(description="link whose buffer started it; `unknown` if unclear")


class Victim(Figures):
    """A flow that was slowed though it sends to no link where pauses began."""

    flow: str = Field(description="source and target")
    fct_us: float = Field(description="completion time, us")
    alone_us: float = Field(description="completion time without the flows that caused pauses, us")
    slowdown: float = Field(description="their quotient")
    stopped_by: str = Field(description="link whose buffer stopped it")


class StormFigures(Figures):
    """Pauses: where they began, which links they stopped, which flows suffered."""

    paused_us_total: float = Field(description="over all links, us")
    pauses: Count = Field(description="over all links")
    longest_us: float = Field(description="the longest pause, us")
    links: tuple[PausedLink, ...] = Field(description="those that stood longest")
    victims: tuple[Victim, ...] = Field(description="the worst hit")


class ReorderFigures(Figures):
    """Distances by which packets arrived out of order."""

    depth_p50: float = Field(description="median, packets")
    depth_p99: float = Field(description="99th percentile, packets")
    depth_max: float = Field(description="greatest, packets")


class RepeatFigures(Figures):
    """What of a run repeated something before it exactly and was not simulated again."""

    episodes: Count = Field(description="sets of flows that met nobody else")
    repeated: Count = Field(description="of them, those that were not simulated")
    checked: Count = Field(description="known, and simulated all the same")
    replayed: Count = Field(description="begun without packets, and simulated when something new came to them")
    hops: Count = Field(description="links that the packets which were not simulated would have crossed")
    worst_ps: Count = Field(description="most by which a time of the checked or replayed differed, ps")


class PacketFigures(Figures):
    """Flows, packets and queues of a run of the packet engine."""

    flows_total: Count = Field(description="flows of the work")
    flows_finished: Count = Field(description="those that finished")
    last_finish_us: float | None = Field(description="when the last one did, us; null where none did")
    payload_bytes: Count = Field(description="of finished flows, bytes")
    fct_us: FlowTimes = Field(description="flow completion times, us")
    fct_cdf: tuple[tuple[float, float], ...] = Field(description="time in us, share of all that took no longer")
    tails: tuple[TailRow, ...] = Field(description="completion times by group")
    packets: dict[str, int] = Field(description="counts by kind")
    constants: dict[str, Number] = Field(description="of the run, unit in the name")
    repeats: RepeatFigures | None = Field(default=None, description="what was not simulated; absent where all was")
    left_out: tuple[str, ...] = Field(description="what the model leaves out")
    queues: QueueSeries | None = Field(default=None, description="queues in time")
    flows: SenderSeries | None = Field(default=None, description="senders in time")
    storm: StormFigures | None = Field(default=None, description="pauses; absent where nothing was paused")
    background: tuple[BackgroundRow, ...] | None = Field(
        default=None, description="background traffic while the job ran, by group; absent where there was none"
    )
    reorder: ReorderFigures | None = Field(default=None, description="reordering")


class LostTime(Figures):
    """A part of the time that a fault costs a job."""

    cause: str = Field(description="what it goes into")
    seconds: float = Field(description="s")


class TierHit(Figures):
    """Links of one tier that a fault is about; both directions of a cable are one link."""

    tier: str = Field(description="name of the tier")
    links: Count = Field(description="links that are hit")
    of: Count = Field(description="links of the tier")
    share: Share = Field(description="of the tier, each direction by itself, 0 to 1")


class FaultFigures(Figures):
    """One fault, what it hit, and what became of the job."""

    what: str = Field(description="the fault in words")
    at_s: float = Field(description="from the start of the job, s")
    outcome: Literal["rerouted", "waited", "aborted", "slowed", "stalled", "unnoticed"] = Field(
        description="rerouted: traffic has other paths; waited: until it was back; aborted: the job ended; slowed; "
        "stalled: traffic stalled though nothing was dead, until the job was aborted; unnoticed"
    )
    links: Count = Field(description="links of all tiers that are hit; both directions of a cable are one link")
    share: Share = Field(description="of the links of their tier; of several tiers, of the one that loses most")
    tiers: tuple[TierHit, ...] = Field(description="the same by tier, the one that loses most first")
    hosts: Count = Field(description="hosts that it takes away or cuts off")
    detection_s: float = Field(description="from a death until routes keep off it, or until the job is aborted, s")
    stall_s: float = Field(
        description="how much longer the step is in which it happens; of an aborted one all of it, s"
    )
    slower: float = Field(description="a later step over one without the fault, while it lasts; 1 where it costs none")
    lost_s: float = Field(description="of the job, all parts, s; without permanently slower steps")
    parts: tuple[LostTime, ...] = Field(description="of that time")


class FaultCost(Figures):
    """Cost of a scenario's faults to its job, against the same scenario without any of them."""

    what: str = Field(description="the faults in words")
    step_s: float = Field(description="how much longer a mean step is, s")
    tokens_lost: float | None = Field(
        description="share of the tokens a second that the job would make without them; null where it makes none"
    )
    job_s: float | None = Field(description="how much longer the job takes, s; null without a token budget")
    cpmt_usd: float | None = Field(description="how much more a million tokens costs, typical, USD; null without any")
    job_usd: float | None = Field(description="the same of all tokens of the job, USD; null without a token budget")


class ReplicaFaultFigures(Figures):
    """One death in a serving run, each time that it comes."""

    what: str = Field(description="what died, in words")
    at_s: float = Field(description="from the start of the run, s")
    replicas: tuple[Count, ...] = Field(description="that it takes away, counted over all pools; none: unnoticed")
    away_s: float = Field(description="until their processes run again, without the loading of their weights, s")


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
    """Load of the network in a step."""

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


class PicturePlace(Figures):
    """Boxes and edges of a `Picture`; both empty if it is not shown."""

    boxes: tuple[tuple[Count, Count], ...] = Field(description="tier and box")
    edges: tuple[Count, ...] = Field(description="numbers of edges")


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
    switches: tuple[SwitchRow, ...] = Field(description="one row per role and box: ports used and stranded")
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
