"""The `operate` section: many jobs on one cluster for months, as `railyard operate` runs them."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from railyard.kit.schema.quantity import Bounds, limits
from railyard.work.scenario.quantity import (
    SOME_TIME,
    Count,
    Flag,
    Natural,
    Number,
    Positive,
    Rate,
    Ratio,
    Size,
    Span,
    Text,
    Whole,
)
from railyard.work.scenario.section import Section, WorkKey, works
from railyard.work.serving.section import ServingSection

_DAY = 86_400.0


class DrawnKindSection(Section):
    """A kind of drawn jobs: size, run time, tenant, and placement constraints."""

    share: Annotated[Ratio, Bounds(above=0.0)] = Field(
        default=1.0, description="Share of the jobs, relative to the other kinds."
    )
    sizes: dict[Text, Number] = Field(
        default_factory=dict, description="Accelerators of a job and how often; left out: as all jobs."
    )
    median: Span | None = Field(default=None, description="Median run time; left out: as all jobs.")
    p90: Span | None = Field(default=None, description="90th percentile of it; left out: as all jobs.")
    tenant: Text | None = Field(default=None, description="Its tenant; left out: drawn evenly.")
    priority: Annotated[Whole, limits(-1_000_000, 1_000_000)] = Field(default=0, description="Larger goes first.")
    work: Text | None = Field(default=None, description="Class of work; left out: drawn among those of `contention`.")
    within: Text | None = Field(default=None, description="Level at which one group has all nodes (required).")
    prefers: Text | None = Field(default=None, description="Level that is tried first and may be widened (preferred).")
    segment: Natural = Field(default=0, description="Nodes of a slice that stay together.")
    segment_within: Text | None = Field(default=None, description="Level at which a slice stays together.")
    switches: Natural = Field(default=0, description="Maximum number of leafs.")
    least_accelerators: Positive | None = Field(default=None, description="Fewest that it can run on (elastic).")
    replica_accelerators: Positive | None = Field(default=None, description="Size of a serving job's replica.")
    load: Annotated[Ratio, limits(0.0, 1.0)] = Field(
        default=0.0, description="Load of a serving job, relative to what all its replicas can serve."
    )


class SyntheticSection(Section):
    """Jobs drawn by the seed: Poisson arrivals, log-normal run times, sizes by their share."""

    count: Positive = Field(description="Number of jobs.")
    load: Annotated[Ratio, Bounds(above=0.0)] = Field(
        default=0.9, description="Accelerator time requested, relative to what the cluster has until the last arrival."
    )
    sizes: dict[Text, Number] = Field(
        default_factory=lambda: {"1": 1.0},
        description="Accelerators of a job and how often, relative to the others.",
        examples=[{"1": 0.8, "8": 0.15, "64": 0.05}],
    )
    median: Span = Field(default=1800.0, description="Median run time.")
    p90: Span = Field(default=28_800.0, description="90th percentile of the run time.")
    tenants: Positive | None = Field(
        default=None,
        description="Tenants, with the same number of jobs on average; left out: those of `cluster.tenancy`, or one.",
    )
    kinds: tuple[DrawnKindSection, ...] = Field(
        default=(), description="Kinds of jobs, each with sizes, tenant, priority and constraints; left out: one kind."
    )


class TraceOfJobsSection(Section):
    """The source of the jobs: either `trace` or `synthetic`."""

    trace: Text | None = Field(default=None, description="A file, relative to the scenario.")
    format: Text = Field(
        default="auto", description="`philly`, `tiresias`, `alibaba`, `sacct`, `csv`; `auto` looks at its columns."
    )
    start: Span = Field(default=0.0, description="Skips earlier submissions, from the trace's first job.")
    length: Span | None = Field(default=None, description="Skips submissions later than this after `start`.")
    faster: Annotated[Ratio, Bounds(above=0.0)] = Field(
        default=1.0, description="Divides the times between submissions: more load."
    )
    shrink: Flag = Field(
        default=False,
        description="Gives jobs larger than the cluster all of it except the spares, instead of rejecting the trace.",
    )
    synthetic: SyntheticSection | None = Field(default=None, description="Drawn jobs.")

    @model_validator(mode="after")
    def _one(self) -> "TraceOfJobsSection":
        if (self.trace is None) == (self.synthetic is None):
            raise PydanticCustomError("operate", "expected one of `trace` and `synthetic`")
        return self


class QueueSection(Section):
    """Queue order and backfill."""

    discipline: Text = Field(
        default="fifo", description="`fifo`, `priority`, `shortest`, `fair-share`, `least-attained`."
    )
    backfill: Text = Field(default="easy", description="`none`, `easy`, `conservative`, `any`.")
    depth: Positive = Field(default=500, description="Jobs that a pass over the queue considers.")
    renew: Annotated[Span, SOME_TIME] = Field(
        default=300.0, description="How often keys that change with time are recomputed."
    )
    half_life: Annotated[Span, SOME_TIME] = Field(default=7 * _DAY, description="Half-life of usage, for `fair-share`.")
    attained: Span = Field(
        default=8 * 3600.0, description="Accelerator time up to which a job is new, for `least-attained`."
    )
    shares: dict[Text, Number] = Field(
        default_factory=dict, description="Shares of tenants, for `fair-share`; 1 for others."
    )
    quotas: dict[Text, Positive] = Field(default_factory=dict, description="Maximum accelerators by tenant.")
    borrow: Flag = Field(
        default=False,
        description="Tenants may exceed quotas while nodes are idle; such jobs are preempted when others need them.",
    )


class WindowSection(Section):
    """Nodes kept free for a time."""

    start: Span = Field(description="Start, from the start of the run.")
    length: Span = Field(description="Length of the window.")
    nodes: tuple[Natural, Natural] = Field(description="First and last node.", examples=[[0, 31]])
    tenant: Text | None = Field(default=None, description="Tenant that may use them; left out: none (maintenance).")


class ClassSection(Section):
    """A class of work: what a step of such jobs computes and sends, from a catalog model or in numbers."""

    name: Text = Field(description="Name of the class.")
    share: Ratio = Field(default=1.0, description="Relative share of the jobs without a class in the trace.")
    least_accelerators: Positive = Field(default=1, description="Smallest job that gets this class.")
    model: Text | None = Field(
        default=None,
        description="A model of the catalog, data-parallel across nodes, with its own layout inside a node.",
    )
    tokens: Positive = Field(default=8192, description="Tokens per accelerator and step, with `model`.")
    compute: Span = Field(default=0.0, description="Computation of a step, with `message`.")
    message: Size = Field(default=0, description="Bytes that each accelerator all-reduces per step.")
    overlap: Annotated[Ratio, limits(0.0, 1.0)] = Field(
        default=0.5, description="Share of the computation that can hide communication."
    )

    @model_validator(mode="after")
    def _one(self) -> "ClassSection":
        numbers = self.compute > 0 and self.message > 0
        if (self.model is not None) == numbers:
            raise PydanticCustomError("operate", "expected `model`, or `compute` with `message`")
        return self


class ContentionSection(Section):
    """How jobs slow one another down on the shared network."""

    classes: tuple[ClassSection, ...] = Field(description="Classes of work; each job gets one by the seed.")
    tolerance: Annotated[Ratio, limits(0.0, 0.5)] = Field(
        default=0.005, description="Neighbors that use less than this share of a common link are ignored."
    )
    priorities: Literal["none", "intensity"] = Field(
        default="none",
        description="`intensity`: jobs that compute most per second of traffic go first on shared links (Crux).",
    )
    paths: Literal["hashed", "selected"] = Field(
        default="hashed",
        description="`selected`: each connection gets the least congested path, jobs that compute most per second of"
        " traffic first (Crux); `hashed`: switches choose. Only fabrics that hash have paths to select.",
    )
    shifts: Literal["none", "compatible"] = Field(
        default="none",
        description="`compatible`: jobs on a shared link are shifted: one sends while others compute (CASSINI).",
    )
    drift: Annotated[Ratio, limits(0.0, 0.05)] = Field(
        default=0.005,
        description="Standard deviation of a step's length, relative: with `shifts`, jobs drift out of alignment"
        " and are realigned when they are off by 5 % of a step.",
    )


class ModeSection(Section):
    """A failure mode: changes one of the profile's by name, or adds a new one."""

    name: Text = Field(description="Name of a mode, such as `gpu`.")
    per_1000_node_days: Number | None = Field(default=None, description="Failures per thousand node-days.")
    repair: Span | None = Field(default=None, description="Median time to repair.")
    repair_p90: Span | None = Field(default=None, description="90th percentile of it.")
    detect: Span | None = Field(default=None, description="Time to detection.")


