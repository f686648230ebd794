"""Trust in a result, in words: bands of model error and of prices, and which variants are tied."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

from railyard.kit.prose import listed, quoted
from railyard.measure import numbers
from railyard.measure.result.variants import StepVariant
from railyard.measure.verdict import verdict_of
from railyard.work.study.presentation import Sheet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from railyard.measure.result.money import Difference, ErrorRow
    from railyard.measure.result.reading import FailedVariant, Result
    from railyard.measure.result.variants import BaseVariant


HEADINGS = (
    "variant",
    "background",
    "flows",
    "done with the job",
    "mean",
    "p99",
    "alone, mean",
    "alone, p99",
    "slowdown",
)
RIGHT = (2, 3, 4, 5, 6, 7, 8)


def rows(result: Result) -> Iterator[list[str]]:
    """Cells under `HEADINGS`, a row for each variant and group of flows; none if there are none."""
    for variant in result.of(StepVariant):
        for row in () if variant.packet is None else variant.packet.background or ():
            yield [
                variant.name,
                row.group,
                str(row.flows),
                numbers.percent(row.finished_share),
                *(_time(us) for us in (row.mean_us, row.p99_us, row.alone_mean_us, row.alone_p99_us)),
                f"{row.slowdown:.2f}",
            ]


def _time(microseconds: float) -> str:
    return numbers.seconds(microseconds * 1e-6)


_FIGURES: dict[str, tuple[str, Callable[[float | None], str]]] = {
    "step_s": ("step", numbers.seconds),
    "network_tax": ("network tax", numbers.percent),
    "ttft_s": ("TTFT p50", numbers.seconds),
    "tpot_s": ("TPOT p50", numbers.seconds),
    "cpmt": ("$/Mtoken", numbers.short),
    "tokens_per_s_per_gpu": ("tokens/s per GPU", numbers.short),
    "power_w": ("power", numbers.power),
}
_IN_CARD = ("step_s", "ttft_s", "tpot_s", "cpmt")
_BY = {"cpmt": "dollars per token", "step_s": "step time", "goodput_rps": "requests that meet the SLO"}


def band_of(variant: BaseVariant, figure: str) -> str:
    """`7.66 to 9.84 s`, or N/A if nothing was validated."""
    row = _row(variant, figure)
    return numbers.NOT_APPLICABLE if row is None else _range(row)


def step_band(variant: BaseVariant) -> str:
    """The band of a step, also in percent: `7.66 to 9.84 s (-5 to +22 %)`."""
    row = _row(variant, "step_s")
    if row is None:
        return numbers.NOT_APPLICABLE
    low, high = (100 * (end / row.typical - 1) for end in (row.low, row.high))
    return f"{_range(row)} ({low:+.0f} to {high:+.0f} %)"


def lines(variant: BaseVariant) -> list[str]:
    """The card's line on model error; none if nothing was validated."""
    rows = [row for figure in _IN_CARD if (row := _row(variant, figure)) is not None]
    if not rows:
        return []
    return ["model error " + ", ".join(f"{_FIGURES[row.figure][0]} {_range(row)}" for row in rows)]


def _row(variant: BaseVariant, figure: str) -> ErrorRow | None:
    return next((row for row in variant.model_error or () if row.figure == figure), None)


def _range(row: ErrorRow) -> str:
    show = _FIGURES[row.figure][1]
    return numbers.from_to(show(row.low), show(row.high))


def peers(result: Result) -> tuple[str, ...]:
    """Names of the variants tied with the leading one."""
    return () if result.verdict is None else result.verdict.ties


def equals(result: Result, best: str) -> list[str]:
    """The leading variant and those tied with it, each choice once however many names it has."""
    named = [best, *peers(result)]
    groups = () if result.verdict is None else result.verdict.same
    return [
        name for at, name in enumerate(named) if not any(name in one and set(one) & {*named[:at]} for one in groups)
    ]


def same(result: Result) -> str:
    """A sentence on variants that are one choice under several names; empty where the verdict says it, or none is."""
    verdict = result.verdict
    if verdict is None:
        return ""
    every = {verdict.leading, *verdict.ties}
    groups = [one for one in verdict.same if set(one) != every]
    said = [f"{listed(one)} have the same speed and cost, and count as one." for one in groups[:_MOST_GROUPS]]
    more = len(groups) - len(said)
    return " ".join([*said, *([f"{more} further groups are each one choice too."] if more > 0 else [])])


