"""Figures that assertions may name: where they stand in a result, their units, and when they mean nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from railyard.cluster.bill import bill_of
from railyard.kit import units
from railyard.kit.errors import InputError
from railyard.measure.cost.assumptions import Assumptions
from railyard.measure.cost.capital import capex
from railyard.measure.cost.parts import parts_of_rows
from railyard.work.scenario.load import blaming
from railyard.work.study import compose

if TYPE_CHECKING:
    from collections.abc import Callable

    from railyard.cluster import Cluster
    from railyard.work.scenario.load import Draft

TRAINING = frozenset({"training"})
STEPS = frozenset({"training", "trace"})
SERVICES = frozenset({"serving", "pipeline"})


@dataclass(frozen=True)
class Figure:
    """One figure of a variant.

    Attributes:
        meaning: What it is.
        kinds: Kinds of work that have it, as under `workload`.
        path: Where it stands in the variant, names joined by dots.
        reader: From the text of a bound to the figure's unit.
        words: The figure for people.
        scale: The figure's unit over that of the result.
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
    """Which fault ended the variant's job; empty where it finished."""
    if getattr(variant, "outcome", "finished") == "finished":
        return ""
    first = next(fault for fault in variant.faults if fault.outcome in ("aborted", "stalled"))
    return f"the job {'dies' if variant.outcome == 'died' else 'stalls'}: {first.what}"


def rounded(words: Callable[[float], str], value: float) -> str:
    """A quantity in words, to four digits."""
    return words(float(f"{value:.4g}"))


def _time(seconds: float) -> str:
    return rounded(units.format_time, seconds * 1e12)


def _power(watts: float) -> str:
    return rounded(units.format_power, watts)


def _money(usd: float) -> str:
    return rounded(units.format_money, usd)


def _share(share: float) -> str:
    return f"{share:.4g}"


def _part(value: object) -> float:
    """Of a figure that is never above 1: a bound that nothing can meet, or miss, is a slip."""
    part = units.ratio(value)
    if part > 1:
        raise InputError("a share is 0 to 1", found=value, allowed="such as `0.9` or `90 %`")
    return part


def _usd(value: float) -> str:
    return f"${value:,.4g}"


def _price(value: object) -> float:
    """Dollars, with their sign or bare: the name of the figure has the unit."""
    try:
        return units.ratio(value)
    except InputError:
        return units.money(value)


def _percentiles(name: str, meaning: str, path: str) -> dict[str, Figure]:
    levels = ("p50", "p90", "p99", "p999", "mean")
    return {
        f"{level}_{name}": Figure(f"{meaning}, {level}", SERVICES, f"{path}.{level}", units.seconds, _time)
        for level in levels
    }


def _bought(draft: Draft, cluster: Cluster) -> float:
    """Dollars: the result's `capex`, which no run changes."""
    with blaming(draft, "economics"):
        assumptions = Assumptions.from_catalog(compose.catalog_of(draft), draft.scenario.economics.given())
    return capex(parts_of_rows(bill_of(cluster)), assumptions.installation, cluster.ranks).total_usd.typical


FIGURES: dict[str, Figure] = {
    "step": Figure("mean step", STEPS, "step.seconds", units.seconds, _time, band="step_s"),
    "p99_step": Figure("99th percentile of steps", STEPS, "step.p99_s", units.seconds, _time),
    "network_tax": Figure("share of tokens lost to the scale-out network", STEPS, "tax.tokens_lost", _part, _share),
    "gpu_utilization": Figure("GPU utilization, 0 to 1", STEPS, "utilization.gpu", _part, _share),
    "mfu": Figure("model FLOPs utilization, 0 to 1", TRAINING, "utilization.mfu", _part, _share),
    "jct": Figure("time of the job, interruptions included", TRAINING, "jct.seconds", units.seconds, _time),
    "goodput": Figure("share of it that is steps which count", TRAINING, "jct.goodput", _part, _share),
    "usd_per_mtoken": Figure("cost of a million tokens, typical", TRAINING, "cpmt.typical", _price, _usd, band="cpmt"),
    "power": Figure("power with cooling, typical", STEPS, "power.total_w.typical", units.power, _power),
    "capex": Figure("cost to buy, typical", STEPS, "capex.total_usd.typical", units.money, _money, planned=_bought),
    **{
        f"{level}_fct": Figure(
            f"flow completion times, {level}", STEPS, f"packet.fct_us.{level}", units.seconds, _time, scale=1e-6
        )
        for level in ("p50", "p99", "p999", "max", "mean")
    },
    **_percentiles("ttft", "time to the first token", "serving.ttft_s"),
    **_percentiles("tpot", "time of each further token", "serving.tpot_s"),
    **_percentiles("e2e", "time to the last token", "serving.e2e_s"),
}
