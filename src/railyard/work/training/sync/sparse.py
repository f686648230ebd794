"""Sparse updates: only rows that a batch has touched are sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from railyard.kit.registry import Registry
from railyard.kit.schema.bounds import SHARE, bounded
from railyard.work.training.sync.published import Finding


class Sparse(Protocol):
    """Which gradients are sent as rows; a frozen dataclass whose fields are its keys in a scenario.

    Attributes:
        kind: Its name.
        published: What its papers report about convergence.
    """

    kind: ClassVar[str]
    published: ClassVar[tuple[Finding, ...]]

    def rows(self, tokens: float, vocab: float) -> float:
        """Rows of the table that one rank's tokens touch in a step."""


sparsities: Registry[type[Sparse]] = Registry("sparse update")


@dataclass(frozen=True)
class SparseEmbedding:
    """Rows of the input embedding: each rank sends those of its own tokens, with their numbers, to all.

    Parallax (Kim et al. 2019, arXiv 1808.02621) and Horovod's sparse path. What ranks send is gathered, so bytes grow
    with ranks; it pays while ranks x touched rows stay below twice the table.

    Attributes:
        touched: Share of the table that a rank's tokens touch; 0 takes the most that so many tokens can touch.
    """

    kind: ClassVar[str] = "embedding"
    published: ClassVar[tuple[Finding, ...]] = (
        Finding(
            "none: the sum of the gradients is the same",
            "rows that no token touched have no gradient",
            "Kim et al. 2019 (Parallax), arXiv 1808.02621",
        ),
    )

    touched: float = field(default=0.0, metadata=bounded(SHARE))

    def rows(self, tokens: float, vocab: float) -> float:
        """The given share, or one row a token: text repeats tokens, so this is the most that it can be."""
        return self.touched * vocab if self.touched else min(tokens, vocab)


sparsities.add(SparseEmbedding.kind, SparseEmbedding)
