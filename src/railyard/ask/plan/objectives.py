"""Regret: how far each choice is behind the best of all in each future, and what to make of several futures.

Several futures are judged by the largest regret over them (Savage 1951: choose the least of these), or by the mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.kit.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    F = NDArray[np.float64]
    from collections.abc import Callable, Mapping

    from railyard.ask.plan.price import DesignPrice


def excess(costs: ArrayLike) -> F:
    """float64[choices, futures, ...] of costs of that shape, 0 for the best choice of a future."""
    table = np.asarray(costs, np.float64)
    found: F = table - table.min(axis=0)
    return found


def relative(costs: ArrayLike) -> F:
    """The excess as a share of the least cost."""
    table = np.asarray(costs, np.float64)
    found: F = excess(table) / np.abs(table.min(axis=0))
    return found


def largest(found: F) -> F:
    """float64[choices, ...]: the largest over the futures."""
    worst: F = found.max(axis=1)
    return worst


def expected(found: F, odds: Sequence[float]) -> F:
    """float64[choices, ...]: the mean over the futures.

    Args:
        found: float64[choices, futures, ...].
        odds: Of the futures; they add up to 1.
    """
    mean: F = np.tensordot(np.asarray(odds), found, axes=(0, 1))
    return mean


@dataclass(frozen=True)
class DesignObjective:
    """One figure of a design.

    Attributes:
        of: Reads it, None where what it needs is missing; None: it comes of comparing designs.
        needs: Of `NEEDED`, a key of the scenario without which no engine gives it.
    """

    name: str
    words: str
    unit: str
    of: Callable[[Any], float | None] | None
    large: bool = False
    needs: str = ""
    work: tuple[str, ...] = ("training", "serving")

    @property
    def sign(self) -> float:
        """What values are multiplied by so that less is better."""
        return -1.0 if self.large else 1.0


_STEPS = ("training",)
_REQUESTS = ("serving",)
_LATENCIES = {
    "ttft": "time to the first token",
    "tpot": "mean time of each further token of a request",
    "e2e": "time to the last token",
}
_SHARES = (("p50", "median"), ("p90", "90th percentile"), ("p99", "99th percentile"))


def _read(name: str, words: str, unit: str, path: str, **more: Any) -> DesignObjective:
    """What is read off a `DesignPrice` under a dotted name."""
    return DesignObjective(name, words, unit, attrgetter(path), **more)


def _latency(name: str, share: str, words: str) -> DesignObjective:
    return DesignObjective(f"{name}_{share}", words, "s", lambda priced: priced.latencies[name, share], work=_REQUESTS)


_ORDERED = "time from the order until"
_IN_TIME = "that keep all limits of `slo`"
_ALL = (
    _read("cpmt", "cost per million goodput tokens", "USD", "cpmt"),
    _read("jct", "time until the job is done", "s", "jct_s", needs="tokens", work=_STEPS),
    _read("done", f"{_ORDERED} the job is done, deliveries included", "s", "done_s", needs="tokens", work=_STEPS),
    _read("delivery", f"{_ORDERED} the last part is there", "s", "delivery_s"),
    _read("step", "mean step", "s", "step_s", work=_STEPS),
    _read("tokens_per_s", "goodput tokens a second", "1/s", "tokens_per_s", large=True),
    _read(
        "tokens_per_watt",
        "goodput tokens a second and watt drawn, which is a joule",
        "1/J",
        "tokens_per_watt",
        large=True,
    ),
    _read("capex", "capital, with installation", "USD", "capex.total_usd.typical"),
    _read("power", "drawn by the site at work, with cooling", "W", "power.total_w.typical"),
    _read("provisioned", "nameplate IT power", "W", "power.provisioned_w.typical"),
    _read("racks", "racks by nameplate power", "", "racks"),
    _read("usd_per_h", "dollars an hour", "USD/h", "usd_per_h"),
    _read("mfu", "model FLOP/s over the dense peak", "", "mfu", large=True, work=_STEPS),
    _read("utilization", "share of a step in which accelerators compute", "", "busy", large=True, work=_STEPS),
    _read("attainment", f"share of the requests {_IN_TIME}", "", "attainment", large=True, work=_REQUESTS),
    _read("goodput", f"requests a second {_IN_TIME}", "1/s", "goodput_per_s", large=True, work=_REQUESTS),
    *(_latency(name, pair[0], f"{what}, {pair[1]}") for name, what in _LATENCIES.items() for pair in _SHARES),
    _read("network_capex_share", "the network's share of the capital", "", "network_capex_share"),
    _read("network_power_share", "share of NICs, switches and optics in the IT power", "", "power.data_movement_share"),
    _read("carbon", "CO2 equivalent of the electricity for a million goodput tokens", "g", "carbon", needs="grid"),
    DesignObjective("regret", "largest excess over the best design for a demand", "", None),
    DesignObjective("expected_regret", "mean excess over the best design for each demand", "", None),
)
OBJECTIVES: Mapping[str, DesignObjective] = {one.name: one for one in _ALL}

NEEDED: Mapping[str, tuple[str, str]] = {
    "tokens": ("of a job without end", "write `tokens: 15 T` under `workload.training`"),
    "grid": ("without a grid", "write `grid: Norway` under `economics`, or with each of its `sites`"),
}
"""What objectives need: what a scenario is without it, and what to write."""

_OF_OTHERS = {
    **dict.fromkeys(("ttft", "tpot", "e2e", "attainment", "goodput"), "serving"),
    "fct": "packets",
    **dict.fromkeys(("convergence", "accuracy", "loss"), "learning"),
}


def objective(
    name: str, key: str, *, demands: int, lacks: frozenset[str] = frozenset(), work: str = "training"
) -> DesignObjective:
    """An objective by its name.

    Raises:
        InputError: No engine gives it.
    """
    found = OBJECTIVES.get(name)
    if found is None or work not in found.work:
        allowed = sorted(one.name for one in OBJECTIVES.values() if work in one.work)
        about = next((what for word, what in _OF_OTHERS.items() if name.startswith(word)), "")
        about = about if found is None else " and ".join(found.work)
        hint = did_you_mean(name, allowed) if about in ("", work) else f"it is a figure of {about}"
        raise InputError(f"no engine gives the objective `{name}` of {work}", key=key, allowed=allowed, hint=hint)
    if found.needs in lacks:
        without, write = NEEDED[found.needs]
        raise InputError(f"no engine gives `{name}` {without}", key=key, hint=write)
    if found.of is None and demands < 2:
        raise InputError(f"`{name}` compares demands, and the plan has one", key=key, hint="write two under `demand`")
    return found


def measured_by(objectives: Sequence[DesignObjective]) -> DesignObjective:
    """What regret is an excess of: the first objective that is read off a design, else dollars per token."""
    return next((one for one in objectives if one.of is not None), OBJECTIVES["cpmt"])


def regrets(costs: ArrayLike, shares: Sequence[float]) -> dict[str, NDArray[np.float64]]:
    """Objectives that compare designs, each float64[designs, ...]."""
    behind = relative(costs)
    return {"regret": largest(behind), "expected_regret": expected(behind, shares)}


def figures_of(priced: DesignPrice, work: str = "training") -> dict[str, float]:
    """Every objective of a kind of work that is read off one design."""
    read = {name: one.of(priced) for name, one in OBJECTIVES.items() if one.of is not None and work in one.work}
    return {name: float(value) for name, value in read.items() if value is not None}


def merged(rows: Sequence[Mapping[str, float]], shares: Sequence[float]) -> dict[str, float]:
    """Figures under all demands together: the mean by their shares."""
    return {name: math.fsum(row[name] * share for row, share in zip(rows, shares, strict=True)) for name in rows[0]}
