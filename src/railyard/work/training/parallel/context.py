"""Context parallelism: a sequence is split over ranks, which hand their keys and values around in each layer.

Forward gathers keys and values of the whole sequence; backward gathers them again and scatters their gradients. The
ring passes one block while it computes with the block before, so most of it hides under attention.
"""

from __future__ import annotations

from railyard.graph import Stream
from railyard.work.training.parallel.inner import Inner, inners

CONTEXT = inners.add(
    "cp",
    Inner(
        group="cp",
        stream=Stream.CONTEXT,
        summary="Sequences over ranks; all-gather of keys and values in each layer, reduce-scatter of their gradients",
        source="Liu et al., Ring Attention (arXiv 2310.01889); Llama 3 (arXiv 2407.21783), section 3.3.2",
    ),
)
