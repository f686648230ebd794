"""Traces that ui.perfetto.dev and chrome://tracing open."""

from railyard.graph import perfetto
from railyard.graph.exporters import Exporter, exporters

PERFETTO = exporters.add(
    "perfetto",
    Exporter(
        name="perfetto",
        summary="A trace for ui.perfetto.dev and chrome://tracing, compressed.",
        suffix=".json.gz",
        write=perfetto.write,
    ),
)
