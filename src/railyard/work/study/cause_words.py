"""Common text of results for distributed work: causes of a time, spreads, bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.measure import numbers
from railyard.work.study.presentation import Sheet

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from railyard.measure.result.distributed import CauseRow, SpreadRow
    from railyard.measure.result.reading import Result

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
