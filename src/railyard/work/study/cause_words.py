"""Common text of results for distributed work: causes of a time, spreads, bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.measure import numbers
from railyard.work.study.presentation import ResultTable, Sheet, nested_columns, settings_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from railyard.measure.result.distributed import CauseRow, SpreadRow
    from railyard.measure.result.reading import Result, Variant
    from railyard.work.study.presentation import Row

_LEAST_SEEN = 0.005
DETAILED = 2
"""Maximum number of variants for which groups, sites and exchanges are also shown."""


def two_words(spread: SpreadRow) -> str:
    """`12.3 s / 45.6 s`: median and 99th percentile."""
    return f"{numbers.seconds(spread.p50)} / {numbers.seconds(spread.p99)}"


def matrix(title: str, rows: Sequence[tuple[str, Sequence[CauseRow]]]) -> Sheet:
    """Seconds by cause, one row each; causes that are never more than 0.5 % are left out."""
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


def size_words(size_bytes: float) -> str:
    """Bytes in a suitable unit, three digits."""
    for scale, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size_bytes >= scale:
            return f"{numbers.short(size_bytes / scale)} {unit}"
    return f"{numbers.short(size_bytes)} B"


def causes_words(rows: Sequence[CauseRow]) -> str:
    """`uplink 12.3 s, stragglers: uplink 4.5 s`; causes below 0.5 % are left out."""
    seen = [f"{row.name} {numbers.seconds(row.seconds)}" for row in rows if abs(row.share) >= _LEAST_SEEN]
    return ", ".join(seen)


def first_words(causes: Sequence[CauseRow], unit: str) -> str:
    """`most of a round is uplink, 61.2 %`."""
    most = max(causes, key=lambda row: row.seconds)
    return f"most of a {unit} is {most.name}, {numbers.percent(most.share)}"


def card_of(result: Result, report: Path | None, lines: Sequence[str]) -> str:
    """One line per variant, and the path of the report."""
    many = len(result.variants)
    head = f"{result.name}: {many} variant{'s' if many > 1 else ''}"
    named = [f"{one.name}: {line}" for one, line in zip(result.variants, lines, strict=True)]
    return "\n".join([head, *named, f"report      {report if report is not None else 'not written'}"])


def _plain_rows(rows: Iterable[Row]) -> list[Row]:
    found = (nested_columns(row) for row in rows)
    return [{key: value for key, value in row.items() if not isinstance(value, list | tuple)} for row in found]


def _causes(variant: Variant) -> list[Row]:
    found = variant[variant.kind]
    rows = [{"place": row["name"]} | cause for row in found.get("places", ()) for cause in row["causes"]]
    return rows or list(found["causes"])


def tables_of(name: str, about: str, rows: Callable[[Any], Iterable[Row]]) -> dict[str, ResultTable]:
    """Tables of distributed work: its figures, the causes of its time, and one more.

    Args:
        name: Of the further table.
        about: Its contents.
        rows: Its rows, given the figures of a variant.
    """
    return {
        "variants": ResultTable(
            "one row a variant: the figures to compare",
            lambda one: [settings_row(one) | row for row in _plain_rows([one[one.kind]])],
        ),
        "time": ResultTable("where the time goes, by cause", _causes),
        name: ResultTable(about, lambda one: _plain_rows(rows(one[one.kind]))),
    }
