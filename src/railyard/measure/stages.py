"""Which ranks do the same work: the pipeline stages, read off the graph itself.

A wait for a rank of the same stage is lateness (straggler); a wait for another stage to compute is the pipeline's own
(bubble). Ranks that pipeline transfers connect form one pipeline; a collective that holds no two ranks of one pipeline
runs within a stage, and all ranks that such collectives connect are one stage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.graph import Kind
from railyard.measure.causes import PIPELINE_GROUP

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.graph import TaskGraph


def stages(graph: TaskGraph) -> NDArray[np.int64]:
    """int64[ranks]: ranks of one pipeline stage share a number."""
    communicators = graph.communicators
    sizes = np.diff(communicators.ptr)
    owner = np.repeat(np.arange(len(communicators), dtype=np.int64), sizes)
    pipeline = _connected(graph.ranks, *_pipeline_edges(graph))
    within = ~_holds_twice(owner, pipeline[communicators.ranks], graph.ranks, len(communicators))
    inside = within[owner]
    first = communicators.ranks[np.repeat(communicators.ptr[:-1], sizes)]
    return _connected(graph.ranks, first[inside], communicators.ranks[inside])


def _pipeline_edges(graph: TaskGraph) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    pipelined = np.array([label.group == PIPELINE_GROUP for label in graph.labels], np.bool_)
    chosen = np.flatnonzero(graph.kind == Kind.TRANSFER)
    chosen = chosen[pipelined[graph.label[chosen]]] if chosen.size else chosen
    pairs = np.unique(graph.rank[chosen].astype(np.int64) * graph.ranks + graph.peer[chosen])
    return pairs // graph.ranks, pairs % graph.ranks


def _holds_twice(
    owner: NDArray[np.int64], pipeline: NDArray[np.int64], ranks: int, communicators: int
) -> NDArray[np.bool_]:
    """Whether a communicator holds two ranks of one pipeline."""
    keys = np.sort(owner * ranks + pipeline)
    twice = np.zeros(communicators, np.bool_)
    twice[keys[1:][keys[1:] == keys[:-1]] // ranks] = True
    return twice


def _connected(nodes: int, a: NDArray[np.integer], b: NDArray[np.integer]) -> NDArray[np.int64]:
    """The smallest node of each node's component: labels spread along edges, with pointer jumping between rounds."""
    label = np.arange(nodes, dtype=np.int64)
    while True:
        least = np.minimum(label[a], label[b])
        spread = label.copy()
        np.minimum.at(spread, a, least)
        np.minimum.at(spread, b, least)
        # The component of a node's label is its own component, so its label may be taken over too.
        np.minimum.at(spread, label, spread)
        spread = spread[spread]
        if np.array_equal(spread, label):
            return label
        label = spread
