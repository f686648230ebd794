"""Tables and text for inference near the user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.kit.prose import quoted
from railyard.measure import numbers
from railyard.measure.result.variants import EdgeVariant
from railyard.work.study.presentation import Presentation, Sheet, presentations
from railyard.work.study.result_words import card_of, matrix, size_words, tables_of, two_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from railyard.measure.result.distributed import PlaceRow
    from railyard.measure.result.reading import Result


_PLACES = (
    "place",
    "TTFT p50 / p99",
    "last token p50 / p99",
    "within bound",
    "J/request",
    "$/M requests",
)
_MORE = ("place", "GPUs", "upload per request")


def _of_places(variants: Sequence[EdgeVariant]) -> Iterator[Sheet]:
    for one in variants:
        heads = _PLACES if len(variants) == 1 else (f"{one.name}: place", *_PLACES[1:])
        yield Sheet(heads, [_place_row(row, chosen=row.name == one.edge.choice) for row in one.edge.places])


def _details(result: Result) -> Iterator[Sheet]:
    """What the time until the last token is made of, accelerators, and the best place for each kind of client."""
    for one in result.of(EdgeVariant):
        yield matrix(f"{one.name}: until the last token", [(row.name, row.causes) for row in one.edge.places])
        yield Sheet(_MORE, [(row.name, str(row.accelerators), size_words(row.up_bytes)) for row in one.edge.places])
        yield from _offload(one)


def _offload(variant: EdgeVariant) -> Iterator[Sheet]:
    """Best place for each kind of client."""
    found = variant.edge.offload
    if found is None:
        return
    rows = [
        (f"{row.device}, {row.link}", numbers.percent(row.requests), row.place, numbers.percent(row.in_time))
        for row in found.rows
    ]
    dollars = f"{numbers.short(found.usd.typical * 1e6)} $/M requests"
    rows.append(("all", dollars, f"{numbers.short(found.joules.typical)} J each", numbers.percent(found.in_time)))
    yield Sheet(("clients", "requests", "best place", "within bound"), rows)


def _place_row(row: PlaceRow, *, chosen: bool) -> tuple[str, ...]:
    none = numbers.NOT_APPLICABLE
    return (
        f"{row.name} *" if chosen else row.name,
        none if row.ttft_s is None else two_words(row.ttft_s),
        none if row.e2e_s is None else two_words(row.e2e_s),
        numbers.percent(row.in_time),
        none if row.joules is None else numbers.short(row.joules.typical),
        none if row.usd is None else numbers.short(row.usd.typical * 1e6),
    )


def _sheets(result: Result) -> Iterator[Sheet]:
    """The tables of a result, the comparison first."""
    return _of_places(result.of(EdgeVariant))


def _verdict(result: Result) -> str:
    """Where to answer, and why."""
    first = result.of(EdgeVariant)[0]
    return first.edge.reason if len(result.variants) == 1 else f"{quoted(first.name)}: {first.edge.reason}"


def _why(result: Result) -> list[str]:
    """The same of the other variants."""
    return [f"{quoted(one.name)}: {one.edge.reason}" for one in result.of(EdgeVariant)[1:]]


def _card(result: Result, report: Path | None) -> str:
    """One line per variant, and the path of the report."""
    return card_of(result, report, [one.edge.reason for one in result.of(EdgeVariant)])


_TABLES = tables_of("places", "each place that may answer", lambda found: found["places"])
presentations.add("edge", Presentation(_verdict, _sheets, _why, _card, details=_details, tables=_TABLES))
