"""Flows in a table, one a line under a heading."""

from __future__ import annotations

from railyard.work.trace.importer import Importer, first_line, importers

CSV = importers.add(
    "csv",
    Importer(
        name="csv",
        summary="Flows in a table of source, target, size, start and what they wait for.",
        reader="railyard.work.trace.flows_csv",
        recognizes=lambda head: "source" in (cell.strip() for cell in first_line(head).split(",")),
        suffixes=(".csv",),
        options=("hosts",),
    ),
)
