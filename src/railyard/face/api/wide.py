"""Work outside one hall in words: rounds on clients, sites that meet, answers near the user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.face.api.operated import Sheet
from railyard.kit.quantities import format_rate
from railyard.measure import numbers
from railyard.measure.result.variants import EdgeVariant, FederatedVariant, LocalVariant

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from railyard.measure.result.distributed import CauseRow, PlaceRow, SpreadRow
    from railyard.measure.result.reading import Result

_LEAST_SEEN = 0.005
_DETAILED = 2
"""Variants up to which groups, sites, exchanges are shown too."""


def are_wide(result: Result) -> bool:
    """Whether a result is of work outside one hall."""
    return len(result.wide) == len(result.variants)


def sheets(result: Result) -> Iterator[Sheet]:
    """The tables of a result, the comparison first."""
    federated = [one for one in result.wide if isinstance(one, FederatedVariant)]
    local = [one for one in result.wide if isinstance(one, LocalVariant)]
    edge = [one for one in result.wide if isinstance(one, EdgeVariant)]
    if federated:
        yield from _of_clients(federated)
    if local:
        yield from _of_sites(local)
    if edge:
        yield from _of_places(edge)


_CLIENTS = (
    "variant",
    "round mean",
    "p50 / p99",
    "heard of selected",
    "left / late",
    "up a client",
    "up a round",
    "wasted",
    "updates/h",
    "kJ a round",
    "$ a round low/typ/high",
    "to accuracy",
)


def _of_clients(variants: Sequence[FederatedVariant]) -> Iterator[Sheet]:
    yield Sheet(_CLIENTS, [_clients_row(one) for one in variants])
    yield _matrix("of a mean round", [(one.name, one.federated.causes) for one in variants])
    yield from _of_shared(variants)
    if len(variants) > _DETAILED:
        names = [row.name for row in variants[0].federated.participation.groups]
        rows = [(one.name, *(numbers.short(bias) for bias in _biases(one, names))) for one in variants]
        yield Sheet(("heard over population (1 is fair)", *names), rows)
        return
    for one in variants:
        heads = (f"{one.name}: clients", "population", "there", "selected", "heard", "bias")
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
    """What sharing adds, by tier, where anything is shared before the server."""
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
        _two(found.round_s),
        f"{numbers.short(who.used)} of {numbers.short(who.selected)}",
        f"{numbers.short(who.left)} / {numbers.short(who.late)}",
        _size(found.traffic.client_up_bytes),
        _size(found.traffic.up_bytes),
        numbers.percent(found.traffic.wasted_share),
        numbers.short(found.server.updates_per_h),
        numbers.short(found.joules.total.typical / 1e3),
        numbers.band(found.usd.total),
        numbers.NOT_APPLICABLE if found.accuracy is None else numbers.seconds(found.accuracy.seconds),
    )


def _two(spread: SpreadRow) -> str:
    return f"{numbers.seconds(spread.p50)} / {numbers.seconds(spread.p99)}"


def _biases(variant: FederatedVariant, names: Sequence[str]) -> list[float | None]:
    """Of groups by name; None where a variant has no such group."""
    known = {row.name: row.bias for row in variant.federated.participation.groups}
    return [known.get(name) for name in names]


def _matrix(title: str, rows: Sequence[tuple[str, Sequence[CauseRow]]]) -> Sheet:
    """Seconds by cause, a row each; causes that are nowhere more than 0.5 % are left out."""
    most: dict[str, float] = {}
    for _, causes in rows:
        for cause in causes:
            most[cause.name] = max(most.get(cause.name, 0.0), abs(cause.share))
    names = [name for name in sorted(most, key=lambda name: -most[name]) if most[name] >= _LEAST_SEEN]
    cells = []
    for name, causes in rows:
        known = {cause.name: cause.seconds for cause in causes}
        cells.append((name, *(numbers.seconds(known[cause]) if cause in known else "" for cause in names)))
    return Sheet((title, *names), cells)


def _size(size_bytes: float) -> str:
    """Bytes in the unit that suits, three digits."""
    for scale, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size_bytes >= scale:
            return f"{numbers.short(size_bytes / scale)} {unit}"
    return f"{numbers.short(size_bytes)} B"


def _causes(rows: Sequence[CauseRow]) -> str:
    """`uplink 12.3 s, stragglers: uplink 4.5 s`; what is left out is less than 0.5 %."""
    seen = [f"{row.name} {numbers.seconds(row.seconds)}" for row in rows if abs(row.share) >= _LEAST_SEEN]
    return ", ".join(seen)


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
    yield _matrix("of a mean step", [(one.name, one.local.causes) for one in variants])
    if len(variants) > _DETAILED:
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
        _size(found.sent_bytes),
        format_rate(float(f"{found.mean_bps:.3g}")),
        numbers.NOT_APPLICABLE if even is None else format_rate(float(f"{even:.3g}")),
        numbers.short(found.tokens_per_s),
        numbers.NOT_APPLICABLE if found.tokens_s is None else numbers.seconds(found.tokens_s),
        numbers.short(found.joules_per_token.typical),
        numbers.band(found.cpmt.total),
    )


_PLACES = (
    "place",
    "TTFT p50 / p99",
    "last token p50 / p99",
    "in time",
    "GPUs",
    "J a request",
    "$/M requests",
    "up a request",
)


def _of_places(variants: Sequence[EdgeVariant]) -> Iterator[Sheet]:
    for one in variants:
        heads = _PLACES if len(variants) == 1 else (f"{one.name}: place", *_PLACES[1:])
        yield Sheet(heads, [_place_row(row, chosen=row.name == one.edge.choice) for row in one.edge.places])
        yield _matrix("until the last token", [(row.name, row.causes) for row in one.edge.places])
        yield from _offload(one)


def _offload(variant: EdgeVariant) -> Iterator[Sheet]:
    """Where each kind of client had best ask."""
    found = variant.edge.offload
    if found is None:
        return
    rows = [
        (f"{row.device}, {row.link}", numbers.percent(row.requests), row.place, numbers.percent(row.in_time))
        for row in found.rows
    ]
    dollars = f"{numbers.short(found.usd.typical * 1e6)} $/M requests"
    rows.append(("all", dollars, f"{numbers.short(found.joules.typical)} J each", numbers.percent(found.in_time)))
    yield Sheet(("best asked from", "requests", "at", "in time"), rows)


def _place_row(row: PlaceRow, *, chosen: bool) -> tuple[str, ...]:
    none = numbers.NOT_APPLICABLE
    return (
        f"{row.name} *" if chosen else row.name,
        none if row.ttft_s is None else _two(row.ttft_s),
        none if row.e2e_s is None else _two(row.e2e_s),
        numbers.percent(row.in_time),
        str(row.accelerators),
        none if row.joules is None else numbers.short(row.joules.typical),
        none if row.usd is None else numbers.short(row.usd.typical * 1e6),
        _size(row.up_bytes),
    )


def why(result: Result) -> str:
    """A sentence a variant, or one that contrasts the best and the worst."""
    rounds = [one for one in result.wide if isinstance(one, FederatedVariant)]
    sites = [one for one in result.wide if isinstance(one, LocalVariant)]
    places = [one for one in result.wide if isinstance(one, EdgeVariant)]
    if len(rounds) > 1:
        rate = {one.name: one.federated.server.updates_per_h for one in rounds}
        best, worst = max(rate, key=lambda name: rate[name]), min(rate, key=lambda name: rate[name])
        return f"{best} hears {rate[best] / rate[worst]:.3g} times as many updates an hour as {worst}"
    if len(sites) > 1:
        cheap, dear = (pick(sites, key=lambda one: one.local.cpmt.total.typical) for pick in (min, max))
        return (
            f"{cheap.name} costs least, ${cheap.local.cpmt.total.typical:.3g} per million tokens;"
            f" {dear.name} ${dear.local.cpmt.total.typical:.3g}, of whose time"
            f" {numbers.percent(1.0 - dear.local.compute_utilization)} is no computation"
        )
    lines = [f"{one.name}: {_first(one.federated.causes, 'round')}" for one in rounds]
    lines += [f"{one.name}: {_first(one.local.causes, 'step')}" for one in sites]
    lines += [f"{one.name}: {one.edge.reason}" for one in places]
    return "\n".join(lines)


def _first(causes: Sequence[CauseRow], unit: str) -> str:
    most = max(causes, key=lambda row: row.seconds)
    return f"most of a {unit} is {most.name}, {numbers.percent(most.share)}"


def card(result: Result, report: Path | None) -> str:
    """A line a variant, and where the report is."""
    lines = [f"{result.name}: {len(result.wide)} variant{'s' if len(result.wide) > 1 else ''}"]
    for one in result.wide:
        if isinstance(one, FederatedVariant):
            told = (
                f"{one.federated.unit} {numbers.seconds(one.federated.round_s.mean)}, {_causes(one.federated.causes)}"
            )
        elif isinstance(one, LocalVariant):
            told = (
                f"step {numbers.seconds(one.local.step_s)}, computing {numbers.percent(one.local.compute_utilization)}"
            )
        else:
            told = one.edge.reason
        lines.append(f"{one.name}: {told}")
    return "\n".join([*lines, f"report      {report if report is not None else 'not written'}"])
