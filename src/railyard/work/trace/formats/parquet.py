"""Task graphs that Railyard wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.work.trace.builder import Trace
from railyard.work.trace.importer import Importer, importers

if TYPE_CHECKING:
    from pathlib import Path


def read(path: Path) -> Trace:
    """The graph of a file.

    Raises:
        InputError: The file cannot be read, or is no task graph.
    """
    from railyard.graph import parquet

    graph = parquet.read_graph(path)
    return Trace(graph, np.zeros(len(graph), np.int32))


PARQUET = importers.add(
    "parquet",
    Importer(
        name="parquet",
        summary="Task graphs that Railyard wrote.",
        reader=read,
        recognizes=lambda head: head.startswith(b"PAR1"),
        suffixes=(".parquet",),
    ),
)
