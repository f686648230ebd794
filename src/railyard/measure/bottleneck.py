"""The bottleneck of a step: its sensitivity to each resource, and the remedies that a user can apply.

Each resource is improved alone and the step simulated again:

    gain = 1 - step time with the better resource / step time

The bottleneck is the resource with the largest gain. Shares of the step cannot show this: exposed time of one cause
often turns into waiting for another once it is removed. Hardware with 1.25 times the FLOPS cannot be bought, so this is
sensitivity analysis; what a user can do are the `changes`, which come first in the text.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from railyard.cluster.machine import UNLIMITED
from railyard.graph import HOST, Kind, Stream
from railyard.measure.decompose import OUTAGE
from railyard.measure.result.step import BottleneckFigures, ChangeRow, TrialRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.cluster import Cluster
    from railyard.graph import Record
    from railyard.measure.result.step import TaxFigures

FACTOR = 1.25
NEGLIGIBLE = 0.005
"""Below this gain (half a percent of the step) a resource counts as no help."""

Family = Literal["compute", "network", "storage", "software"]


@dataclass(frozen=True)
class Resource:
    """A resource that could be improved.

    Attributes:
        name: Name for users; fabric tiers have their names in the cluster's link table.
        better: Arguments of `Cluster.scaled` to multiply by a factor.
        tiers: Tiers of the link table to multiply by a factor, within `fabric_tiers`.
        shorter: Arguments of `Cluster.scaled` to divide by a factor (latency).
        divides_jitter: Whether the factor divides jitter and undoes slow and late ranks when it is `UNLIMITED`.
        rebuilds_workload: Whether computations change, so that the task graph has to be rebuilt.
        divides_loading: Whether the factor divides the processor time of sample preparation.
    """

    name: str
    family: Family
    better: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()
    shorter: tuple[str, ...] = ()
    divides_jitter: bool = False
    rebuilds_workload: bool = False
    divides_loading: bool = False

    @property
    def scales_out(self) -> bool:
        """Whether it is part of the scale-out network."""
        return self.family == "network" and self not in (SCALE_UP, SCALE_UP_LATENCY)

    def scaled(self, cluster: Cluster, factor: float) -> Cluster:
        """The cluster with this resource improved by a factor."""
        arguments: dict[str, Any] = dict.fromkeys(self.better, factor)
        arguments |= dict.fromkeys(self.shorter, 1 / factor)
        if self.tiers:
            arguments["fabric_tiers"] = dict.fromkeys(self.tiers, factor)
        return cluster.scaled(**arguments)


FLOPS = Resource("accelerator FLOPS", "compute", ("flops",), rebuilds_workload=True)
MEMORY = Resource("accelerator memory bandwidth", "compute", ("memory_bandwidth",), rebuilds_workload=True)
SCALE_UP = Resource("scale-up bandwidth", "network", ("scale_up",))
NIC = Resource("NIC rate", "network", ("nic",))
SCALE_UP_LATENCY = Resource("scale-up latency", "network", better=("scale_out_latency",), shorter=("latency",))
LATENCY = Resource("scale-out latency", "network", shorter=("scale_out_latency",))
MEMORY_POOL = Resource("memory pool", "storage", ("memory_pool",))
STORAGE = Resource("storage", "storage", ("storage",))
LOADERS = Resource("loader workers", "storage", rebuilds_workload=True, divides_loading=True)
STEADINESS = Resource("steady accelerators", "software", divides_jitter=True)


Loss = tuple[str, str]
"""A network ("scale-out", "scale-up", "" for none) and a cause of `TaxFigures`."""

_NETWORKS = {"scale-out": "the scale-out network", "scale-up": "the scale-up network"}
_EXPOSED = {
    "bandwidth": "waiting for bandwidth of {}",
    "latency": "waiting for latency of {}",
    "contention": "contention in {}",
    "straggler": "waiting for ranks that {} made late",
    "compute": "kernels slowed by communication over {}",
    OUTAGE: "waiting for the job to continue after faults of {}",
}
"""Cost of a network, as phrases in sentences."""

_SHORT = {
    "bandwidth": "{} bandwidth",
    "latency": "{} latency",
    "contention": "{} contention",
    "straggler": "ranks late by {} network",
    "compute": "kernels slowed by {} communication",
    OUTAGE: "{} outages",
}
"""The same for tables."""

_RESTS = {
    "straggler": ("waiting for stragglers", "stragglers"),
    "bubble": ("the pipeline's bubble", "pipeline bubble"),
    "data": ("waiting for data", "data loading"),
    "checkpoint": ("checkpoints", "checkpoints"),
    "dependency": ("waiting for computations elsewhere", "computations elsewhere"),
    HOST: ("waiting for the host to launch kernels", "kernel launches of the host"),
    "release": ("waiting for work that a trace has not released", "releases of the trace"),
    "fault": ("injected delays", "injected delays"),
    OUTAGE: ("waiting for the job to continue after faults", "outages"),
}
"""Losses that no network changes, for sentences and tables."""

CONTENTION = "contention at "
FAR = "bandwidth over round trips"


def losses_of(tax: TaxFigures) -> dict[Loss, float]:
    """Shares of the step other than computation at full speed."""
    found: dict[Loss, float] = {("", cause): share for cause, share in tax.rest.items() if cause != "compute"}
    for network, shares in (("scale-out", tax), ("scale-up", tax.scale_up)):
        found |= {(network, cause): share for cause, share in shares.exposed.items()}
        found[network, "compute"] = shares.slowed_kernels
    return found


class SimulateVariant(Protocol):
    """Simulates the same job with one resource improved."""

    def __call__(self, resource: Resource, factor: float) -> float:
        """Step time in s with `resource` improved by `factor` (1.25: a quarter faster; `UNLIMITED`: no limit)."""
        ...


@dataclass(frozen=True)
class Trial:
    """A resource that was improved.

    Attributes:
        gain: Share of the step time saved; negative if the step got longer.
        bound_step_s: Step time with the resource unlimited, if tried.
    """

    resource: Resource
    factor: float
    step_s: float
    gain: float
    bound_step_s: float | None = None
    bound_gain: float | None = None

    def row(self) -> TrialRow:
        """One row of the result's `bottleneck.ranking`."""
        return TrialRow(
            resource=self.resource.name,
            factor=self.factor,
            step_seconds=self.step_s,
            gain=self.gain,
            bound_step_seconds=self.bound_step_s,
            bound_gain=self.bound_gain,
        )


