"""The best variant of a comparison, and those tied with it.

Two predictions share what they take from the same constants, and that part of their error cancels. What is left
depends on how they differ:

- **the network alone** (same job, layout and accelerators): computations are the same kernels and their error cancels,
  and so does the step without a scale-out network. What differs is the network tax, x_a and x_b, of which s_a and s_b
  are slowed kernels: band = sqrt((e x_a)^2 + (e x_b)^2 + (l (s_a - s_b))^2). e is the error of a collective, which
  exposes it and slows kernels for longer. The middle of the band of collectives is a bias that both fabrics have of the
  same library, and cancels; e is half its width, taken as independent from fabric to fabric. That is assumed: no log
  shows two fabrics under one machine. It is cautious, for more than the bias may cancel. l is the error of what a
  kernel loses during a collective: the kernels are the same on both, so that it is one error of the difference.
- **layout, batch or replicas** with the same model, device and software: the band of a difference, read off pairs of
  left-out rows that share these (`ErrorRow.between`).
- **another model, accelerator or precision**: nothing cancels, band = sqrt(e_a^2 + e_b^2).

Work without a band (a pipeline of several models, a trace on other computations) takes the widest of serving's.
Seeds that were drawn add the standard error of their mean. Prices: both variants are paid at the same end of every
assumption, so that what they share cancels; what is left is how much their ratio moves from one end to the other, and
at least `PRICED_ALIKE`.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from railyard.measure.model_error import collectives_scatter, slowed_error, unknown_error
from railyard.measure.result.money import Difference, Unexercised, Verdict
from railyard.measure.result.section import EIGHT_OF_TEN, SAME
from railyard.measure.result.variants import ComparedVariant

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from railyard.measure.result.money import ErrorRow
    from railyard.measure.result.network import CollectiveRow
    from railyard.measure.result.section import Band
    from railyard.measure.result.step import TaxFigures


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
    networks = [variant.fabric for variant in variants]
    uncrossed = not any(network is None or network.crosses for network in networks)
    found = []
    for key in _varied(settings):
        if key.startswith(_PRICED):
            continue
        between = uncrossed and _is_between(key)
        if not between and _moves(key, variants, settings):
            continue
        servers = [network.crosses_from for network in networks if network is not None] if between else []
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
        alike[repr(sorted((name, value) for name, value in one.items() if name != key))].append(variant.felt)
    groups = [rows for rows in alike.values() if len(rows) > 1]
    return not groups or any(_differ(row, rows[0]) for rows in groups for row in rows[1:])


def _differ(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    pairs = zip(one, other, strict=False)
    return len(one) != len(other) or any(abs(mine - yours) > SAME * max(abs(mine), abs(yours)) for mine, yours in pairs)


PRICED_ALIKE = 0.02
"""Typical costs that differ by less than this are equal within what prices are known: their bands span far more."""

_NETWORK = frozenset({"fabric", "topology", "oversubscription", "link_rate", "qps"})
_ELSE = frozenset({"model", "server", "accelerators", "precision", "sequence"})

Figure = Literal["cpmt", "step_s", "goodput_rps"]
Shared = Literal["computation", "software and model", "nothing"]


_WORK = frozenset({"model", "tokens", "sequence", "global_batch", "requests", "rate", "load", "slo", "trace"})
"""Keys that say what is done, and not how: variants that differ in one do different work."""

_ALIKE = 1e-3
"""Losses to faults that differ by less than this share are the same."""


@dataclass(frozen=True, slots=True)
class _Side:
    """One variant as the comparison sees it: `value` is better the lower it is."""

    variant: ComparedVariant
    value: float
    prices: Band | None

    @property
    def rank(self) -> tuple[float, float]:
        """Those that finished come first, then those that lose least; among equals the figure decides."""
        loss = self.variant.lost_s
        return (round(math.log(loss) / _ALIKE) if loss > 0 else -math.inf, self.value)


def verdict_of(variants: Sequence[object]) -> Verdict | None:
    """Verdict on a comparison; None for one variant, and for work that has neither steps nor requests."""
    compared = [variant for variant in variants if isinstance(variant, ComparedVariant)]
    if len(variants) < 2 or len(compared) < len(variants) or len({variant.by for variant in compared}) > 1:
        return None
    return _judged(*_sides(compared), unlike(compared), unexercised(compared))


def unlike(variants: Sequence[ComparedVariant]) -> tuple[str, ...]:
    """Keys of the workload in which some variants differ from others."""
    return tuple(filter(_is_work, _varied([dict(flat(variant.settings)) for variant in variants])))


def _varied(settings: Sequence[Mapping[str, object]]) -> list[str]:
    """Keys in which some differ from others."""
    absent = object()
    keys = dict.fromkeys(key for one in settings for key in one)
    return [key for key in keys if any(one.get(key, absent) != settings[0].get(key, absent) for one in settings)]


def _is_work(key: str) -> bool:
    """Whether a key is of `workload.KIND` itself, or a short name of such a key."""
    path = key.split(".")
    if path[0] != "workload":
        return path[0] in _WORK
    return len(path) < 2 or path[1] == "trace" or (len(path) > 2 and path[2] in _WORK)


def _sides(variants: Sequence[ComparedVariant]) -> tuple[Figure, list[_Side]]:
    """Late answers are no bargain: only variants within the objective are compared, unless none is."""
    good = [variant for variant in variants if variant.may_win] or list(variants)
    prices = [variant.price for variant in good]
    if all(price is not None and price.typical > 0 for price in prices):
        return "cpmt", [_Side(one, price.typical, price) for one, price in zip(good, prices, strict=True) if price]
    return good[0].by, [_Side(one, one.rank_value, None) for one in good]


def _judged(by: Figure, sides: Sequence[_Side], apart: tuple[str, ...], unused: tuple[Unexercised, ...]) -> Verdict:
    products = sorted((side for side in sides if not side.variant.bound), key=lambda side: side.rank)
    bound = min((side for side in sides if side.variant.bound), key=lambda side: side.value, default=None)
    ranked = [] if apart else products
    first = ranked[0] if ranked and not ranked[0].variant.lost_s else None
    rows = tuple(_difference(by, ranked[0], side) for side in ranked[1:])
    ties = tuple(row.variant for row in rows if row.tied)
    name = None if first is None else first.variant.name
    return Verdict(
        by=by,
        leading=name,
        bound=None if bound is None else bound.variant.name,
        above_bound=None if first is None or bound is None else bound.variant.reach / first.variant.reach - 1.0,
        best=None if ties else name,
        ties=ties,
        ranking=tuple(side.variant.name for side in ranked),
        same=_same(ranked),
        unlike=apart,
        unexercised=unused,
        differences=rows,
    )


def _same(sides: Sequence[_Side]) -> tuple[tuple[str, ...], ...]:
    """Names of variants with the same figures and prices: one choice under several names."""
    groups: list[list[_Side]] = []
    for side in sides:
        group = next((one for one in groups if _alike(side, one[0])), None)
        if group is None:
            groups.append([side])
        else:
            group.append(side)
    return tuple(tuple(side.variant.name for side in group) for group in groups if len(group) > 1)


def _alike(one: _Side, other: _Side) -> bool:
    """Whether all is the same that a choice between two variants is made by."""
    paid = [() if side.prices is None else side.prices.ends for side in (one, other)]
    if _differ((one.value, *paid[0]), (other.value, *paid[1])):
        return False
    return not _differ((*one.variant.felt, one.variant.lost_s), (*other.variant.felt, other.variant.lost_s))


def _over(by: Figure, one: _Side, other: _Side) -> float:
    """One's figure over the other's, less one; of goodput the larger is better, and `value` its inverse."""
    return (other.value / one.value if by == "goodput_rps" else one.value / other.value) - 1.0


def _difference(by: Figure, first: _Side, other: _Side) -> Difference:
    shared = shared_by(first.variant, other.variant)
    model = _model_band(by, first.variant, other.variant, shared)
    prices, draws = price_band(first.prices, other.prices), _seeds(first.variant, other.variant)
    apart, band = other.value / first.value - 1.0, math.expm1(math.hypot(model, prices, draws))
    return Difference(
        variant=other.variant.name,
        difference=_over(by, other, first),
        model_band=model,
        price_band=prices,
        draw_band=draws,
        band=band,
        shared=shared,
        tied=apart <= band and not first.variant.lost_s and not other.variant.lost_s,
    )


def shared_by(one: ComparedVariant, other: ComparedVariant) -> Shared:
    """The errors of constants that two variants share."""
    absent = object()
    keys = one.settings.keys() | other.settings.keys()
    apart = {key for key in keys if one.settings.get(key, absent) != other.settings.get(key, absent)}
    if any(key.rpartition(".")[2] in _ELSE or key.startswith("cluster.overrides") for key in apart):
        return "nothing"
    alike = getattr(one, "layout", None) == getattr(other, "layout", None)
    network = all(key in _NETWORK or key.startswith("cluster.back_end") for key in apart)
    steps = one.taxed is not None and other.taxed is not None
    return "computation" if steps and alike and network else "software and model"


def _model_band(by: Figure, one: ComparedVariant, other: ComparedVariant, shared: Shared) -> float:
    """The part of the model's error that does not cancel, as a logarithm."""
    if shared == "computation" and one.taxed is not None and other.taxed is not None:
        return _tax_band(one.taxed, other.taxed)
    rows = [_row(side, by) for side in (one, other)]
    found = [row for row in rows if row is not None]
    if len(found) < 2:
        return math.log1p(unknown_error().between)
    if shared == "software and model":
        return math.log1p(max(row.between for row in found))
    return math.hypot(*(math.log1p(row.widest) for row in found))


