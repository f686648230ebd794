"""Prints how well each operator's collective logs are predicted by constants fitted without them.

python validation/tools/collectives_left_out.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from railyard import catalog
from railyard_validation.collectives.compare import spread
from railyard_validation.collectives.left_out import left_out

if TYPE_CHECKING:
    from collections.abc import Iterable

    from railyard_validation.collectives.compare import CollectiveResult


def cells(rows: Iterable[CollectiveResult]) -> list[str]:
    """Median and 90th percentile from 1 MiB, median below."""
    rows = list(rows)
    large = spread([row.error for row in rows if row.error is not None and row.error_of == "busbw"])
    small = spread([row.error for row in rows if row.error is not None and row.error_of == "time"])
    values = (large.median_abs_error, large.p90_abs_error, small.median_abs_error)
    return ["-" if value is None else f"{100 * value:.1f} %" for value in values]


def main() -> None:
    """The table, one line an operator, and what was fitted."""
    everything: list[CollectiveResult] = []
    before: list[CollectiveResult] = []
    notes = []
    print("| operator | logs | busbw, median | p90 | time, median | left out: busbw, median | p90 | time, median |")
    print("|---|---|---|---|---|---|---|---|")
    for one in left_out(Path(sys.argv[1]), catalog.load()):
        everything += one.rows
        before += one.before
        print("| " + " | ".join([one.operator, str(one.logs), *cells(one.before), *cells(one.rows)]) + " |", flush=True)
        fitted = ", ".join(f"{name} {value:.4g}" for name, value in one.fitted.items())
        notes.append(f"{one.operator}: {fitted}; priors kept: {', '.join(one.kept) or 'none'}")
    print("| " + " | ".join(["all", "", *cells(before), *cells(everything)]) + " |")
    print("\n" + "\n".join(notes))


if __name__ == "__main__":
    main()
