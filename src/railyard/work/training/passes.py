"""Sums of operators: what one layer of each kind costs forward and backward, as columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.work.training import blocks, lora, modules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.model.columns import F
    from railyard.work.training.columns import Columns
    from railyard.work.training.operators import Operator


@dataclass(frozen=True, slots=True)
class Pass:
    """Seconds of one micro-batch on one rank, without communication.

    Attributes:
        forward, backward_input, backward_weight: On the device.
        core: The attention core's forward part.
        modules: The forward part that selective recomputation repeats: the attention core, or modules by name.
        product: Forward matrix products, attention not among them.
        last: The last of them, in front of which recomputation may stop.
        host_forward, host_backward, host_modules: What the host takes to launch the same.
        flops: FLOPs of the forward matrix products.
    """

    forward: F
    backward_input: F
    backward_weight: F
    core: F
    modules: F
    product: F
    last: F
    host_forward: F
    host_backward: F
    host_modules: F
    flops: F

    def __add__(self, other: Pass) -> Pass:
        return Pass(*(getattr(self, name) + getattr(other, name) for name in Pass.__slots__))

    def times(self, count: F | float) -> Pass:
        """The same `count` times."""
        return Pass(*(getattr(self, name) * count for name in Pass.__slots__))

    def paced(self, pace: F) -> Pass:
        """The same work, taking so many times as long."""
        return replace(self.times(pace), flops=self.flops)


@dataclass(frozen=True, slots=True)
class LayerPasses:
    """Passes of the parts of a model: attention of any layer, MLP of a dense and of an expert layer, the ends."""

    attention: Pass
    mlp: Pass
    experts: Pass
    embedding: Pass
    head: Pass
    prediction: Pass

    def layers(self, layers: F | float, moe_layers: F | float) -> Pass:
        """So many layers, of which so many with experts."""
        dense = np.asarray(layers) - moe_layers
        return self.attention.times(layers) + self.mlp.times(dense) + self.experts.times(moe_layers)

    def stage(self, layers: F | float, moe_layers: F | float, embedding: F | float, head: F | float) -> Pass:
        """What a stage holds; the multi-token-prediction layers go with the head."""
        ends = self.embedding.times(embedding) + (self.head + self.prediction).times(head)
        return self.layers(layers, moe_layers) + ends


def layer_passes(columns: Columns) -> LayerPasses:
    """Passes of every part of the model, of each design."""
    host = columns.software.layer_host_s
    attention = _total(columns, blocks.attention_block(columns), "attention", host / 2.0)
    mlp = _total(columns, blocks.mlp_block(columns), "mlp", host / 2.0).times(columns.model.dense)
    has_experts = np.where(columns.model.experts > 0, 1.0, 0.0)
    experts = _total(columns, blocks.moe_block(columns), "experts", host / 2.0).times(has_experts)
    zero = np.zeros_like(host)
    head = _total(columns, blocks.head(columns), "", zero)
    joint = _total(columns, blocks.prediction_joint(columns), "", zero)
    last = experts + mlp.times(1.0 - has_experts)
    return LayerPasses(
        attention=attention,
        mlp=mlp,
        experts=experts,
        embedding=_total(columns, blocks.embedding(columns), "", zero),
        head=head,
        prediction=(attention + last + joint + head).times(columns.model.mtp),
    )


def _total(columns: Columns, every: Sequence[Operator], block: str, host: F) -> Pass:
    operators = lora.frozen(columns, every)

    def sum_of(name: str) -> F:
        total: F = np.sum([getattr(operator, name) for operator in operators], axis=0, dtype=np.float64)
        return total

    launch = columns.software.launch_s
    cores = [operator for operator in operators if operator.core]
    products = [
        operator
        for operator, plain in zip(operators, every, strict=True)
        if not operator.core and np.any(plain.backward_weight > 0)
    ]
    zero = np.zeros_like(launch)

    def forward_of(some: Sequence[Operator]) -> F:
        return sum((operator.forward for operator in some), zero)

    shares = [modules.again(columns, operator) for operator in operators]
    free = [modules.launched(columns, operator, block) for operator in operators]
    repeated, host_repeated, forward, backward = (zero + 0.0 for _ in range(4))
    for operator, share, left in zip(operators, shares, free, strict=True):
        repeated = repeated + share * operator.forward
        host_repeated = host_repeated + share * left * launch * operator.launches
        forward = forward + left * operator.launches
        backward = backward + left * operator.launches_backward
    if block == "experts":
        host = host + columns.software.expert_host_s * modules.eager(columns)
    split = np.where(columns.layout.overlap_expert > 0, columns.software.overlap_host, 1.0) if block else 1.0
    return Pass(
        forward=sum_of("forward"),
        backward_input=sum_of("backward_input"),
        backward_weight=sum_of("backward_weight"),
        core=forward_of(cores),
        modules=repeated,
        product=forward_of(products),
        last=forward_of([operator for operator in products if operator.last]),
        host_forward=split * (launch * forward + host),
        host_backward=split * (launch * backward + host),
        host_modules=host_repeated + modules.checkpoint_s(columns, block),
        flops=sum_of("flops"),
    ).paced(columns.job.pace)
