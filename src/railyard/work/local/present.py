"""Tables and text for training on several sites."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.kit.quantities import format_rate
from railyard.measure import numbers
from railyard.measure.result.variants import LocalVariant
from railyard.work.study.cause_words import DETAILED, card_of, first_words, matrix, size_words, tables_of
from railyard.work.study.presentation import Presentation, Sheet, presentations

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from railyard.measure.result.reading import Result


_SITES = (
    "variant",
    "step",
    "computing",
    "MFU",
    "exchange",
    "sent a meeting",
    "sent, mean",
    "break-even rate, no loss",
    "tokens/s",
    "budget",
    "J/token",
    "$/Mtoken low/typ/high",
)


def _of_sites(variants: Sequence[LocalVariant]) -> Iterator[Sheet]:
    yield Sheet(_SITES, [_sites_row(one) for one in variants])
    yield matrix("of a mean step", [(one.name, one.local.causes) for one in variants])
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
    even = found.break_even_bps
    return (
        variant.name,
        numbers.seconds(found.step_s),
        numbers.percent(found.compute_utilization),
        numbers.percent(found.mfu),
        numbers.seconds(found.exchange_s),
        size_words(found.sent_bytes),
        format_rate(float(f"{found.mean_bps:.3g}")),
        numbers.NOT_APPLICABLE if even is None else format_rate(float(f"{even:.3g}")),
        numbers.short(found.tokens_per_s),
        numbers.NOT_APPLICABLE if found.tokens_s is None else numbers.seconds(found.tokens_s),
        numbers.short(found.joules_per_token.typical),
        numbers.band(found.cpmt.total),
    )


def sheets(result: Result) -> Iterator[Sheet]:
    """The tables of a result, the comparison first."""
    return _of_sites(result.of(LocalVariant))


def why(result: Result) -> str:
    """A sentence per variant, or one that contrasts the cheapest and the most expensive."""
    sites = result.of(LocalVariant)
    if len(sites) == 1:
        return f"{sites[0].name}: {first_words(sites[0].local.causes, 'step')}"
    cheap, dear = (pick(sites, key=lambda one: one.local.cpmt.total.typical) for pick in (min, max))
    return (
        f"{cheap.name} costs least, ${cheap.local.cpmt.total.typical:.3g} per million tokens;"
        f" {dear.name} ${dear.local.cpmt.total.typical:.3g}, of whose time"
        f" {numbers.percent(1.0 - dear.local.compute_utilization)} is no computation"
    )


def card(result: Result, report: Path | None) -> str:
    """One line per variant, and the path of the report."""
    lines = [
        f"step {numbers.seconds(one.local.step_s)}, computing {numbers.percent(one.local.compute_utilization)}"
        for one in result.of(LocalVariant)
    ]
    return card_of(result, report, lines)


_TABLES = tables_of("sites", "each site that trains", lambda found: found["sites"])
presentations.add("local", Presentation(sheets, why, why, card, tables=_TABLES))
