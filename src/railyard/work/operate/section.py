"""Many jobs on one cluster for months, as `railyard operate` plays them."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from railyard.kit.schema.bounds import Bounds, limits
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
from railyard.work.scenario.section import Section
from railyard.work.serving.section import ServingSection

_DAY = 86_400.0


class DrawnKindSection(Section):
    """A kind of drawn jobs: how large, how long, whose, and what they ask of their place."""

    share: Annotated[Ratio, Bounds(above=0.0)] = Field(
        default=1.0, description="Of the jobs, relative to the other kinds."
    )
    sizes: dict[Text, Number] = Field(
        default_factory=dict, description="Accelerators of a job and how often; left out: those of all jobs."
    )
    median: Span | None = Field(default=None, description="Half of the jobs take less; left out: as all jobs.")
    p90: Span | None = Field(default=None, description="Nine in ten take less; left out: as all jobs.")
    tenant: Text | None = Field(default=None, description="Whose; left out: one of the tenants, drawn evenly.")
    priority: Annotated[Whole, limits(-1_000_000, 1_000_000)] = Field(default=0, description="Larger goes first.")
    work: Text | None = Field(default=None, description="Class of work; left out: drawn among those of `contention`.")
    within: Text | None = Field(default=None, description="Level all of whose nodes lie in one group (required).")
    prefers: Text | None = Field(default=None, description="Level that is tried first and may be widened (preferred).")
    segment: Natural = Field(default=0, description="Nodes of a slice that stay together.")
    segment_within: Text | None = Field(default=None, description="Level in which a slice stays.")
    switches: Natural = Field(default=0, description="At most so many leafs.")
    least_accelerators: Positive | None = Field(default=None, description="With so many a job makes do (elastic).")
    replica_accelerators: Positive | None = Field(default=None, description="Of each replica of a serving job.")
    load: Annotated[Ratio, limits(0.0, 1.0)] = Field(
        default=0.0, description="Asked of a serving job, of what all its replicas can serve."
    )


class SyntheticSection(Section):
    """Jobs drawn by the seed: arrivals of a Poisson process, log-normal times, sizes by their share."""

    count: Positive = Field(description="Jobs.")
    load: Annotated[Ratio, Bounds(above=0.0)] = Field(
        default=0.9, description="Accelerator time that they ask for, over what the cluster has until the last."
    )
    sizes: dict[Text, Number] = Field(
        default_factory=lambda: {"1": 1.0},
        description="Accelerators of a job and how often, relative to the others.",
        examples=[{"1": 0.8, "8": 0.15, "64": 0.05}],
    )
    median: Span = Field(default=1800.0, description="Half of the jobs take less.")
    p90: Span = Field(default=28_800.0, description="Nine in ten take less.")
    tenants: Positive | None = Field(
        default=None,
        description="Tenants, with equally many jobs each on average; left out: those of `cluster.tenancy`, or one.",
    )
    kinds: tuple[DrawnKindSection, ...] = Field(
        default=(), description="Kinds of jobs, each with sizes, tenant, priority and asks; left out: all are alike."
    )


class TraceOfJobsSection(Section):
    """Where the jobs come from: one of `trace` and `synthetic`."""

    trace: Text | None = Field(default=None, description="A file, relative to the scenario.")
    format: Text = Field(
        default="auto", description="`philly`, `tiresias`, `alibaba`, `sacct`, `csv`; `auto` looks at its columns."
    )
    start: Span = Field(default=0.0, description="Leaves out what was submitted earlier, from the trace's first job.")
    length: Span | None = Field(default=None, description="Leaves out what was submitted later than so long after.")
    faster: Annotated[Ratio, Bounds(above=0.0)] = Field(
        default=1.0, description="Divides the times between submissions: more load."
    )
    shrink: Flag = Field(
        default=False,
        description="Gives jobs larger than the cluster all of it but the spares, instead of refusing the trace.",
    )
    synthetic: SyntheticSection | None = Field(default=None, description="Jobs that are drawn.")

    @model_validator(mode="after")
    def _one(self) -> "TraceOfJobsSection":
        if (self.trace is None) == (self.synthetic is None):
            raise PydanticCustomError("operate", "expected one of `trace` and `synthetic`")
        return self


class QueueSection(Section):
    """Who is next, and who may overtake."""

    discipline: Text = Field(
        default="fifo", description="`fifo`, `priority`, `shortest`, `fair-share`, `least-attained`."
    )
    backfill: Text = Field(default="easy", description="`none`, `easy`, `conservative`, `any`.")
    depth: Positive = Field(default=500, description="Jobs that a pass over the queue looks at.")
    renew: Annotated[Span, SOME_TIME] = Field(
        default=300.0, description="How often keys are taken anew that move with time."
    )
    half_life: Annotated[Span, SOME_TIME] = Field(default=7 * _DAY, description="Of usage, for `fair-share`.")
    attained: Span = Field(
        default=8 * 3600.0, description="Accelerator time up to which a job is new, for `least-attained`."
    )
    shares: dict[Text, Number] = Field(default_factory=dict, description="Of tenants, for `fair-share`; 1 for others.")
    quotas: dict[Text, Positive] = Field(default_factory=dict, description="Accelerators of tenants at most at once.")
    borrow: Flag = Field(
        default=False, description="Tenants may have more while nobody needs it, and give it back when preempted."
    )


class WindowSection(Section):
    """Nodes that are kept free for a time."""

    start: Span = Field(description="From when, from the start of the run.")
    length: Span = Field(description="For how long.")
    nodes: tuple[Natural, Natural] = Field(description="First and last node.", examples=[[0, 31]])
    tenant: Text | None = Field(default=None, description="Who may use them meanwhile; left out: nobody (maintenance).")


class ClassSection(Section):
    """A class of work: what a step of such jobs computes and sends, as a model of the catalogue or in numbers."""

    name: Text = Field(description="How it is called.")
    share: Ratio = Field(default=1.0, description="Of the jobs that the trace does not say more of, relative.")
    least_accelerators: Positive = Field(default=1, description="Only jobs of at least so many.")
    model: Text | None = Field(
        default=None, description="A model of the catalogue, data-parallel with its layout inside a node."
    )
    tokens: Positive = Field(default=8192, description="Tokens of an accelerator in one step, with `model`.")
    compute: Span = Field(default=0.0, description="Computation of a step, with `message`.")
    message: Size = Field(default=0, description="Bytes that one accelerator reduces with all others a step.")
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
    """How jobs slow one another on the shared network."""

    classes: tuple[ClassSection, ...] = Field(description="What jobs do; each gets one by the seed.")
    tolerance: Annotated[Ratio, limits(0.0, 0.5)] = Field(
        default=0.005, description="Neighbours that take less than this of a shared link are left out."
    )
    priorities: Literal["none", "intensity"] = Field(
        default="none",
        description="`intensity`: on shared links jobs that compute most for a second of traffic go first (Crux).",
    )
    paths: Literal["hashed", "selected"] = Field(
        default="hashed",
        description="`selected`: each connection gets the least congested path, jobs that compute most for a second of"
        " traffic first (Crux); `hashed`: switches choose. Only fabrics that hash have paths to select.",
    )
    shifts: Literal["none", "compatible"] = Field(
        default="none",
        description="`compatible`: steps of jobs that meet are shifted, one sends while others compute (CASSINI).",
    )
    drift: Annotated[Ratio, limits(0.0, 0.05)] = Field(
        default=0.005,
        description="Standard deviation of a step's length, relative: with `shifts`, jobs leave their places by and by,"
        " and wait for them when they are 5 % of a step off.",
    )


class ModeSection(Section):
    """A way in which things fail, in place of one that is known by that name, or a new one."""

    name: Text = Field(description="Name of a mode, such as `gpu`.")
    per_1000_node_days: Number | None = Field(default=None, description="How often, a thousand nodes a day.")
    repair: Span | None = Field(default=None, description="Half of the repairs take less.")
    repair_p90: Span | None = Field(default=None, description="Nine in ten take less.")
    detect: Span | None = Field(default=None, description="Until it is seen.")


class FailuresSection(Section):
    """What breaks, how often, and for how long."""

    profile: Text = Field(default="llama3", description="Rates by component: `llama3`, `rsc1`, `rsc2`, `none`.")
    scale: Annotated[Number, Bounds(low=0.0)] = Field(default=1.0, description="Multiplies all rates.")
    modes: tuple[ModeSection, ...] = Field(default=(), description="What differs from the profile.")
    timeout: Span = Field(default=600.0, description="Of collectives: until a hang is seen.")
    reroute: Span | None = Field(
        default=None,
        description="Until traffic leads around a node's dead cable or switch, where it has two; left out: it has one."
        " Around cables between switches every fabric leads in its own time.",
    )


class RecoverySettings(Section):
    """What is done about what breaks."""

    interval: Span | Literal["young", "daly", "none"] = Field(
        default="daly",
        description="Work between two checkpoints: a time, `young` or `daly` by the job's size, or `none`.",
    )
    checkpoint: Literal["sync", "async", "memory", "peers"] = Field(
        default="sync",
        description="`sync` stops for the write; `async` copies to the host and writes beside; `memory` keeps it in the"
        " node's host, lost with the node; `peers` also in another node's.",
    )
    state: Size = Field(default=100_000_000_000, description="Bytes that each accelerator writes.")
    bandwidth: Rate = Field(default=1.6e10, description="Of storage, for each node, while all of a job write.")
    host_bandwidth: Rate = Field(default=2e11, description="From accelerator to host memory, each.")
    restart: Span = Field(
        default=400.0,
        description="From nodes to the first step: processes, connections, loading. MLPerf v5.0: 368 to 727 s.",
    )
    resume: Span = Field(
        default=120.0, description="The same where a spare takes over and others keep their processes."
    )
    spares: Natural = Field(default=0, description="Nodes kept out of the queue to take over.")
    grace: Flag = Field(default=True, description="Whether who is preempted writes a checkpoint first.")
    elastic: Flag = Field(default=False, description="Whether jobs that may be smaller go on without a lost node.")


class TurnaroundSection(Section):
    """What is done to nodes before a job uses them: erasing what others left, and attestation."""

    between: Literal["tenants", "jobs"] = Field(
        default="tenants", description="Whose nodes are erased: what another tenant had, or any other job."
    )
    memory: Flag = Field(default=True, description="Memories of hosts and accelerators are overwritten, at their rate.")
    drives: Literal["none", "crypto", "overwrite"] = Field(
        default="crypto", description="`crypto` changes the drives' key; `overwrite` writes all of them, at their rate."
    )
    key_change: Span = Field(
        default=5.0, description="Of all drives of a node under `crypto`; assumed: no maker was found to state one."
    )
    storage: Text = Field(default="local-nvme", description="The drives of a node, an entry of the catalogue.")
    reboot: Span = Field(default=0.0, description="Of a node after it; left out: it is not booted anew.")
    attestation: Span = Field(
        default=0.0, description="From asking a verifier about an accelerator to its answer; at every start."
    )
    verifier_rate: Annotated[Number, Bounds(low=0.0)] = Field(
        default=0.0, description="Accelerators that the verifier judges a second; 0: any number."
    )


class SteadySection(Section):
    """The part of the run whose figures count."""

    start: Span = Field(default=0.0, description="From when, from the start of the run: leaves a warm-up out.")
    end: Span | None = Field(default=None, description="Until when; left out: the last submission.")


def _file(value: object) -> object:
    return {"trace": value} if isinstance(value, str) else value


def _profile(value: object) -> object:
    return {"profile": value} if isinstance(value, str) else value


class OperateSection(Section):
    """Many jobs on the cluster, for months."""

    jobs: Annotated[TraceOfJobsSection, BeforeValidator(_file)] = Field(description="The jobs: a file, or its section.")
    queue: QueueSection = Field(default_factory=QueueSection, description="Who is next.")
    placement: Text = Field(default="first-fit", description="Name of a placement policy.")
    within: Text | None = Field(
        default=None, description="Level in whose groups jobs of several nodes must lie: `domain`, `leaf`, `pod`."
    )
    setup: Span = Field(default=0.0, description="From placement until work begins.")
    windows: tuple[WindowSection, ...] = Field(default=(), description="Maintenance and reservations.")
    contention: ContentionSection | None = Field(default=None, description="Left out: jobs do not slow one another.")
    failures: Annotated[FailuresSection, BeforeValidator(_profile)] | None = Field(
        default=None, description="Left out: nothing breaks."
    )
    draws: Positive = Field(
        default=5, description="Draws of the failures that are played: what hangs on one is said, and ties are ties."
    )
    recovery: RecoverySettings = Field(default_factory=RecoverySettings, description="What is done about failures.")
    turnaround: TurnaroundSection | None = Field(
        default=None, description="Between two users of a node; left out: nothing is erased or attested."
    )
    serving: dict[Text, ServingSection] = Field(
        default_factory=dict,
        description="What serving jobs of a class answer, by the class of the trace: latencies while replicas are out."
        " Replicas come from the job, and the rate from its `load`.",
    )
    steady: SteadySection | None = Field(
        default=None,
        description="Whose figures count: utilization, goodput, dollars; left out: from the first submission to the"
        " last. What follows, the drain, is shown separately.",
    )
    until: Span | None = Field(default=None, description="End of the run; left out: when every job has ended.")
    sample: Annotated[Span, SOME_TIME] = Field(
        default=3600.0, description="Between two samples of the cluster's state."
    )
    save_every: Annotated[Count, Bounds(low=1)] = Field(
        default=20_000, description="Events between two states on disk, from which a run that was killed goes on."
    )