@dataclass(frozen=True)
class Bottleneck:
    """The resource or loss that matters most.

    Attributes:
        name: The best resource, or the largest wait if that is more than any resource saves, or "none".
        changes: Remedies, repairs first, then by savings in the cost of a token; None: none were tried.
        headline: The largest wait and the best remedies, as a sentence.
        engine: Engine of the trials; "" if there were none.
    """

    name: str
    sensitivity: str
    ranking: tuple[Trial, ...] = field(default=())
    changes: tuple[ChangeRow, ...] | None = None
    headline: str = ""
    engine: str = ""

    def led_by(self, tax: TaxFigures) -> Bottleneck:
        """The same with a headline: the largest single loss, and the most effective remedies.

        The most helpful resource may belong to another cause, because a wait that is removed often turns into another.
        But if a loss is larger than any resource saves, it is the bottleneck.
        """
        losses = losses_of(tax)
        loss = max(losses, key=losses.__getitem__, default=("", ""))
        tried = " ".join(filter(None, ("" if self.changes is None else _tried(self.changes), self.headline)))
        if losses.get(loss, 0.0) < NEGLIGIBLE:
            return replace(self, headline=tried)
        network, cause = loss
        what = _EXPOSED[cause].format(_NETWORKS[network]) if network else _RESTS.get(cause, (cause,))[0]
        saved = max((trial.gain for trial in self.ranking), default=0.0)
        name = self.name if losses[loss] <= saved else self._named(loss)
        return replace(
            self,
            name=name,
            headline=f"The largest single loss is {what}, {_percent(losses[loss])} of the step. {tried}".strip(),
        )

    def _named(self, loss: Loss) -> str:
        """A loss as a bottleneck, with the part of the scale-out network that helps most against it."""
        network, cause = loss
        if not network:
            return _RESTS.get(cause, (cause, cause))[1]
        outside = [trial.resource for trial in self.ranking if trial.resource.scales_out and trial.gain > 0]
        if network == "scale-out" and cause == "bandwidth" and outside:
            # Data in flight bounds the rate over long links: a shorter distance helps, a faster link does not.
            return FAR if outside[0] is LATENCY else outside[0].name
        tiers = [resource.name for resource in outside if resource.tiers]
        if network == "scale-out" and cause == "contention" and tiers:
            return f"{CONTENTION}{tiers[0]}"
        return _SHORT[cause].format(network)

    def section(self) -> BottleneckFigures:
        """The result's `bottleneck`."""
        return BottleneckFigures(
            name=self.name,
            headline=self.headline,
            sensitivity=self.sensitivity,
            ranking=tuple(trial.row() for trial in self.ranking),
            changes=self.changes,
            engine=self.engine,
        )


