"""Background traffic in words: what a job cost flows that ran at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.face.api import numbers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.measure.result.result import Result

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
    """Cells under `HEADINGS`, a row for each variant and group of flows; none where there is none."""
    for variant in result.steps:
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
