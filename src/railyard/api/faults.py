"""Faults of a result in words: what they cost each variant, and what they hit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.api import numbers
from railyard.study.deaths import span

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from railyard.result.fault import FaultFigures
    from railyard.result.result import Result
    from railyard.result.variants.variant import StepVariant

_LEAST_SEEN = 0.0005
"""What would be printed as 0.0 %."""


def ended(variant: StepVariant) -> bool:
    """Whether a fault ended its job."""
    return variant.outcome != "finished"


def lost_s(variant: StepVariant) -> float:
    """What faults take from its job once, s."""
    return sum(fault.lost_s for fault in variant.faults or ())


def opening(result: Result) -> str:
    """The sentence that a result with faults begins with: who dies, or how much longer steps are; else empty."""
    faulty = [variant for variant in result.steps if variant.faults and not (variant.bound and len(result.steps) > 1)]
    if not faulty:
        return ""
    dead = [variant for variant in faulty if ended(variant)]
    if len(result.steps) == 1:
        return _died(faulty[0]) if dead else _slowed(faulty[0])
    if dead:
        return _some_died(dead, everybody=len(dead) == sum(not variant.bound for variant in result.steps))
    return _all_finished(faulty)


def _died(variant: StepVariant) -> str:
    fault = max((one for one in variant.faults or () if one.outcome in _ENDS), key=lambda one: one.lost_s)
    part = max(fault.parts, key=lambda one: one.seconds)
    job = "" if variant.jct is None else f" of a job of {span(variant.jct.seconds)}"
    return (
        f"The job {_DOES[variant.outcome]}: {fault.what} at {span(fault.at_s)} ends it, and"
        f" {span(lost_s(variant))}{job} are lost, {span(part.seconds)} of it {part.cause}."
    )


_ENDS = ("aborted", "stalled")
_DOES = {"died": "dies", "stalled": "stalls"}


def _slowed(variant: StepVariant) -> str:
    """`The step takes 112 ms with degrade-link: ... at 45 % and 96 ms without it, 16.7 % longer`."""
    now_s, without_s = variant.step.seconds, variant.step.without_faults_s or variant.step.seconds
    what = _all_of(variant.faults or ())
    it = "it" if len(variant.faults or ()) == 1 else "them"
    if now_s / without_s - 1 < _LEAST_SEEN:
        return f"The step takes {numbers.seconds(now_s)} with and without {what}."
    return (
        f"The step takes {numbers.seconds(now_s)} with {what} and {numbers.seconds(without_s)} without {it},"
        f" {numbers.percent(now_s / without_s - 1)} longer{_once(variant)}."
    )


def _once(variant: StepVariant) -> str:
    """What is lost once, where it is more than a step."""
    lost = lost_s(variant)
    return f"; {span(lost)} of the job are lost once" if lost > variant.step.seconds else ""


def _some_died(dead: Sequence[StepVariant], *, everybody: bool) -> str:
    """`The job dies on roce, uec (switch-down: spine 0), and loses 1.34 d`."""
    whats = [_all_of([one for one in variant.faults or () if one.outcome in _ENDS]) for variant in dead]
    if len(set(whats)) == 1:
        where = "every variant" if everybody else ", ".join(variant.name for variant in dead)
        where = f"{where} ({whats[0]})"
    else:
        named = [f"{variant.name} ({what})" for variant, what in zip(dead, whats, strict=True)]
        where = f"{'every variant: ' if everybody else ''}{', '.join(named)}"
    does = "stalls" if all(variant.outcome == "stalled" for variant in dead) else "dies"
    most, least = max(map(lost_s, dead)), min(map(lost_s, dead))
    lost = span(least)
    lost = lost if lost == span(most) else f"{lost} to {span(most)}"
    return f"The job {does} on {where}, and loses {lost}."


def _all_finished(faulty: Sequence[StepVariant]) -> str:
    """`degrade-link: ... makes a step 0.4 % (uec) to 12 % (roce) longer`."""
    grown = sorted(
        ((one.step.seconds / (one.step.without_faults_s or one.step.seconds) - 1, one.name) for one in faulty),
    )
    whats = {_all_of(one.faults or ()) for one in faulty}
    what = whats.pop() if len(whats) == 1 else "The faults of each variant"
    verb = "make" if what.startswith("The faults") or " and " in what else "makes"
    (least, low), (most, high) = grown[0], grown[-1]
    if most < _LEAST_SEEN:
        return f"{what} {verb} no variant's step longer."
    return f"{what} {verb} a step {numbers.percent(least)} ({low}) to {numbers.percent(most)} ({high}) longer."


def _all_of(faults: Sequence[FaultFigures]) -> str:
    """Faults by name; of many the first."""
    names = list(dict.fromkeys(fault.what for fault in faults))
    return " and ".join(names) if len(names) < _MOST else f"{names[0]} and {len(names) - 1} more faults"


_MOST = 4


def hits(result: Result) -> list[str]:
    """A line for every fault, with the links that each variant lost and their share; a warning where these differ."""
    lines = []
    products = [variant for variant in result.steps if not variant.bound] or list(result.steps)
    for what in dict.fromkeys(fault.what for variant in products for fault in variant.faults or ()):
        by_hit: dict[str, list[str]] = {}
        for variant in products:
            for fault in variant.faults or ():
                if fault.what == what and fault.tiers:
                    by_hit.setdefault(_hit(fault), []).append(variant.name)
        if by_hit:
            lines.append(f"fault: {what} hits {'; '.join(_on(by_hit, len(products)))}")
        if len(by_hit) > 1:
            lines.append(f"warning: {what} is not the same loss on these networks: links and shares differ, see above")
    return lines


def _hit(fault: FaultFigures) -> str:
    """`1 of 96 links of leaf-spine (1.0 %)`, by tier."""
    return ", ".join(
        f"{row.links:,} of {row.of:,} links of {row.tier} ({numbers.percent(row.share)})" for row in fault.tiers
    )


def _on(by_hit: dict[str, list[str]], everybody: int) -> Iterator[str]:
    for hit, names in by_hit.items():
        whom = "every variant" if len(names) == everybody > 1 else ", ".join(names)
        yield hit if everybody == 1 else f"{hit} on {whom}"