_SHOWN = 2
"""Number of further remedies that the headline names."""


def _tried(changes: Sequence[ChangeRow]) -> str:
    """The best remedy of each family that lowers a token's cost, repairs first, down to a quarter of the best.

    A remedy with an assumption (8-bit products: that the loss converges) comes last, with its condition.
    """
    best: dict[str, ChangeRow] = {}
    for row in changes:
        if not row.bound and _saved(row) >= NEGLIGIBLE:
            best.setdefault(row.family, row)
    rows = sorted(best.values(), key=lambda row: (row.family != "repair", -_saved(row)))
    sure, unsure = [row for row in rows if not row.assumes], [row for row in rows if row.assumes]
    if not rows:
        return f"No change that was tried lowers the cost of a token by more than {_percent(NEGLIGIBLE)}."
    parts = [f"{row.name} lowers the cost of a token by {_percent(_saved(row))} ({_terms(row)})" for row in sure[:1]]
    least = max(map(_saved, sure), default=0.0) / 4
    parts += [f"{row.name} by {_percent(_saved(row))}" for row in sure[1:] if _saved(row) >= least][:_SHOWN]
    lowers = "" if parts else " lowers the cost of a token"
    parts += [f"{row.name}{lowers} by {_percent(_saved(row))}, if {row.assumes}" for row in unsure[:1]]
    return f"Changes, tried one at a time: {'; '.join(parts)}."


def _terms(row: ChangeRow) -> str:
    """`step 11.2% shorter, $1.2M more capital`."""
    change = row.capex_change_usd or 0.0
    moved = _percent(abs(row.gain))
    step = "same step" if moved == _percent(0.0) else f"step {moved} {'shorter' if row.gain >= 0 else 'longer'}"
    if abs(change) < 1.0:
        return step
    size, unit = (abs(change) / 1e6, "M") if abs(change) >= 1e6 else (abs(change) / 1e3, "k")
    return f"{step}, ${size:.3g}{unit} {'more' if change > 0 else 'less'} capital"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _saved(row: ChangeRow) -> float:
    return row.cpmt_gain or 0.0


