"""Why a design is not the choice: which dollars and which seconds set it apart, the largest first."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

from railyard.measure.cost.parts import ACCELERATORS, MANAGEMENT, NETWORK_COMPONENTS, SERVERS, STORAGE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.ask.plan.designs.doubt import Choice
    from railyard.ask.plan.designs.objectives import Objective

_SHOWN = 3
_LEAST = 0.0005
"""Differences below a twentieth of a percent explain nothing."""

_TIMED = frozenset({"step", "jct", "tokens_per_s", "mfu", "cpmt", "tokens_per_watt", "carbon"})
"""Objectives that a longer step makes worse."""


def why(best: Choice, other: Choice, objectives: Sequence[Objective], shares: Sequence[float]) -> str:
    """Why a design lost to another, in one line.

    Args:
        best: The choice.
        other: The design that lost.
        objectives: The first ranks.
        shares: Of the demands.
    """
    what = objectives[0]
    mine, theirs = best.figures[what.name], other.figures[what.name]
    apart = theirs / mine - 1.0 if mine else 0.0
    better = [
        one.name for one in objectives[1:] if one.sign * other.figures[one.name] < one.sign * best.figures[one.name]
    ]
    terms = _terms(best, other, what.name, shares)
    parts = ", ".join(f"{name} {share:+.1%}" for name, share in terms[:_SHOWN])
    # Nothing is a share of a figure that is zero, as the best design's regret: then the difference itself is given.
    text = (f"{what.name} {apart:+.1%}" if mine else f"{what.name} {theirs - mine:+.3g}") + (
        f": {parts}" if parts else ""
    )
    return text + (f"; better in {', '.join(better)}" if better else "")


def _terms(best: Choice, other: Choice, figure: str, shares: Sequence[float]) -> list[tuple[str, float]]:
    """What sets two designs apart, as shares of the first objective."""
    found: dict[str, float] = defaultdict(float)
    if figure in _PARTS and best.priced:
        for name, share in _PARTS[figure](best, other).items():
            found[name] += share
    if figure in _TIMED and not _serves(best):
        for number, weight in enumerate(shares):
            for name, share in _time(best, other, number).items():
                found[name] += weight * share
    if figure in _TIMED and _serves(best):
        found["tokens in time"] = best.figures["tokens_per_s"] / other.figures["tokens_per_s"] - 1.0
    rows = [(name, share) for name, share in found.items() if abs(share) >= _LEAST]
    return sorted(rows, key=lambda row: (-abs(row[1]), row[0]))


def _serves(choice: Choice) -> bool:
    """Whether a design answers requests: then goodput sets designs apart, and no step does."""
    return "attainment" in choice.figures


def _money(best: Choice, other: Choice) -> dict[str, float]:
    """Parts of the dollars of an hour, each over all of the best design's."""
    one, two = best.priced[0], other.priced[0]
    total = one.usd_per_h
    hourly = [each.hourly for each in (one, two)]
    paid = [each["capital"] + each["operations"] for each in hourly]
    lines: dict[str, float] = {}
    for name, components in (
        ("accelerators", (ACCELERATORS,)),
        ("servers", (SERVERS, MANAGEMENT)),
        ("network's capital", NETWORK_COMPONENTS),
        ("storage", (STORAGE,)),
    ):
        part = []
        for each, usd in zip((one, two), paid, strict=True):
            capital = math.fsum(each.capex.line(component).typical for component in components)
            all_parts = math.fsum(
                each.capex.line(component).typical
                for component in (ACCELERATORS, SERVERS, MANAGEMENT, STORAGE, *NETWORK_COMPONENTS)
            )
            part.append(usd * capital / all_parts)
        lines[name] = (part[1] - part[0]) / total
    for name in ("energy", "space"):
        lines[name] = (hourly[1][name] - hourly[0][name]) / total
    return lines


def _bought(best: Choice, other: Choice) -> dict[str, float]:
    """Components of the capital, each over all of the best design's."""
    one, two = best.priced[0].capex, other.priced[0].capex
    total = one.total_usd.typical
    names = dict.fromkeys(line.name for line in (*one.lines, *two.lines))
    return {name: (two.line(name).typical - one.line(name).typical) / total for name in names}


def _drawn(best: Choice, other: Choice) -> dict[str, float]:
    """Components of the power, cooling too, each over all of the best design's."""
    one, two = best.priced[0].power, other.priced[0].power
    total = one.total_w.typical
    before = {line.name: line.power_w.typical for line in one.lines}
    return {f"power of {line.name}": (line.power_w.typical - before[line.name]) / total for line in two.lines}


_PARTS = {
    **dict.fromkeys(("cpmt", "usd_per_h"), _money),
    **dict.fromkeys(("capex",), _bought),
    **dict.fromkeys(("power", "tokens_per_watt", "carbon"), _drawn),
}
"""What objectives are made of beside time."""


def _time(best: Choice, other: Choice, demand: int) -> dict[str, float]:
    """Causes of the step, each over all of the best design's; the layouts where they differ."""
    one, two = best.outcomes[demand], other.outcomes[demand]
    found: dict[str, float] = defaultdict(float)
    for outcome, sign in ((two, 1.0), (one, -1.0)):
        for cause, group, _phase, share in outcome.time:
            words = {"compute": "computing", "dependency": "host"}.get(cause, cause)
            label = f"{words} ({group})" if group else words
            found[label] += sign * share * outcome.step_s / one.step_s
    return found


def engines_apart(best: Choice, other: Choice) -> str:
    """A remark where two designs were judged by different engines; empty where not."""
    return "" if best.engine == other.engine else f"judged by {other.engine}"