_MOST_GROUPS = 2
"""Groups of variants with the same figures that are named."""


def all_tied(result: Result) -> bool:
    """Whether all variants that can be bought are tied with the leading one."""
    verdict = result.verdict
    return verdict is not None and 0 < len(verdict.ties) == len(verdict.ranking) - 1


def undecided(result: Result) -> bool:
    """Whether variants are equal only because the error is large: a purchase cannot ignore their difference."""
    rows = () if result.verdict is None else result.verdict.differences
    return any(row.tied and (row.difference >= _NOTICED or row.band >= _LOOSE) for row in rows)


def largest_error(result: Result) -> str:
    """The largest part of the error within which variants are equal: `the price error`."""
    rows = () if result.verdict is None else [row for row in result.verdict.differences if row.tied]
    parts = {
        "the model's error": max((row.model_band for row in rows), default=0.0),
        "the price error": max((row.price_band for row in rows), default=0.0),
        "the error of the draws": max((row.draw_band for row in rows), default=0.0),
    }
    return max(parts, key=parts.__getitem__)


_NOTICED = 0.05
"""Difference of a figure from which on two variants are not called equal."""
_LOOSE = 0.2
"""Tie threshold from which on no two variants are called equal."""


def title(result: Result, single: str) -> str:
    """The card's name for its variant: `best` only if nothing is tied with it."""
    verdict = result.verdict
    if verdict is None or verdict.unlike:
        return single
    if verdict.leading is None:
        return "loses least" if verdict.ranking else "bound"
    return "best" if verdict.best is not None else "tied"


def unlike(result: Result) -> str:
    """A sentence on variants that do different work; empty if all do the same."""
    verdict = result.verdict
    if verdict is None or not verdict.unlike:
        return ""
    values = ", ".join(f"{key} {_values(result, key)}" for key in verdict.unlike[:_MOST_KEYS])
    more = len(verdict.unlike) - _MOST_KEYS
    values += f" and {more} more keys" if more > 0 else ""
    leaders, tied = _leaders(result, verdict.unlike)
    if not leaders:
        return f"The variants do different work ({values}), so none is better."
    lead = f"{listed(leaders)} lead{'s' if len(leaders) == 1 else ''}"
    others = "; others are equal within error" if tied else ""
    return f"The variants do different work ({values}). Within each, {lead}{others}."


def _leaders(result: Result, keys: Sequence[str]) -> tuple[list[str], bool]:
    """The best of the variants that do the same work, for each such work of several; whether some have equals."""
    alike: dict[tuple[str, ...], list[BaseVariant]] = defaultdict(list)
    for variant in result.variants:
        alike[tuple(_under(variant.settings, key) for key in keys)].append(variant)
    verdicts = [verdict_of(group) for group in alike.values()]
    found = [one for one in verdicts if one is not None and one.leading is not None]
    return [one.leading for one in found if one.leading is not None], any(one.ties for one in found)


_MOST_KEYS = 3


def _values(result: Result, key: str) -> str:
    """`2, 4 and 9`: the values of a key over the variants."""
    found = list(dict.fromkeys(_under(variant.settings, key) for variant in result.variants))
    return " and ".join([", ".join(found[:-1]), found[-1]] if len(found) > 1 else found)


def _under(settings: Mapping[str, object], key: str) -> str:
    """The value under a dotted key of settings whose keys may be dotted themselves."""
    if key in settings:
        return str(settings[key])
    for name, value in settings.items():
        if key.startswith(f"{name}.") and isinstance(value, dict):
            return _under(value, key[len(name) + 1 :])
    return "its default"


def left_out(result: Result) -> list[str]:
    """A clause for each reason for which combinations were left out, with their names."""
    return _by_reason(result.impossible or (), "is impossible", "are impossible")


def without_figures(result: Result) -> list[str]:
    """A clause for each reason for which variants failed, with their names."""
    return _by_reason(result.failed or (), "has no figures", "have no figures")