def resources(cluster: Cluster, record: Record, *, jitter: bool = False, checkpoints: bool = False) -> list[Resource]:
    """Resources that could be improved for this job, without unused ones, which cannot help.

    Args:
        cluster: The cluster.
        record: The record of the step.
        jitter: Whether ranks differ (jitter, slow or late ranks).
        checkpoints: Whether some steps, though not this one, end with a checkpoint.

    Raises:
        InputError: The record lacks link bytes or the task graph.
    """
    record.require("the list of resources", tables=["links"], graph=True)
    used = _used_tiers(cluster, record)
    back_end = {tier.name: tier.kind for tier in cluster.back_end.tiers}
    found = [FLOPS, MEMORY]
    if SCALE_UP_TIER in used:
        found += [SCALE_UP, SCALE_UP_LATENCY]
    if any(back_end.get(tier) == "access" for tier in used):
        found.append(NIC)
    between = [tier for tier in used if back_end.get(tier, "access") != "access"]
    found += [Resource(tier, "network", tiers=(tier,)) for tier in between]
    if any(tier in back_end for tier in used):
        found.append(LATENCY)
    kinds = record.graph.kind
    if checkpoints or ((kinds == Kind.READ) | (kinds == Kind.WRITE)).any():
        found.append(STORAGE)
    if ((kinds == Kind.LOAD) | (kinds == Kind.STORE)).any():
        found.append(MEMORY_POOL)
    if (record.graph.stream == Stream.LOADER).any():
        found.append(LOADERS)
    return [*found, STEADINESS] if jitter else found


SCALE_UP_TIER = "scale-up"


def _used_tiers(cluster: Cluster, record: Record) -> list[str]:
    links = cluster.links
    carried = np.bincount(links.tier, weights=record.table("links")["bytes"], minlength=len(links.tiers))
    return [tier for tier, volume in zip(links.tiers, carried, strict=True) if volume > 0]


NOT_TRIED = "Remedies were not tried: on a step of this size that takes minutes. `railyard explain RUN` tries them."
UNSEARCHED = Bottleneck("not searched", "", headline="What would help most is searched when the scenario is run.")
"""Bottleneck of a rough answer."""


def find(
    step_s: float,
    found: Sequence[Resource],
    simulate_variant: SimulateVariant,
    *,
    factor: float = FACTOR,
    bounds: Literal["none", "best", "all"] = "best",
    engine: str = "",
) -> Bottleneck:
    """Tries every resource and names the bottleneck.

    Args:
        step_s: Step time without changes.
        found: From `resources`, at least one.
        simulate_variant: Simulates the job with one resource improved.
        factor: Improvement factor, above 1.
        bounds: Resources whose limit is also removed: none, the best one, or all.
        engine: Engine of `simulate_variant`.
    """
    trials = [_try(step_s, resource, simulate_variant, factor, bound=bounds == "all") for resource in found]
    trials.sort(key=lambda trial: (-trial.gain, trial.resource.name))
    if bounds == "best" and trials:
        trials[0] = _try(step_s, trials[0].resource, simulate_variant, factor, bound=True, known=trials[0])
    name, sensitivity = _words(trials)
    return Bottleneck(name, sensitivity, tuple(trials), engine=engine)


def _try(
    step_s: float,
    resource: Resource,
    simulate_variant: SimulateVariant,
    factor: float,
    *,
    bound: bool,
    known: Trial | None = None,
) -> Trial:
    better = simulate_variant(resource, factor) if known is None else known.step_s
    if not bound:
        return Trial(resource, factor, better, 1 - better / step_s)
    best = simulate_variant(resource, UNLIMITED)
    return Trial(resource, factor, better, 1 - better / step_s, best, 1 - best / step_s)


def _words(trials: Sequence[Trial]) -> tuple[str, str]:
    if not trials or trials[0].gain < NEGLIGIBLE:
        return "none", f"No single resource shortens the step by more than {_percent(NEGLIGIBLE)}."
    best = trials[0]
    words = f"{best.factor:g} x {best.resource.name} shortens the step by {_percent(best.gain)}"
    if best.bound_gain is not None:
        words += f", without limit by {_percent(best.bound_gain)}"
    helpful = [trial for trial in trials[1:] if trial.resource.family == "network" and trial.gain >= NEGLIGIBLE]
    if best.resource.family == "network" or not helpful:
        return best.resource.name, f"{words}."
    return (
        best.resource.name,
        f"{words}. Of the networks, {helpful[0].resource.name} helps most ({_percent(helpful[0].gain)}).",
    )
