"""What a format of traces is: how it is recognised, its columns, and how a batch of rows becomes numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from railyard.kit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from railyard.work.serving.traces.lines import Batch, Faults


@dataclass(frozen=True)
class Rows:
    """Rows of a trace as numbers, in the order of the file.

    Attributes:
        line: Line of each row.
        time: Time in ticks of the format, whole or not.
        input_tokens: As the file has them.
        output_tokens: As the file has them; 0 has not been refused yet.
        block_counts: Hashes of each row; none where the format has no prefixes.
        block_hash: All hashes.
        session: Of each row, or none.
        kind: Name of the class of each row, or none.
        block_tokens: Tokens of a hashed block; 0 where no prefixes are known.
    """

    line: NDArray[np.int64]
    time: NDArray[Any]
    input_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    block_counts: NDArray[np.int64] | None = None
    block_hash: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))
    session: NDArray[np.int64] | None = None
    kind: list[str] | None = None
    block_tokens: int = 0


@dataclass(frozen=True)
class TraceFormat:
    """A format of traces.

    Attributes:
        title: For people.
        style: A table under a heading, or a JSON object a line.
        needed: Columns or keys without which there is no request.
        optional: Others that the format is known to have.
        ps_per_tick: Unit of its times.
        absolute: Times count from somewhere else than the start of the trace, so the first row becomes 0.
        rows: From a batch, split into cells by column, to numbers; notes what is wrong.
        source: Where the format comes from.
    """

    title: str
    style: Literal["csv", "jsonl"]
    needed: tuple[str, ...]
    optional: tuple[str, ...]
    ps_per_tick: int
    absolute: bool
    rows: Callable[[Batch, dict[str, list[Any]], Faults], Rows]
    source: str

    @property
    def columns(self) -> tuple[str, ...]:
        """All that may be there."""
        return (*self.needed, *self.optional)


FORMATS: Registry[TraceFormat] = Registry("trace format", package="railyard.work.serving.traces")
