"""A result in words: the comparison's figures, a card of six lines, and an explanation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.api import numbers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    Variant = Mapping[str, Any]

#: Causes of a step's time that are the network's doing, in the order in which they are told.
EXPOSED = ("bandwidth", "latency", "contention")
WAITING = (*EXPOSED, "straggler")

ALIKE = 0.002
"""Variants whose throughput differs by less than this are said to do alike."""

HEADINGS = (
    "variant",
    "GPU utilization",
    "exposed communication",
    "step",
    "tokens/s per GPU",
    "JCT",
    "power",
    "capex",
    "$/Mtoken low/typ/high",
    "bottleneck",
)
RIGHT = (1, 3, 4, 5, 6, 7, 8)


def row(variant: Variant) -> list[str]:
    """One variant's cells under `HEADINGS`."""
    return [
        variant["name"],
        numbers.percent(variant["utilization"]["gpu"]),
        exposed_words(variant),
        step_words(variant),
        numbers.short(variant["utilization"]["tokens_per_s_per_gpu"]),
        numbers.seconds((variant.get("jct") or {}).get("seconds")),
        numbers.power(_typical(variant.get("power"), "total_w")),
        numbers.dollars(_typical(variant.get("capex"), "total_usd")),
        numbers.band(variant.get("cpmt")),
        (variant.get("bottleneck") or {}).get("name") or numbers.NOT_APPLICABLE,
    ]


def step_words(variant: Variant) -> str:
    """`13.4 s`, or `13.4 s (11.9 to 15.2 s)` where seeds differ."""
    step = variant["step"]
    middle, samples = numbers.seconds(step["seconds"]), step.get("samples") or [step["seconds"]]
    low, high = numbers.seconds(min(samples)), numbers.seconds(max(samples))
    if low == high:
        return middle
    value, _, unit = low.rpartition(" ")
    return f"{middle} ({value if high.endswith(f' {unit}') else low} to {high})"


def share_of(variant: Variant, causes: Iterable[str]) -> float:
    """Share of the step that went to some causes."""
    wanted = set(causes)
    return float(sum(part["share"] for part in variant["time"] if part["cause"] in wanted))


def exposed_words(variant: Variant) -> str:
    """`12.3 % (bandwidth 9.1, contention 3.2)`."""
    parts = [(cause, share_of(variant, [cause])) for cause in EXPOSED]
    told = ", ".join(f"{cause} {100 * share:.1f}" for cause, share in parts if share >= 0.0005)
    total = numbers.percent(sum(share for _, share in parts))
    return f"{total} ({told})" if told else total


def card(result: Mapping[str, Any], report: Path | None) -> str:
    """Six lines on a run."""
    best = best_variant(result)
    variants = result["variants"]
    lines = [
        f"{result['name']}: {_many(variants)}, engine {result['provenance']['engine']}",
        f"best        {best['name']}: GPU utilization {numbers.percent(best['utilization']['gpu'])}, "
        f"step {numbers.seconds(best['step']['seconds'])}",
        f"waiting     communication {exposed_words(best)}",
        f"cost        ${numbers.band(best.get('cpmt'))} per million tokens, "
        f"capex {numbers.dollars(_typical(best.get('capex'), 'total_usd'))}, "
        f"{numbers.power(_typical(best.get('power'), 'total_w'))}",
        f"bottleneck  {headline(best)}",
        f"report      {report if report is not None else 'not written'}",
    ]
    return "\n".join(lines)


def _many(variants: Sequence[Variant]) -> str:
    return f"{len(variants)} variant{'s' if len(variants) > 1 else ''}"


def explain(result: Mapping[str, Any]) -> str:
    """Where the step of every variant goes, and what would help."""
    return "\n\n".join(_explain(variant) for variant in result["variants"])


def _explain(variant: Variant) -> str:
    lines = [f"{variant['name']}: {numbers.seconds(variant['step']['seconds'])} a step"]
    for part in sorted(variant["time"], key=lambda part: -part["seconds"])[:8]:
        where = " ".join(word for word in (part["group"], part["phase"]) if word)
        figures = f"{numbers.percent(part['share']):>7}  {numbers.seconds(part['seconds']):>8}"
        lines.append(f"  {figures}  {part['cause']}  {where}".rstrip())
    lost = (variant.get("lockstep") or {}).get("gpu_seconds_lost_to_stragglers") or 0.0
    if lost > 0:
        lines.append(f"  lockstep: stragglers cost the others {numbers.short(lost)} GPU-seconds a step")
    lines.append(f"  {headline(variant)}")
    trials = (variant.get("bottleneck") or {}).get("ranking", [])[:4]
    lines += [
        f"  {trial['factor']:g} x {trial['resource']}: step {numbers.percent(-trial['gain'])}" for trial in trials
    ]
    return "\n".join(lines)


def why(result: Mapping[str, Any]) -> str:
    """A sentence or two: which variant is best, by how much, what the others wait for, and what would help the best."""
    variants = result["variants"]
    best = best_variant(result)
    if len(variants) == 1:
        return headline(best)
    worst = min(variants, key=_rate)
    if _gain(variants, worst) < ALIKE:
        return f"All {len(variants)} variants do alike. {headline(best)}"
    if _gain([best], worst) < ALIKE:
        most = numbers.percent(_gain(variants, best))
        return f"{best['name']} costs least; none gets more than {most} more tokens out of a GPU. {headline(best)}"
    return f"{_contrast(best, worst)} {headline(best)}"


def _rate(variant: Variant) -> float:
    return float(variant["utilization"]["tokens_per_s_per_gpu"])


def _gain(variants: Sequence[Variant], other: Variant) -> float:
    """How much more the best of some variants gets out of an accelerator than another one."""
    return max(map(_rate, variants)) / _rate(other) - 1


def _contrast(best: Variant, worst: Variant) -> str:
    """What sets the two apart: throughput of an accelerator, and the cause of waiting that grew most."""
    faster = _gain([best], worst)
    waits = [numbers.percent(share_of(variant, WAITING)) for variant in (worst, best)]
    grown = max(WAITING, key=lambda cause: share_of(worst, [cause]) - share_of(best, [cause]))
    tier = (worst.get("network") or {}).get("saturated_tier")
    where = f" at {tier}" if tier and grown in {"bandwidth", "contention"} else ""
    return (
        f"{best['name']} gets {numbers.percent(faster)} more tokens out of a GPU than {worst['name']}: waiting for the "
        f"network and for stragglers falls from {waits[0]} to {waits[1]} of the step, mostly {grown}{where}."
    )


def best_variant(result: Mapping[str, Any]) -> Variant:
    """The variant with the lowest typical cost per million tokens, or else with the shortest step."""
    variants = result["variants"]
    if all((variant.get("cpmt") or {}).get("typical") for variant in variants):
        return min(variants, key=lambda variant: variant["cpmt"]["typical"])
    return min(variants, key=lambda variant: variant["step"]["seconds"])


def headline(variant: Variant) -> str:
    """What the bottleneck search says of a variant."""
    found = variant.get("bottleneck") or {}
    return str(found.get("headline") or "No bottleneck was searched.")


def _typical(section: Mapping[str, Any] | None, key: str) -> float | None:
    band = (section or {}).get(key)
    if not band:
        return None
    return next((float(value) for name, value in band.items() if name.startswith("typical")), None)
