"""What a comparison varies without showing anything of it: keys that move no figure, and links that nothing crosses."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from railyard.measure.result.model_error import Unexercised
from railyard.measure.result.section import SAME
from railyard.measure.result.variants.serving import ServedVariant
from railyard.measure.result.variants.variant import StepVariant

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from railyard.measure.result.variants.variant import ComparedVariant

_SPINES = frozenset({"fabric", "oversubscription", "qps", "topology"})
"""Words in keys of the back-end that matter, all or in part, on links between switches; short names of keys too."""

_PRICED = ("economics", "electricity", "pue", "site", "faults", "recovery", "check")
"""Beginnings of keys that are not meant to move a step."""


def flat(settings: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Settings by dotted key."""
    for key, value in settings.items():
        if isinstance(value, dict) and value:
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def unexercised(variants: Sequence[ComparedVariant]) -> tuple[Unexercised, ...]:
    """Keys that vary between variants although the work feels little or nothing of them."""
    settings = [dict(flat(variant.settings)) for variant in variants]
    keys = dict.fromkeys(key for one in settings for key in one)
    absent = object()
    varied = [key for key in keys if any(one.get(key, absent) != settings[0].get(key, absent) for one in settings)]
    steps = [variant for variant in variants if isinstance(variant, StepVariant)]
    uncrossed = bool(steps) and not any(variant.network.crosses for variant in steps)
    found = []
    for key in varied:
        if key.startswith(_PRICED):
            continue
        between = uncrossed and _is_between(key)
        if not between and _moves(key, variants, settings):
            continue
        servers = [one.network.crosses_from for one in steps] if between else []
        known = [count for count in servers if count is not None]
        found.append(
            Unexercised(
                key=key,
                crossing=between,
                from_servers=min(known) if len(known) == len(servers) and known else None,
                to_servers=max(known) if len(known) == len(servers) and known else None,
            )
        )
    return tuple(found)


def _is_between(key: str) -> bool:
    """Whether a key is of the back-end and matters on links between switches."""
    words = key.split(".")
    return ("back_end" in words or words[0] in _SPINES) and not _SPINES.isdisjoint(words)


def _moves(key: str, variants: Sequence[ComparedVariant], settings: Sequence[Mapping[str, object]]) -> bool:
    """Whether two variants that differ in nothing but a key have different figures, or there are no two such."""
    alike: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    for variant, one in zip(variants, settings, strict=True):
        alike[repr(sorted((name, value) for name, value in one.items() if name != key))].append(_figures(variant))
    groups = [rows for rows in alike.values() if len(rows) > 1]
    return not groups or any(_differ(row, rows[0]) for rows in groups for row in rows[1:])


def _figures(variant: ComparedVariant) -> tuple[float, ...]:
    """What the work feels: steps, or times of answers."""
    if isinstance(variant, StepVariant):
        return (variant.step.seconds, *variant.step.samples)
    if not isinstance(variant, ServedVariant):
        raise TypeError(type(variant))
    serving = variant.serving
    times = (serving.ttft_s.p50, serving.ttft_s.p99, serving.tpot_s.p50, serving.tpot_s.p99)
    return (serving.slo.goodput_rps, *(time or 0.0 for time in times))


def _differ(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    pairs = zip(one, other, strict=False)
    return len(one) != len(other) or any(abs(mine - yours) > SAME * max(abs(mine), abs(yours)) for mine, yours in pairs)