def _tax_band(*sides: tuple[TaxFigures, Sequence[CollectiveRow]]) -> float:
    """Error of the difference of two network taxes of one job, as a share of the step."""
    collectives = (collectives_scatter(rows) * tax.of_collectives for tax, rows in sides)
    slowed = sides[0][0].slowed_kernels - sides[1][0].slowed_kernels
    return math.hypot(*collectives, math.log1p(slowed_error().widest) * slowed)


def _row(variant: ComparedVariant, by: Figure) -> ErrorRow | None:
    figure = "tokens_per_s_per_gpu" if by == "goodput_rps" else by
    return next((row for row in variant.model_error or () if row.figure == figure), None)


def _seeds(one: ComparedVariant, other: ComparedVariant) -> float:
    """Uncertainty of the ratio of the two means over draws, as a share of the step."""
    return EIGHT_OF_TEN * math.hypot(_standard_error(one), _standard_error(other))


def _standard_error(variant: ComparedVariant) -> float:
    samples = variant.samples
    if len(samples) < 2:
        return 0.0
    return statistics.stdev(samples) / math.sqrt(len(samples)) / statistics.fmean(samples)


def price_band(one: Band | None, other: Band | None) -> float:
    """Change of the ratio of two prices between the ends of what both assume, as a logarithm; 0 without a price."""
    if one is None or other is None:
        return 0.0
    ratios = [math.log(mine / yours) for mine, yours in zip(other.ends, one.ends, strict=True)]
    return max(PRICED_ALIKE, *(abs(ratio - ratios[1]) for ratio in ratios))