class LinksSection(Section):
    """Failures of links by the rates of the catalogue, and what operators do against them."""

    llr: Flag = Field(default=False, description="Links retry corrupted packets themselves: bit errors slow no job.")
    drain: Flag = Field(
        default=False, description="Nodes of links whose bit errors rise are drained before the link fails (CorrOpt)."
    )
    spare_lanes: Flag = Field(default=False, description="Modules have a lane more and switch to it when one fails.")


def _parts(value: object) -> object:
    return {} if value == "parts" else value


class FailuresSection(Section):
    """What breaks, how often, and for how long."""

    profile: Text = Field(default="llama3", description="Rates by component: `llama3`, `rsc1`, `rsc2`, `none`.")
    scale: Annotated[Number, Bounds(low=0.0)] = Field(default=1.0, description="Multiplies all rates.")
    modes: tuple[ModeSection, ...] = Field(default=(), description="Changes to the profile.")
    links: Annotated[LinksSection, BeforeValidator(_parts)] | None = Field(
        default=None,
        description="`parts`, or what is done against them: failures of cables, modules and lasers by their number and"
        " the catalogue's rates, in place of the profile's. A flap kills a job that it outlasts (`recovery`).",
    )
    timeout: Span = Field(default=600.0, description="Timeout of collectives, which detects a hang.")
    reroute: Span | None = Field(
        default=None,
        description="Time to reroute around a node's dead cable or switch, if it has two; left out: it has one."
        " Around cables between switches each fabric reroutes in its own time.",
    )


