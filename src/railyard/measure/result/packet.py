"""What a packet-level run found. Parts that were not sampled are absent."""

from __future__ import annotations

from pydantic import Field

from railyard.measure.result.section import Count, Figures, Number


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
    """What one sender was allowed; keys that its control does not have are absent."""

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
    origin: str = Field(description="link whose buffer began it; `unknown` where it cannot be told")


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
    """How far packets arrived out of order."""

    depth_p50: float = Field(description="median, packets")
    depth_p99: float = Field(description="99th percentile, packets")
    depth_max: float = Field(description="greatest, packets")


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
    left_out: tuple[str, ...] = Field(description="what the model leaves out")
    queues: QueueSeries | None = Field(default=None, description="queues in time")
    flows: SenderSeries | None = Field(default=None, description="senders in time")
    storm: StormFigures | None = Field(default=None, description="pauses; absent where nothing was paused")
    background: tuple[BackgroundRow, ...] | None = Field(
        default=None, description="background traffic while the job ran, by group; absent where there was none"
    )
    reorder: ReorderFigures | None = Field(default=None, description="reordering")
