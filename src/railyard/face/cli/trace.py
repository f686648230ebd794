"""`railyard trace`: what is in a trace of requests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from railyard.face.cli.tables import Table, emit
from railyard.work.serving.summary import summarize
from railyard.work.serving.traces import read_trace

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.work.serving.summary import Lengths, Summary


def trace(file: Path, *, name: str | None, sort: bool, drop_empty: bool, as_json: bool) -> None:
    """Prints rate, lengths, burstiness and shared prefixes of a trace.

    Raises:
        InputError: The file is no trace, or a row of it is wrong.
    """
    summary = summarize(read_trace(file, name, sort=sort, empty="drop" if drop_empty else "refuse"))
    if as_json:
        emit(json.dumps(summary.to_json(), indent=2, ensure_ascii=False, allow_nan=False))
        return
    emit(f"{summary.source}: {summary.requests:,} requests in {_span(summary.duration_s)}")
    emit("")
    table = Table(["what", "value", "what it means"], right=[1])
    for row in [*_rate(summary), *_prefixes(summary), *_classes(summary)]:
        table.add(*row)
    table.print()
    emit("")
    lengths = Table(["tokens", "mean", "p50", "p90", "p99", "largest"], right=[1, 2, 3, 4, 5])
    for what, lengths_of in (("input", summary.input_tokens), ("output", summary.output_tokens)):
        if lengths_of is not None:
            lengths.add(what, *_cells(lengths_of))
    lengths.print()


def _rate(summary: Summary) -> list[tuple[str, str, str]]:
    rows = [
        ("rate", f"{summary.rate_per_s:.3g} /s", "mean arrivals"),
        ("peak", f"{summary.peak_rate_per_s:.3g} /s", "the busiest 10 s"),
    ]
    if summary.gap_cv is not None:
        rows.append(("variation of gaps", f"{summary.gap_cv:.2f}", "Poisson 1, bursts more"))
    for window, index in summary.dispersion.items():
        lag = summary.autocorrelation[window]
        rows.append((f"dispersion in {window:g} s", f"{index:.2f}", f"Poisson 1; next window correlated by {lag:.2f}"))
    return rows


def _prefixes(summary: Summary) -> list[tuple[str, str, str]]:
    rows = [("conversations", f"{summary.sessions:,}", "with an id")] if summary.sessions else []
    if summary.prefix_hit_rate is None or summary.cached_token_share is None:
        return [*rows, ("prefix hits", "unknown", "the trace has no prefixes")]
    blocks = f"of blocks of {summary.block_tokens} tokens, with a cache that never forgets"
    return [
        *rows,
        ("prefix hits", f"{summary.prefix_hit_rate:.1%}", blocks),
        ("cached tokens", f"{summary.cached_token_share:.1%}", "of all input tokens, with the same cache"),
    ]


def _classes(summary: Summary) -> list[tuple[str, str, str]]:
    if len(summary.kinds) < 2:
        return []
    return [(f"class {name}", f"{share:.1%}", "of requests") for name, share in summary.kinds.items()]


def _cells(lengths_of: Lengths) -> list[str]:
    return [
        f"{value:,.0f}" for value in (lengths_of.mean, lengths_of.p50, lengths_of.p90, lengths_of.p99, lengths_of.most)
    ]


def _span(seconds: float) -> str:
    for unit, length in (("days", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"
