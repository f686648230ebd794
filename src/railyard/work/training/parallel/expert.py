"""Expert parallelism: experts are spread over ranks; each layer with experts sends tokens to them and back.

Two all-to-alls (dispatch, combine) a layer forward and two backward. They are open unless the layout overlaps them with
the computation of another micro-batch, which the graph shows as the computation of the same piece.
"""

from __future__ import annotations

from railyard.graph import Stream
from railyard.work.training.parallel.inner import Inner, inners

EXPERT = inners.add(
    "ep",
    Inner(
        group="ep",
        stream=Stream.EXPERT,
        summary="Experts over ranks; all-to-all of tokens to their experts and back in each layer with experts",
        source="Lepikhin et al., GShard (arXiv 2006.16668); overlap: DeepSeek-V3 (arXiv 2412.19437), section 3.2",
    ),
)
