"""How far a predicted collective may be off: what logs showed that came after all that the constants rest on.

The table next to this file is written by `validation/tools/collectives_left_out.py`: where eight of ten measured times
lie over the predicted ones, half years forecast with constants fitted to what was published before, and how far those
logs reach.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from railyard.collective.policy import kind_word

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railyard.graph import CollectiveKind


MIB = 1 << 20
BELOW, FROM = "below 1 MiB", "from 1 MiB"
"""Classes of size: what sets the time below is floors, above it rates."""

ANY = "any"
"""Stands for every kind of which too few logs are known."""


@dataclass(frozen=True)
class ModelErrorBand:
    """Band of eight of ten measured times.

    Attributes:
        low: Least measured over predicted time.
        high: Greatest.
        rows: Measurements behind it.
        operators: Whose they are: how many.
        ranks: Most ranks of one of them.
        largest_bytes: Largest size.
        algorithms: That these ran, as predicted.
        beyond: In what a collective lies beyond them, words; empty where it does not.
    """

    low: float
    high: float
    rows: int
    operators: int
    ranks: int
    largest_bytes: int
    algorithms: frozenset[str]
    architectures: frozenset[str]
    beyond: tuple[str, ...] = ()

    @property
    def scatter(self) -> float:
        """Half of its width, as a logarithm."""
        return math.log(self.high / self.low) / 2

    def widened(self, times: float, beyond: tuple[str, ...]) -> ModelErrorBand:
        """A band so many times as wide about the same middle."""
        middle = math.sqrt(self.low * self.high)
        end = math.exp(times * self.scatter)
        return replace(self, low=middle / end, high=middle * end, beyond=beyond)


OCTAVE = 0.25
"""By how much of its width a band grows for each doubling of ranks or size beyond the logs; by the split in time, as
`UNKNOWN`: so 81 % of 1,082 later rows lay inside, 74 % without either and 85 % with both twice as large, and the
interval score is lower than that of the latter."""

UNKNOWN = 0.5
"""The same for an algorithm or a generation of accelerators that no log shows."""


def band_of(
    kind: CollectiveKind | str,
    size_bytes: float,
    *,
    ranks: int = 0,
    algorithm: str = "",
    architecture: str = "",
    known: Mapping[tuple[str, str], ModelErrorBand] | None = None,
) -> ModelErrorBand:
    """The band of a collective; wider where it lies beyond what was measured.

    Args:
        kind: Or its word: "all-reduce", "send-receive". One that fewer than two operators measured takes the band of
            all kinds.
        size_bytes: As nccl-tests counts it.
        ranks: Of the communicator; 0: not known.
        algorithm: That runs; empty: not known.
        architecture: Of the accelerators; empty: not known.
        known: Bands by kind and class of size; None: those that ship.
    """
    table = bands() if known is None else known
    word = kind if isinstance(kind, str) else kind_word(kind)
    size = BELOW if size_bytes < MIB else FROM
    plain = table.get((word, size)) or table[ANY, size]
    times, beyond = 1.0, []
    for value, most, words in (
        (ranks, plain.ranks, f"{ranks} ranks, {plain.ranks} were measured"),
        (size_bytes, plain.largest_bytes, f"larger than {plain.largest_bytes / 2**30:.3g} GiB"),
    ):
        if value > most:
            times += OCTAVE * math.log2(value / most)
            beyond.append(words)
    for name, shown in ((algorithm, plain.algorithms), (architecture.lower(), table[ANY, FROM].architectures)):
        if name and name not in shown:
            times += UNKNOWN
            beyond.append(f"no log of {name}")
    return plain.widened(times, tuple(beyond)) if beyond else plain


@cache
def bands() -> dict[tuple[str, str], ModelErrorBand]:
    """Bands by kind of collective and class of size."""
    text = resources.files(__package__).joinpath("model_error.csv").read_text("utf-8")
    return {(row["kind"], row["size"]): _band(row) for row in csv.DictReader(text.splitlines())}


def _band(row: dict[str, str]) -> ModelErrorBand:
    return ModelErrorBand(
        low=float(row["low"]),
        high=float(row["high"]),
        rows=int(row["rows"]),
        operators=int(row["operators"]),
        ranks=int(row["ranks"]),
        largest_bytes=int(row["largest_bytes"]),
        algorithms=frozenset(row["algorithms"].split()),
        architectures=frozenset(row["architectures"].split()),
    )