class RecoverySettings(Section):
    """How jobs recover from failures."""

    interval: Span | Literal["young", "daly", "none"] = Field(
        default="daly",
        description="Work between two checkpoints: a time, `young` or `daly` by the job's size, or `none`.",
    )
    checkpoint: Literal["sync", "async", "memory", "peers"] = Field(
        default="sync",
        description="`sync` stops for the write; `async` copies to the host and writes later; `memory` keeps it in the"
        " node's host, lost with the node; `peers` also in another node's.",
    )
    state: Size = Field(default=100_000_000_000, description="Bytes that each accelerator writes.")
    bandwidth: Rate = Field(default=1.6e10, description="Storage bandwidth per node while all nodes of a job write.")
    host_bandwidth: Rate = Field(default=2e11, description="From each accelerator to host memory.")
    restart: Span = Field(
        default=400.0,
        description="From nodes to the first step: processes, connections, loading. MLPerf v5.0: 368 to 727 s.",
    )
    resume: Span = Field(
        default=120.0, description="The same if a spare takes over and the other nodes keep their processes."
    )
    spares: Natural = Field(default=0, description="Nodes kept out of the queue as spares.")
    grace: Flag = Field(default=True, description="Whether a preempted job writes a checkpoint first.")
    elastic: Flag = Field(default=False, description="Whether jobs that can shrink continue without a lost node.")


