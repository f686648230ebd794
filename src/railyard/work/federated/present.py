"""Tables and text for federated learning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.kit.prose import quoted
from railyard.measure import numbers
from railyard.measure.result.variants import FederatedVariant
from railyard.work.study.presentation import Presentation, Sheet, presentations
from railyard.work.study.result_words import (
    DETAILED,
    card_of,
    causes_words,
    first_words,
    matrix,
    size_words,
    tables_of,
    two_words,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from railyard.measure.result.reading import Result


_CLIENTS = (
    "variant",
    "round mean",
    "p50 / p99",
    "used of selected",
    "updates/h",
    "$ a round (low to high)",
    "to accuracy",
)
_TRAFFIC = ("variant", "left / late", "sent by a client", "sent a round", "wasted", "kJ a round")


def _sheets(result: Result) -> Iterator[Sheet]:
    """The comparison."""
    yield Sheet(_CLIENTS, [_clients_row(one) for one in result.of(FederatedVariant)])


def _details(result: Result) -> Iterator[Sheet]:
    """Parts of a mean round, traffic, shared links, and which clients take part."""
    variants = result.of(FederatedVariant)
    yield matrix("of a mean round", [(one.name, one.federated.causes) for one in variants])
    yield Sheet(_TRAFFIC, [_traffic_row(one) for one in variants])
    yield from _of_shared(variants)
    if len(variants) > DETAILED:
        names = [row.name for row in variants[0].federated.participation.groups]
        rows = [(one.name, *(numbers.short(bias) for bias in _biases(one, names))) for one in variants]
        yield Sheet(("used over population (1 is fair)", *names), rows)
        return
    for one in variants:
        heads = (f"{one.name}: clients", "population", "available", "selected", "used", "bias")
        yield Sheet(
            heads,
            [
                (
                    f"{row.of} {row.name}",
                    *(numbers.percent(share) for share in (row.population, row.there, row.selected, row.heard)),
                    numbers.short(row.bias),
                )
                for row in one.federated.participation.groups
            ],
        )


def _of_shared(variants: Sequence[FederatedVariant]) -> Iterator[Sheet]:
    """Extra time from sharing by tier, if anything before the server is shared."""
    found = [(one.name, {row.name: row.added_s for row in one.federated.server.shared}) for one in variants]
    tiers = list(dict.fromkeys(tier for _, tiers in found for tier in tiers))
    if tiers:
        rows = [
            (name, *(numbers.seconds(added[tier]) if tier in added else "" for tier in tiers)) for name, added in found
        ]
        yield Sheet(("sharing adds to an update", *tiers), rows)


def _clients_row(variant: FederatedVariant) -> tuple[str, ...]:
    found = variant.federated
    who = found.participation
    return (
        variant.name,
        numbers.seconds(found.round_s.mean),
        two_words(found.round_s),
        f"{numbers.short(who.used)} of {numbers.short(who.selected)}",
        numbers.short(found.server.updates_per_h),
        numbers.with_range(found.usd.total),
        numbers.NOT_APPLICABLE if found.accuracy is None else numbers.seconds(found.accuracy.seconds),
    )


def _traffic_row(variant: FederatedVariant) -> tuple[str, ...]:
    found = variant.federated
    who = found.participation
    return (
        variant.name,
        f"{numbers.short(who.left)} / {numbers.short(who.late)}",
        size_words(found.traffic.client_up_bytes),
        size_words(found.traffic.up_bytes),
        numbers.percent(found.traffic.wasted_share),
        numbers.short(found.joules.total.typical / 1e3),
    )


def _biases(variant: FederatedVariant, names: Sequence[str]) -> list[float | None]:
    """Biases of groups by name; None if a variant has no such group."""
    known = {row.name: row.bias for row in variant.federated.participation.groups}
    return [known.get(name) for name in names]


def _verdict(result: Result) -> str:
    """How long a round is, or which variant uses most updates an hour."""
    rounds = result.of(FederatedVariant)
    rate = {one.name: one.federated.server.updates_per_h for one in rounds}
    best, worst = max(rate, key=lambda name: rate[name]), min(rate, key=lambda name: rate[name])
    if len(rounds) == 1:
        mean = numbers.seconds(rounds[0].federated.round_s.mean)
        return f"A round takes {mean} on average; {first_words(rounds[0].federated.causes, 'round')}."
    return f"{quoted(best)} uses {rate[best] / rate[worst]:.3g} times as many updates an hour as {quoted(worst)}."


def _why(result: Result) -> list[str]:
    """What most of a round of each variant is, where there are several."""
    rounds = result.of(FederatedVariant)
    if len(rounds) == 1:
        return []
    return [f"{quoted(one.name)}: {first_words(one.federated.causes, 'round')}." for one in rounds[:DETAILED]]


def _card(result: Result, report: Path | None) -> str:
    """One line per variant, and the path of the report."""
    figures = [one.federated for one in result.of(FederatedVariant)]
    lines = [f"{one.unit} {numbers.seconds(one.round_s.mean)}, {causes_words(one.causes)}" for one in figures]
    return card_of(result, report, lines)


_TABLES = tables_of(
    "clients",
    "each device, link and region: population, there, selected, heard, bias",
    lambda found: found["participation"]["groups"],
)
presentations.add("federated", Presentation(_verdict, _sheets, _why, _card, details=_details, tables=_TABLES))
