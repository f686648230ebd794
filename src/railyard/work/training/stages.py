"""Layers of each virtual pipeline stage.

Virtual stage v is chunk v // pp of rank v % pp (Megatron's interleaved order). Uneven splits are legal: where the
layers do not divide, the embedding and the head count as a layer each if that makes them divide (Llama 3.1 405B: 126 +
2 on 64), else the head alone (more with prediction layers), else the stages in the middle take one layer more than the
ends, which also hold embedding and head.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from railyard.kit.errors import InputError
from railyard.model.machine import table_of
from railyard.work.training import parameters
from railyard.work.training.lora import adapters_of_layer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.catalog import Model
    from railyard.model.machine import F
    from railyard.work.training.columns import Columns
    from railyard.work.training.spec import Layout, Lora, Training


@dataclass(frozen=True, slots=True)
class VirtualStage:
    """Part of the model that one rank computes in one go.

    Attributes:
        index: In the order of the forward pass, from 0.
        chunk: Which of the stage's `vp` chunks.
        first_layer: First transformer layer, from 0.
        moe_layers: Those of them with experts.
        embedding: Whether it looks up the tokens.
        head: Whether it holds logits and loss, and the multi-token-prediction layers.
    """

    index: int
    stage: int
    chunk: int
    first_layer: int
    layers: int
    moe_layers: int
    embedding: bool
    head: bool


@dataclass(frozen=True, slots=True)
class StageCounts:
    """What one pipeline rank holds over all its chunks, and how many layers its first and its last chunk have."""

    layers: int
    moe_layers: int
    embedding: bool
    head: bool
    first_chunk: int = 0
    last_chunk: int = 0


def layer_counts(layers: int, stages: int, prediction: int = 0) -> list[int]:
    """Transformer layers of each of so many virtual stages.

    Args:
        layers: Of the model.
        stages: pp * vp.
        prediction: Multi-token-prediction layers, which stand with the head.

    Raises:
        InputError: There are more stages than layers and ends.
    """
    if stages > layers + 2:
        raise InputError(
            f"{stages} virtual pipeline stages (pp * vp) for {layers} layers leave stages empty",
            key="parallelism.pp",
            found=stages,
            allowed=f"at most {layers + 2} (embedding and head may have one of their own)",
        )
    for embedding, head in _END_WEIGHTS if prediction == 0 else _end_weights(prediction):
        each, left = divmod(layers + embedding + head, stages)
        if left == 0 and stages > 1 and each >= max(embedding, head):
            return [each - embedding, *[each] * (stages - 2), each - head]
    if stages > layers:
        return [0] * (stages - layers) + [1] * layers
    counts = [layers // stages] * stages
    middle = [*range(1, stages - 1), 0, stages - 1]
    for index in middle[: layers % stages]:
        counts[index] += 1
    return counts


# What embedding and head may weigh in layers, in the order in which they are tried.
_END_WEIGHTS = ((0, 0), (1, 1), (0, 1))


def _end_weights(prediction: int) -> tuple[tuple[int, int], ...]:
    """The same with prediction layers: each is a layer and one more pass of the head (DeepSeek-V3's own layouts)."""
    both, one = 1 + 2 * prediction, 1 + prediction
    return ((0, both), (1, one), (0, one), (1, both), (0, 0))


def virtual_stages(model: Model, layout: Layout) -> tuple[VirtualStage, ...]:
    """All virtual stages in forward order; under DualPipe those of the second copy behind them, by rank.

    Raises:
        InputError: There are more stages than layers.
    """
    total = layout.pp * layout.vp
    stages, first = [], 0
    for index, count in enumerate(layer_counts(model.layers, total, model.mtp_layers)):
        moe = sum(model.has_experts(layer) for layer in range(first, first + count))
        stages.append(
            VirtualStage(
                index=index,
                stage=index % layout.pp,
                chunk=index // layout.pp,
                first_layer=first,
                layers=count,
                moe_layers=moe,
                embedding=index == 0,
                head=index == total - 1,
            )
        )
        first += count
    if layout.schedule == "dualpipe":
        stages += [
            replace(stages[layout.pp - 1 - rank], index=layout.pp + rank, stage=rank, chunk=1)
            for rank in range(layout.pp)
        ]
    return tuple(stages)


def rank_stages(model: Model, layout: Layout) -> tuple[StageCounts, ...]:
    """What each pipeline rank holds, summed over its chunks."""
    chunks = virtual_stages(model, layout)
    return tuple(
        StageCounts(
            layers=sum(v.layers for v in chunks if v.stage == rank),
            moe_layers=sum(v.moe_layers for v in chunks if v.stage == rank),
            embedding=any(v.embedding for v in chunks if v.stage == rank),
            head=any(v.head for v in chunks if v.stage == rank),
            first_chunk=chunks[rank].layers,
            last_chunk=chunks[rank - layout.pp].layers,
        )
        for rank in range(layout.pp)
    )


_WIDTH = 11


@dataclass(frozen=True, slots=True)
class RankColumns:
    """One pipeline rank of each design; `ranks` says how many such ranks the pipeline has (0: none).

    `dense` and `expert` are parameters that it holds, `trained_dense` and `trained_expert` those that it trains;
    `first_chunk` and `last_chunk` the layers of its first and its last virtual stage.
    """

    ranks: F
    layers: F
    moe_layers: F
    embedding: F
    head: F
    dense: F
    expert: F
    trained_dense: F
    trained_expert: F
    first_chunk: F
    last_chunk: F

    @classmethod
    def of(cls, training: Training) -> RankColumns:
        """Every pipeline rank of one job, in order."""
        of = training.model, training.layout
        adapters = _adapters(training)
        return cls.of_table(np.array([[1.0, *_contents(rank, *of, *adapters)] for rank in rank_stages(*of)]))

    @classmethod
    def of_table(cls, table: F) -> RankColumns:
        """Columns of a table that has them in the order of the fields."""
        return cls(*(np.ascontiguousarray(table[:, column]) for column in range(_WIDTH)))

    def of_one_batch(self, columns: Columns) -> RankColumns:
        """What a micro-batch meets on average: under DualPipe one of the two stages that a rank holds."""
        share = np.where(columns.layout.dual > 0, 0.5, 1.0)
        met = {name: getattr(self, name) * share for name in RankColumns.__slots__ if name != "ranks"}
        return RankColumns(ranks=self.ranks, **met)


@dataclass(frozen=True, slots=True)
class PipelineRanks:
    """The three kinds of pipeline rank; a pipeline of one rank is all `last`.

    `layer_dense` and `layer_expert` are the parameters of the fullest kind of transformer layer.
    """

    first: RankColumns
    middle: RankColumns
    last: RankColumns
    layer_dense: F
    layer_expert: F

    @property
    def kinds(self) -> tuple[RankColumns, RankColumns, RankColumns]:
        """First, middle, last."""
        return self.first, self.middle, self.last

    def most(self, *names: str) -> tuple[F, ...]:
        """For each column, the largest of the three kinds of stages."""
        return tuple(np.max([getattr(kind, name) for kind in self.kinds], axis=0) for name in names)

    @classmethod
    def of(cls, trainings: Sequence[Training]) -> PipelineRanks:
        """Columns of many jobs; jobs that split the same model alike are counted once."""
        table = table_of(trainings, _row, key=_split)
        first, middle, last = (RankColumns.of_table(table[:, _WIDTH * kind : _WIDTH * (kind + 1)]) for kind in range(3))
        layer_dense, layer_expert = (np.ascontiguousarray(table[:, column]) for column in (3 * _WIDTH, 3 * _WIDTH + 1))
        return cls(first, middle, last, layer_dense, layer_expert)


def _split(training: Training) -> tuple[object, ...]:
    layout = training.layout
    degrees = (layout.tp, layout.pp, layout.vp, layout.ep, layout.expert_tp)
    return id(training.model), *degrees, layout.schedule == "dualpipe", *_adapters(training)


def _adapters(training: Training) -> tuple[Lora | None, bool]:
    """The adapters of a job, and whether fused products share them."""
    return training.lora, training.lora is not None and training.software.fused_adapters


def _row(training: Training) -> tuple[float, ...]:
    return _counts(training.model, training.layout, *_adapters(training))


@lru_cache(maxsize=4096)
def _counts(model: Model, layout: Layout, lora: Lora | None, fused: bool) -> tuple[float, ...]:
    ranks = rank_stages(model, layout)
    row: list[float] = []
    middle = max(ranks[1:-1], key=lambda rank: rank.layers, default=StageCounts(0, 0, embedding=False, head=False))
    for rank, count in ((ranks[0], len(ranks) > 1), (middle, max(0, len(ranks) - 2)), (ranks[-1], 1)):
        row += [count, *_contents(rank, model, layout, lora, fused)] if count else [0.0] * _WIDTH
    dense = parameters.layer_moe_dense(model, layout) if model.experts else parameters.layer_dense(model, layout)
    return (*row, dense, parameters.layer_expert(model, layout) if model.experts else 0.0)


def _contents(rank: StageCounts, model: Model, layout: Layout, lora: Lora | None, fused: bool) -> list[float]:
    plain = rank.layers - rank.moe_layers
    dense = plain * parameters.layer_dense(model, layout) + rank.moe_layers * parameters.layer_moe_dense(model, layout)
    dense += rank.embedding * parameters.embedding(model, layout) + rank.head * parameters.head(model, layout)
    expert = rank.moe_layers * parameters.layer_expert(model, layout)
    expert += rank.head * parameters.prediction_expert(model, layout)
    trained = [dense, expert]
    if lora is not None:
        each = [adapters_of_layer(model, layout, lora, experts=kind, fused=fused) for kind in (False, True)]
        trained = [plain * each[0] + rank.moe_layers * each[1], 0.0]
    chunks = rank.first_chunk, rank.last_chunk
    return [rank.layers, rank.moe_layers, rank.embedding, rank.head, dense, expert, *trained, *chunks]