class TurnaroundSection(Section):
    """How nodes are prepared before a job uses them: erasing the previous user's data, and attestation."""

    between: Literal["tenants", "jobs"] = Field(
        default="tenants", description="When nodes are erased: after another tenant, or after any other job."
    )
    memory: Flag = Field(default=True, description="Overwrites host and accelerator memory at its bandwidth.")
    drives: Literal["none", "crypto", "overwrite"] = Field(
        default="crypto", description="`crypto` changes the drives' key; `overwrite` writes all of them, at their rate."
    )
    key_change: Span = Field(
        default=5.0, description="Time for all drives of a node with `crypto`; an assumption: no vendor states one."
    )
    storage: Text = Field(default="local-nvme", description="The drives of a node, a catalog entry.")
    reboot: Span = Field(default=0.0, description="Reboot time after erasing; left out: no reboot.")
    attestation: Span = Field(default=0.0, description="Time for a verifier to attest an accelerator; at every start.")
    verifier_rate: Annotated[Number, Bounds(low=0.0)] = Field(
        default=0.0, description="Accelerators that the verifier attests per second; 0: no limit."
    )


class SteadySection(Section):
    """The part of the run whose figures count."""

    start: Span = Field(default=0.0, description="Start, from the start of the run; excludes a warm-up.")
    end: Span | None = Field(default=None, description="End; left out: the last submission.")


def _file(value: object) -> object:
    return {"trace": value} if isinstance(value, str) else value


def _profile(value: object) -> object:
    return {"profile": value} if isinstance(value, str) else value


class OperateSection(Section):
    """Many jobs on the cluster, for months."""

    jobs: Annotated[TraceOfJobsSection, BeforeValidator(_file)] = Field(description="The jobs: a file, or its section.")
    queue: QueueSection = Field(default_factory=QueueSection, description="Queue order and backfill.")
    placement: Text = Field(default="first-fit", description="Name of a placement policy.")
    within: Text | None = Field(
        default=None,
        description="Level at which one group must contain a job of several nodes: `domain`, `leaf`, `pod`.",
    )
    setup: Span = Field(default=0.0, description="From placement until work begins.")
    windows: tuple[WindowSection, ...] = Field(default=(), description="Maintenance and reservations.")
    contention: ContentionSection | None = Field(default=None, description="Contention; left out: none.")
    failures: Annotated[FailuresSection, BeforeValidator(_profile)] | None = Field(
        default=None, description="Failures; left out: nothing breaks."
    )
    draws: Positive = Field(
        default=5,
        description="Number of failure draws; results show their spread; variants within it are equal within error.",
    )
    recovery: RecoverySettings = Field(default_factory=RecoverySettings, description="Recovery from failures.")
    turnaround: TurnaroundSection | None = Field(
        default=None, description="Erasing and attesting nodes between users; left out: neither."
    )
    serving: dict[Text, ServingSection] = Field(
        default_factory=dict,
        description="Requests of serving jobs, by class of the trace; gives latencies while replicas are out."
        " Replicas come from the job, the rate from its `load`.",
    )
    steady: SteadySection | None = Field(
        default=None,
        description="Window of the figures (utilization, goodput, dollars); left out: from the first submission to the"
        " last. The drain after it is shown separately.",
    )
    until: Span | None = Field(default=None, description="End of the run; left out: when every job has ended.")
    sample: Annotated[Span, SOME_TIME] = Field(
        default=3600.0, description="Time between two samples of the cluster's state."
    )
    save_every: Annotated[Count, Bounds(low=1)] = Field(
        default=20_000, description="Events between two saved states, from which a killed run resumes."
    )

    def files_in(self, folder: Path) -> dict[str, Path]:
        """The trace of its jobs."""
        return {} if self.jobs.trace is None else {self.jobs.trace: folder / self.jobs.trace}


works.add("operate", WorkKey(OperateSection, "Jobs that come and go for months: for `railyard operate`.", order=50))
