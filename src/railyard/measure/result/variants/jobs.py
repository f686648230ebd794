"""Several jobs that share a cluster: each alone, together, and what each costs the others."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from railyard.measure.result.section import Band, Count, Figures
from railyard.measure.result.serving import Percentiles
from railyard.measure.result.step import TaxFigures
from railyard.measure.result.variants.variant import BaseVariant


class PlacementFigures(Figures):
    """How a job got its accelerators."""

    policy: str = Field(description="packed, scattered, ...")
    seed: Count = Field(description="of a policy that draws")


class SteppedFigure(Figures):
    """A job of steps, alone or beside others."""

    step_s: float = Field(description="mean of the steps counted, s")
    steps: Count = Field(description="those that lie in the time in which all jobs run")
    tax: TaxFigures = Field(description="tokens lost to the scale-out network, other jobs on it included")
    exposed_s: float | None = Field(default=None, description="communication that a step waits for, s")
    usd_per_h: Band | None = Field(default=None, description="the job's share of the machine; absent for a trace")
    usd_per_mtoken: Band | None = Field(default=None, description="per million tokens; absent for a trace")


class ServingFigure(Figures):
    """A job that answers requests, alone or beside others."""

    ttft_s: Percentiles = Field(description="time to first token")
    tpot_s: Percentiles = Field(description="time of each further token")
    transfers: Count = Field(description="that were put on the fabric")
    transfer_s: float = Field(description="their mean time there, s")
    transfer_slowdown: float = Field(description="how many times as long they take as with no other job")
    usd_per_h: Band = Field(description="the job's share of the machine")
    usd_per_mtoken: Band | None = Field(description="per million tokens in time; null where none was")


class CostRow(Figures):
    """What another job costs this one: all jobs together against all without that one."""

    job: str = Field(description="the other")
    seconds: float = Field(description="of the step or the median time to first token, s")
    share: float = Field(description="of what it takes without the other")
    transfer_share: float | None = Field(default=None, description="the same of transfers of a serving job")


class JobRow(Figures):
    """One of the jobs."""

    name: str = Field(description="as the scenario calls it")
    kind: Literal["training", "serving", "trace"] = Field(description="what it is")
    accelerators: Count = Field(description="that it has for itself")
    placement: PlacementFigures = Field(description="how it got them")
    leafs: Count = Field(description="switches that they are joined to")
    start_s: float = Field(description="when it starts, s")
    alone: SteppedFigure | ServingFigure = Field(description="with the machine to itself")
    together: SteppedFigure | ServingFigure = Field(description="with all others")
    slowdown: float = Field(description="of the step, or the median time to first token")
    costs: tuple[CostRow, ...] = Field(description="a row for each other job")


class SharedTier(Figures):
    """Links of one kind."""

    name: str = Field(description="of the tier")
    links: Count = Field(description="one way each")
    mean_utilization: float = Field(description="over links and time")
    max_utilization: float = Field(description="of the busiest link over time")
    bytes: float = Field(description="on all its wires")


class SharedLink(Figures):
    """One of the busiest links."""

    name: str = Field(description="from where to where")
    utilization: float = Field(description="over time")


class SharedNetwork(Figures):
    """What all jobs together put on the network."""

    span_s: float = Field(description="how long they ran, s")
    tiers: tuple[SharedTier, ...] = Field(description="from the accelerators upwards")
    hot_links: tuple[SharedLink, ...] = Field(description="the busiest first")


class RoundsFigures(Figures):
    """How serving and fabric came to agree."""

    count: Count = Field(description="turns that they took")
    moved: float = Field(description="share by which the last of them moved any figure")
    agree: bool = Field(description="whether that is less than 1 %")


class JobsVariant(BaseVariant):
    """Several jobs on one cluster."""

    kind: ClassVar[str] = "jobs"
    engine: str = Field(description="of the fabric")
    jobs: tuple[JobRow, ...] = Field(min_length=1, description="in the order of the scenario")
    network: SharedNetwork | None = Field(description="null where nothing was sent")
    rounds: RoundsFigures = Field(description="of serving and fabric")
    warnings: tuple[str, ...] = Field(description="what to know before the figures are believed")
    digest: str = Field(description="fingerprint of the run of all jobs")
