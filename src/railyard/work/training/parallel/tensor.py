"""Tensor parallelism: the columns of a layer's matrices are split over ranks, which exchange activations in each layer.

With sequence parallelism a block (attention, MLP) gathers its input and scatters its output, forward and backward: per
layer two all-gathers and two reduce-scatters each way, and backward two more all-gathers of the inputs that the weight
gradients need. Without it: two all-reduces each way. The reductions of backward hide under the weight gradients.
"""

from __future__ import annotations

from railyard.graph import Stream
from railyard.work.training.parallel.inner import Inner, inners

TENSOR = inners.add(
    "tp",
    Inner(
        group="tp",
        stream=Stream.TENSOR,
        summary="Matrix columns over ranks; all-gather and reduce-scatter, or all-reduce, of activations in each layer",
        source="Shoeybi et al., Megatron-LM (2019); Korthikanti et al., Sequence Parallelism (arXiv 2205.05198)",
    ),
)
