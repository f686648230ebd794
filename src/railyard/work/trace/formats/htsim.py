"""Connection matrices of htsim: flows between hosts, and links that fail."""

from __future__ import annotations

from railyard.work.trace.importer import Importer, first_word, importers

_WORDS = frozenset({"Nodes", "Connections", "Triggers", "Failures"})

HTSIM = importers.add(
    "htsim",
    Importer(
        name="htsim",
        summary="Connection matrices of htsim: flows between hosts, and links that fail.",
        reader="railyard.work.trace.htsim_matrix",
        recognizes=lambda head: first_word(head) in _WORDS or "->" in first_word(head),
        suffixes=(".cm", ".tm"),
        options=("start_unit", "recv_done_trigger"),
    ),
)
