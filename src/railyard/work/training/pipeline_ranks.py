"""What the first, the fullest middle and the last pipeline rank hold, as columns: layers and parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.model.columns import table_of
from railyard.work.training import parameters
from railyard.work.training.lora import adapters_of_layer
from railyard.work.training.stages import StageCounts, rank_stages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.model.columns import F
    from railyard.work.training.columns import Columns
    from railyard.work.training.spec import Training


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
        model, layout = training.model, training.layout
        return cls.of_table(np.array([[1.0, *_contents(rank, training)] for rank in rank_stages(model, layout)]))

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
    return id(training.model), *degrees, layout.schedule == "dualpipe", training.lora


def _row(training: Training) -> list[float]:
    model, layout = training.model, training.layout
    ranks = rank_stages(model, layout)
    row: list[float] = []
    middle = max(ranks[1:-1], key=lambda rank: rank.layers, default=StageCounts(0, 0, embedding=False, head=False))
    for rank, count in ((ranks[0], len(ranks) > 1), (middle, max(0, len(ranks) - 2)), (ranks[-1], 1)):
        row += [count, *_contents(rank, training)] if count else [0.0] * _WIDTH
    dense = parameters.layer_moe_dense(model, layout) if model.experts else parameters.layer_dense(model, layout)
    return [*row, dense, parameters.layer_expert(model, layout) if model.experts else 0.0]


def _contents(rank: StageCounts, training: Training) -> list[float]:
    model, layout = training.model, training.layout
    plain = rank.layers - rank.moe_layers
    dense = plain * parameters.layer_dense(model, layout) + rank.moe_layers * parameters.layer_moe_dense(model, layout)
    dense += rank.embedding * parameters.embedding(model, layout) + rank.head * parameters.head(model, layout)
    expert = rank.moe_layers * parameters.layer_expert(model, layout)
    expert += rank.head * parameters.prediction_expert(model, layout)
    trained = [dense, expert]
    if training.lora is not None:
        fused = training.software.fused_adapters
        each = [adapters_of_layer(model, layout, training.lora, experts=kind, fused=fused) for kind in (False, True)]
        trained = [plain * each[0] + rank.moe_layers * each[1], 0.0]
    chunks = rank.first_chunk, rank.last_chunk
    return [rank.layers, rank.moe_layers, rank.embedding, rank.head, dense, expert, *trained, *chunks]
