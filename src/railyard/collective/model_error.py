"""How far a predicted collective may be off: what logs of systems that no constant had seen showed, kind by kind.

The table beside this file is written by `validation/tools/collectives_left_out.py`: quantiles of measured over
predicted time where every constant was fitted without the operator whose machine it was.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from railyard.collective.policy import kind_word

if TYPE_CHECKING:
    from railyard.graph import CollectiveKind

MIB = 1 << 20
BELOW, FROM = "below 1 MiB", "from 1 MiB"
"""Classes of size: what sets the time below is floors, above it rates."""

ANY = "any"
"""Stands for every kind of which too few logs are known."""

LOW, HIGH = 0.1, 0.9
"""Quantiles that bound a band: eight of ten measurements lie inside."""


@dataclass(frozen=True)
class Band:
    """Where eight of ten measured times lie.

    Attributes:
        low: Least measured over predicted time.
        high: Greatest.
        rows: Measurements behind it.
        operators: Whose they are: how many.
    """

    low: float
    high: float
    rows: int
    operators: int


def band_of(kind: CollectiveKind | str, size_bytes: float) -> Band:
    """The band of a kind of collective ("all-reduce", "send-receive") at a size in bytes of nccl-tests.

    A kind that fewer than two operators measured takes the band of all kinds.
    """
    word = kind if isinstance(kind, str) else kind_word(kind)
    size = BELOW if size_bytes < MIB else FROM
    return bands().get((word, size)) or bands()[ANY, size]


@cache
def bands() -> dict[tuple[str, str], Band]:
    """By kind of collective and class of size."""
    text = resources.files(__package__).joinpath("model_error.csv").read_text("utf-8")
    return {
        (row["kind"], row["size"]): Band(float(row["low"]), float(row["high"]), int(row["rows"]), int(row["operators"]))
        for row in csv.DictReader(text.splitlines())
    }
