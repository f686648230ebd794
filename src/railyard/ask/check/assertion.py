"""What every kind of assertion is: read from words, judged of one variant of a scenario."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from railyard.ask.audit.price import StepPricing
from railyard.ask.deploy.cabling import capital_of
from railyard.kit import quantities
from railyard.kit.errors import InputError
from railyard.kit.registry import Registry
from railyard.work.study import compose

if TYPE_CHECKING:
    from collections.abc import Callable

    from railyard.cluster import Cluster
    from railyard.work.scenario.load import Draft


TRAINING = frozenset({"training"})
STEPS = frozenset({"training", "trace"})
SERVICES = frozenset({"serving", "pipeline"})


@dataclass(frozen=True)
class AssertedFigure:
    """One figure of a variant.

    Attributes:
        kinds: Kinds of work that have it, as under `workload`.
        path: Its names in the variant, joined by dots.
        band: Its name among the bands of the model's error; empty where none was validated.
        planned: Gives it of a scenario and its cluster; None where it takes a run.
    """

    meaning: str
    kinds: frozenset[str]
    path: str
    reader: Callable[[object], float]
    words: Callable[[float], str]
    scale: float = 1.0
    band: str = ""
    planned: Callable[[Draft, Cluster], float] | None = None

    @property
    def packets(self) -> bool:
        """Whether only the engine `packet` gives it."""
        return self.path.startswith("packet.")

    def read(self, variant: Any) -> float | None:
        """The figure of a variant; None where it has none."""
        value = variant
        for name in self.path.split("."):
            value = None if value is None else getattr(value, name)
        return None if value is None else float(value) * self.scale

    def missing(self, variant: Any) -> str:
        """Why it says less than it seems to; empty where nothing is missing."""
        if self.packets:
            left = variant.packet.flows_total - variant.packet.flows_finished
            return f"{left:,} of {variant.packet.flows_total:,} flows did not finish" if left else ""
        if self.path.startswith(("step.", "utilization.")):
            return ended(variant)
        if self.kinds == SERVICES and variant.serving.outcome != "finished":
            return f"the run ended in {variant.serving.outcome}"
        return ""


def ended(variant: Any) -> str:
    """The fault that ended the variant's job; empty if it finished."""
    if getattr(variant, "outcome", "finished") == "finished":
        return ""
    first = next(fault for fault in variant.faults if fault.outcome in ("aborted", "stalled"))
    return f"the job {'dies' if variant.outcome == 'died' else 'stalls'}: {first.what}"


def rounded(words: Callable[[float], str], value: float) -> str:
    """A quantity in words, to four digits."""
    return words(float(f"{value:.4g}"))


def _time(seconds: float) -> str:
    return rounded(quantities.format_time, seconds * 1e12)


def _share(share: float) -> str:
    return f"{share:.4g}"


def _part(value: object) -> float:
    """Bound of a figure that is at most 1; a larger one could never be met, or missed."""
    part = quantities.ratio(value)
    if part > 1:
        raise InputError("a share is 0 to 1", found=value, allowed="such as `0.9` or `90 %`")
    return part


def _usd(value: float) -> str:
    return f"${value:,.4g}"


def _price(value: object) -> float:
    """Dollars, with their sign or bare: the name of the figure has the unit."""
    try:
        return quantities.ratio(value)
    except InputError:
        return quantities.money(value)


def _percentiles(name: str, meaning: str, path: str) -> dict[str, AssertedFigure]:
    levels = ("p50", "p90", "p99", "p999", "mean")
    return {
        f"{level}_{name}": AssertedFigure(f"{meaning}, {level}", SERVICES, f"{path}.{level}", quantities.seconds, _time)
        for level in levels
    }


def _bought(draft: Draft, cluster: Cluster) -> float:
    """Dollars: the result's `capex`, which no run changes."""
    return capital_of(draft, cluster).total_usd.typical


FIGURES: dict[str, AssertedFigure] = {
    "step": AssertedFigure("mean step", STEPS, "step.seconds", quantities.seconds, _time, band="step_s"),
    "p99_step": AssertedFigure("99th percentile of steps", STEPS, "step.p99_s", quantities.seconds, _time),
    "network_tax": AssertedFigure(
        "share of tokens lost to the scale-out network", STEPS, "tax.tokens_lost", _part, _share
    ),
    "gpu_utilization": AssertedFigure("GPU utilization, 0 to 1", STEPS, "utilization.gpu", _part, _share),
    "mfu": AssertedFigure("model FLOPs utilization, 0 to 1", TRAINING, "utilization.mfu", _part, _share),
    "jct": AssertedFigure(
        "time of the job, interruptions included", TRAINING, "jct.seconds", quantities.seconds, _time
    ),
    "goodput": AssertedFigure("share of it spent on steps that count", TRAINING, "jct.goodput", _part, _share),
    "usd_per_mtoken": AssertedFigure(
        "cost of a million tokens, typical", TRAINING, "cpmt.typical", _price, _usd, band="cpmt"
    ),
    "power": AssertedFigure(
        "power with cooling, typical",
        STEPS,
        "power.total_w.typical",
        quantities.power,
        partial(rounded, quantities.format_power),
    ),
    "capex": AssertedFigure(
        "cost to buy, typical",
        STEPS,
        "capex.total_usd.typical",
        quantities.money,
        partial(rounded, quantities.format_money),
        planned=_bought,
    ),
    **{
        f"{level}_fct": AssertedFigure(
            f"flow completion times, {level}", STEPS, f"packet.fct_us.{level}", quantities.seconds, _time, scale=1e-6
        )
        for level in ("p50", "p99", "p999", "max", "mean")
    },
    **_percentiles("ttft", "time to the first token", "serving.ttft_s"),
    **_percentiles("tpot", "time per output token", "serving.tpot_s"),
    **_percentiles("e2e", "time to the last token", "serving.e2e_s"),
}


@dataclass(frozen=True)
class AssertionOutcome:
    """Outcome of one assertion.

    Attributes:
        remark: What to know before it is believed; empty where nothing.
    """

    found: str
    holds: bool
    remark: str = ""


@dataclass(frozen=True, eq=False)
class CheckSubject:
    """One variant of a scenario; what is costly is made when an assertion asks for it.

    Attributes:
        progress: Takes what is being done, and its share from 0 to 1.
    """

    name: str
    draft: Draft
    prepared: Callable[[], Any] = field(repr=False)
    measured: Callable[[], Any] = field(repr=False)
    progress: Callable[[str, float], None] = field(repr=False)

    @cached_property
    def cluster(self) -> Cluster:
        """The machine as planned."""
        return compose.cluster_of(self.draft, compose.catalog_of(self.draft))

    @cached_property
    def pricing(self) -> StepPricing:
        """Steps of the job on the network with parts lost."""
        return StepPricing(self.prepared())


class Assertion(Protocol):
    """One assertion."""

    forms: ClassVar[tuple[str, ...]]

    @classmethod
    def read(cls, text: str) -> Self:
        """Reads an assertion from the words of the scenario, with blanks made single.

        Raises:
            InputError: They are no assertion of the kind.
        """

    def check(self, subject: CheckSubject) -> None:
        """Refuses a scenario of which it cannot be judged, before anything runs.

        Raises:
            InputError: It cannot.
        """

    def judge(self, subject: CheckSubject) -> AssertionOutcome:
        """Whether it holds; of what `check` lets pass."""


assertions: Registry[type[Assertion]] = Registry("assertion", package="railyard.ask.check.kinds")