def _by_reason(absent: Sequence[FailedVariant], one: str, several: str) -> list[str]:
    names: dict[str, list[str]] = defaultdict(list)
    for variant in absent:
        names[variant.error].append(variant.name)
    return [f"{listed(who)} {one if len(who) == 1 else several}: {reason}." for reason, who in names.items()]


def unexercised(result: Result) -> str:
    """A sentence on varied values that have no effect; empty if all have."""
    if result.verdict is None:
        return ""
    crossing = [one for one in result.verdict.unexercised if one.crossing]
    still = [one.key for one in result.verdict.unexercised if not one.crossing]
    said = []
    if crossing:
        low, high = crossing[0].from_servers, crossing[0].to_servers
        would = "" if low is None else f"; it would from {low:,} servers"
        would += "" if high in (None, low) else f", in all variants from {high:,}"
        keys = ", ".join(one.key for one in crossing)
        said.append(f"This job does not cross the spine{would}, so the effect of {keys} there does not show.")
    if still:
        said.append(f"{listed(still)} {'does' if len(still) == 1 else 'do'} not change the speed of this job.")
    return " ".join(said)


def bound(result: Result) -> str:
    """A sentence on the distance of the leading variant from the bound; or empty."""
    verdict = result.verdict
    if verdict is None or verdict.bound is None or verdict.leading is None or verdict.above_bound is None:
        return ""
    if verdict.above_bound < _LEAST_SEEN:
        return f"{quoted(verdict.leading)} does as well as {verdict.bound}, a bound with the same NICs."
    more = _MORE[verdict.by].format(numbers.percent(verdict.above_bound))
    return f"{quoted(verdict.bound)}, a bound with the same NICs, {more} than {quoted(verdict.leading)}."


_LEAST_SEEN = 0.0005
"""Smaller shares would be printed as 0.0 %."""

_MORE = {
    "cpmt": "gets {} more tokens out of a GPU",
    "step_s": "does {} more steps per second",
    "goodput_rps": "answers {} more requests within the SLO",
}


def ties(result: Result) -> str:
    """A sentence on the error of the pair that differs most, as the verdict calls them; empty if none are equal."""
    verdict = result.verdict
    if verdict is None or verdict.leading is None:
        return ""
    choices = equals(result, verdict.leading)
    tied = [row for row in verdict.differences if row.variant in choices]
    if not tied:
        return ""
    widest = max(tied, key=lambda row: abs(row.difference))
    who, most = "The equal variants", "by" if len(tied) == 1 else "by at most"
    if undecided(result):
        who = "These variants" if all_tied(result) else listed(choices)
    return (
        f"{who} differ {most} {numbers.percent(abs(widest.difference))} in {_BY[verdict.by]};"
        f" their tie threshold is {numbers.percent(widest.band)} ({', '.join(_parts(widest))})."
    )


def _parts(row: Difference) -> Iterator[str]:
    """`model error 3.9 %`, `price error 2.0 %`, `draws 0.4 %`: the parts of a tie threshold that are not zero."""
    for name, band in (("model error", row.model_band), ("price error", row.price_band), ("draws", row.draw_band)):
        if band:
            yield f"{name} {numbers.percent(math.expm1(band))}"


_MEANING = (
    "Variants are equal within error where they differ by less than their tie threshold. That is the root of the sum of"
    " the squares of three errors: of the model, as far as it does not cancel, of prices, and of draws."
)


def differences(result: Result) -> list[Sheet]:
    """Each variant against the leading one, with the parts of its tie threshold; empty without a comparison."""
    verdict = result.verdict
    if verdict is None or not verdict.differences:
        return []
    headings = (
        *("variant", f"against {verdict.ranking[0]}", "tie threshold", "model error", "price error", "draws"),
        *("error that cancels", "verdict"),
    )
    found = [
        [
            row.variant,
            f"{100 * row.difference:+.1f} %",
            numbers.percent(row.band),
            *(numbers.percent(math.expm1(band)) for band in (row.model_band, row.price_band, row.draw_band)),
            row.shared,
            "equal within error" if row.tied else "different",
        ]
        for row in verdict.differences
    ]
    return [Sheet(headings, found, _MEANING, (1, 2, 3, 4, 5))]
