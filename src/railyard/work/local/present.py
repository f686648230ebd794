"""Tables and text for training on several sites."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.kit.prose import quoted
from railyard.kit.quantities import format_rate
from railyard.measure import numbers
from railyard.measure.result.variants import LocalVariant
from railyard.work.study.presentation import Presentation, Sheet, presentations
from railyard.work.study.result_words import DETAILED, card_of, first_words, matrix, size_words, tables_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from railyard.measure.result.reading import Result


_SITES = ("variant", "step", "computing", "MFU", "exchange", "tokens/s", "$/Mtoken (low to high)")
_TRAFFIC = (
    "variant",
    "sent per exchange",
    "sent, mean",
    "break-even rate without loss",
    "token budget takes",
    "J/token",
)


def _sheets(result: Result) -> Iterator[Sheet]:
    """The comparison."""
    yield Sheet(_SITES, [_sites_row(one) for one in result.of(LocalVariant)])


def _details(result: Result) -> Iterator[Sheet]:
    """Parts of a mean step, traffic; sites and exchanges of up to two variants."""
    variants = result.of(LocalVariant)
    yield matrix("of a mean step", [(one.name, one.local.causes) for one in variants])
    yield Sheet(_TRAFFIC, [_traffic_row(one) for one in variants])
    if len(variants) > DETAILED:
        return
    for one in variants:
        heads = (
            f"{one.name}: sites",
            "count",
            "GPUs each",
            "step",
            "known by",
            "waits",
            "tokens/s",
            "$/h low/typ/high",
        )
        yield Sheet(
            heads,
            [
                (
                    row.name,
                    str(row.count),
                    str(row.accelerators),
                    numbers.seconds(row.step_s),
                    row.from_,
                    numbers.percent(row.waits),
                    numbers.short(row.tokens_per_s),
                    numbers.band(row.usd_per_h),
                )
                for row in one.local.sites
            ],
        )
        rows = [
            (
                f"{row.source} to {row.target}",
                numbers.seconds(row.rtt_s),
                format_rate(float(f"{row.goodput_bps:.3g}")),
                numbers.percent(row.relayed),
                format_rate(float(f"{row.relayed_bps:.3g}")) if row.relayed else numbers.NOT_APPLICABLE,
            )
            for row in one.local.ring
        ]
        yield Sheet((f"{one.name}: exchanges", "round trip", "goodput", "relayed", "through a relay"), rows)


def _sites_row(variant: LocalVariant) -> tuple[str, ...]:
    found = variant.local
    return (
        variant.name,
        numbers.seconds(found.step_s),
        numbers.percent(found.compute_utilization),
        numbers.percent(found.mfu),
        numbers.seconds(found.exchange_s),
        numbers.short(found.tokens_per_s),
        numbers.with_range(found.cpmt.total),
    )


def _traffic_row(variant: LocalVariant) -> tuple[str, ...]:
    found = variant.local
    even = found.break_even_bps
    return (
        variant.name,
        size_words(found.sent_bytes),
        format_rate(float(f"{found.mean_bps:.3g}")),
        numbers.NOT_APPLICABLE if even is None else format_rate(float(f"{even:.3g}")),
        numbers.NOT_APPLICABLE if found.tokens_s is None else numbers.seconds(found.tokens_s),
        numbers.short(found.joules_per_token.typical),
    )


def _verdict(result: Result) -> str:
    """The step and its cost, or which variant costs least."""
    sites = result.of(LocalVariant)
    cheap, dear = (pick(sites, key=lambda one: one.local.cpmt.total.typical) for pick in (min, max))
    if len(sites) == 1:
        return f"A step takes {numbers.seconds(cheap.local.step_s)}, at {_price(cheap)}."
    more = numbers.more(dear.local.cpmt.total.typical / cheap.local.cpmt.total.typical - 1)
    return f"{quoted(cheap.name)} costs least: {_price(cheap)}; {quoted(dear.name)} costs {more}."


def _price(variant: LocalVariant) -> str:
    low, typical, high = map(numbers.short, variant.local.cpmt.total.ends)
    return f"${typical} per million tokens ({low} to {high})"


def _why(result: Result) -> list[str]:
    """What most of the step of the most expensive variant is."""
    dear = max(result.of(LocalVariant), key=lambda one: one.local.cpmt.total.typical)
    return [f"{quoted(dear.name)}: {first_words(dear.local.causes, 'step')}."]


def _card(result: Result, report: Path | None) -> str:
    """One line per variant, and the path of the report."""
    lines = [
        f"step {numbers.seconds(one.local.step_s)}, computing {numbers.percent(one.local.compute_utilization)}"
        for one in result.of(LocalVariant)
    ]
    return card_of(result, report, lines)


_TABLES = tables_of("sites", "each site that trains", lambda found: found["sites"])
presentations.add("local", Presentation(_verdict, _sheets, _why, _card, details=_details, tables=_TABLES))
