"""Synthesized collectives against TE-CCL's published finishes, at the same bytes a pair of ranks.

A published finish below what any schedule takes is no competitor. Where whole epochs round away latencies that are far
shorter than an epoch, that is why; else it is not explained, and stands in a list of its own.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.synthesis.bound import lower_bound_us
from railyard.collective.synthesis.network import read_network
from railyard.collective.synthesis.search import synthesize
from railyard.kit import quantities

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from railyard.collective.synthesis.network import LinkNetwork

DATA = Path(__file__).parent / "data"
LINKS, FINISHES = DATA / "teccl_links.csv", DATA / "teccl_finish.csv"
COLLECTIVES = {"AllGather": "all-gather", "AlltoAll": "all-to-all"}
SAME = 1e-9
"""Relative difference of two times that are the same."""


@dataclass(frozen=True)
class Published:
    """The best published finish of a collective of a size.

    Attributes:
        topology, chassis: Of the table of links.
        collective: As Railyard calls it.
        size: As the table has it, of a rank.
        finish_us: From its start to the last byte.
        epoch_us: In which times are counted.
    """

    topology: str
    chassis: str
    collective: str
    size: str
    finish_us: float
    epoch_us: float

    @property
    def size_bytes(self) -> float:
        """The size in bytes; the table's KB are decimal."""
        return quantities.size(self.size.replace("KB", "kB"))


@dataclass(frozen=True)
class Row:
    """A published finish and ours.

    Attributes:
        topology, chassis, collective, size: Which.
        pair_bytes: Of the size, for each pair of ranks.
        published_us: Finish.
        finish_us: Ours.
        lower_bound_us: What no schedule beats.
        rates_us: The same if latencies were nothing.
        epoch_us: In which the published times are counted.
        sound: Whether the symbolic run of ours is without a fault.
    """

    topology: str
    chassis: str
    collective: str
    size: str
    pair_bytes: float
    published_us: float
    finish_us: float
    lower_bound_us: float
    rates_us: float
    epoch_us: float
    sound: bool

    @property
    def group(self) -> str:
        """`compared`; `rounded`: below the bound by latencies that its epochs round away; `unexplained`: below it."""
        if self.published_us >= self.lower_bound_us * (1 - SAME):
            return "compared"
        late = self.lower_bound_us - self.rates_us
        rounded = late < self.epoch_us / 2 and self.published_us >= self.rates_us * (1 - SAME)
        return "rounded" if rounded else "unexplained"


def published() -> list[Published]:
    """The best finish of each collective and size, over the ways to choose epochs."""
    best: dict[tuple[str, ...], Published] = {}
    for row in csv.DictReader(FINISHES.read_text(encoding="utf-8").splitlines()):
        key = row["topology"], row["chassis"], COLLECTIVES[row["collective"]], row["size"]
        found = Published(*key, float(row["finish_us"]), float(row["epoch_us"]))
        if key not in best or found.finish_us < best[key].finish_us:
            best[key] = found
    order = sorted(best, key=lambda key: (key[:3], best[key].size_bytes))
    return [best[key] for key in order]


def compared(rows: Sequence[Published], progress: Callable[[str, float], None] | None = None) -> list[Row]:
    """Our schedule, and the bound, of each.

    Args:
        rows: What was published.
        progress: Called with what is done and its share.
    """
    out = []
    for number, one in enumerate(rows):
        if progress is not None:
            progress(f"{one.topology} {one.collective}", number / len(rows))
        network = read_network(LINKS, topology=one.topology, chassis=one.chassis)
        out.append(_row(network, one))
    return out


def _row(network: LinkNetwork, one: Published) -> Row:
    size = one.size_bytes
    found = synthesize(network, one.collective, size)
    at_once = replace(network, latency_us=np.zeros_like(network.latency_us))
    return Row(
        one.topology,
        one.chassis,
        one.collective,
        one.size,
        size / len(network.ranks),
        one.finish_us,
        found.finish_us,
        found.lower_bound_us,
        lower_bound_us(at_once, one.collective, size),
        one.epoch_us,
        not found.faults(),
    )
