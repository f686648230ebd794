"""Directed links between ranks and switches, and the table that they are read from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from railyard.kit import table
from railyard.kit.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray


DEFINITIONS = {
    "all-gather": "bytes that each rank has in the end; it brings 1/N of them, which every other rank gets",
    "reduce-scatter": "bytes that each rank brings; it keeps the sum of 1/N of them",
    "all-reduce": "bytes that each rank brings, and has the sum of in the end",
    "all-to-all": "bytes that each rank sends, its own part included; each pair of ranks has 1/N of them",
}
"""Buffer sizes for N ranks, as nccl-tests counts: the larger of the buffers of a rank."""
UNEVEN = "bytes of all pairs together, as the matrix has them; a pair is the heaviest"


@dataclass(frozen=True)
class SizeMeaning:
    """A size, and what it is for a pair and for all ranks.

    Attributes:
        definition: What it counts.
        per_pair_bytes: Of it, what a rank has for (or gets from) each other rank.
        total_bytes: What all ranks bring together.
    """

    bytes: float
    definition: str
    ranks: int
    per_pair_bytes: float
    total_bytes: float

    @classmethod
    def of(cls, collective: str, size_bytes: float, ranks: int) -> SizeMeaning:
        """Meaning of a size, in bytes of a rank."""
        total = size_bytes * (1 if collective == "all-gather" else ranks)
        return cls(size_bytes, DEFINITIONS[collective], ranks, size_bytes / ranks, total)

    @classmethod
    def of_matrix(cls, matrix: NDArray[np.float64]) -> SizeMeaning:
        """Meaning of a matrix of bytes from rank to rank."""
        total = float(matrix.sum())
        return cls(total, UNEVEN, len(matrix), float(matrix.max()), total)


_COLUMNS = ("source", "destination", "gb_per_s", "latency_us")
_FILTERS = ("topology", "chassis")
_MOST_NODES = 100_000
_LONELY = 3
"""Number of nodes with one common target and no other that makes the target a switch."""


@dataclass(frozen=True, eq=False)
class LinkNetwork:
    """A network of directed links.

    Attributes:
        source: int32[links].
        target: int32[links].
        bytes_per_us: float64[links], the rate of each link (1 GB/s = 1,000 bytes in a microsecond).
        latency_us: float64[links], one way.
        switch: bool[nodes], nodes that pass on what they get and hold no data of theirs.
        packets: Whether switches pass on packets: at once, each to one next node. Else they pass on pieces, once these
            are there, to as many nodes as want them.
        rail: int64[links], of links between a rank and a switch the rail of that port: what leaves a rank by one rail
            arrives by the same; -1: any. None: there are no rails.
    """

    source: NDArray[np.int32]
    target: NDArray[np.int32]
    bytes_per_us: NDArray[np.float64]
    latency_us: NDArray[np.float64]
    switch: NDArray[np.bool_]
    packets: bool = False
    rail: NDArray[np.int64] | None = None

    @property
    def nodes(self) -> int:
        """Ranks and switches."""
        return len(self.switch)

    @cached_property
    def ranks(self) -> list[int]:
        """Nodes that are ranks, in order."""
        return [int(node) for node in np.flatnonzero(~self.switch)]

    @cached_property
    def out(self) -> list[list[int]]:
        """Links that leave each node."""
        found: list[list[int]] = [[] for _ in range(self.nodes)]
        for link, node in enumerate(self.source.tolist()):
            found[node].append(link)
        return found

    def reversed(self) -> LinkNetwork:
        """The same with every link the other direction."""
        return replace(self, source=self.target, target=self.source)


def switches_of(source: Sequence[int], target: Sequence[int], nodes: int) -> list[int]:
    """Nodes that look like switches where a table does not say which are.

    One to which three nodes or more have their only link; and one that gets from three or more and sends to three or
    more, none of which is both: no rank hands on to others what it never answers.
    """
    goes: list[set[int]] = [set() for _ in range(nodes)]
    comes: list[set[int]] = [set() for _ in range(nodes)]
    for a, b in zip(source, target, strict=True):
        goes[a].add(b)
        comes[b].add(a)
    found = []
    for node in range(nodes):
        lonely = sum(goes[other] == {node} for other in comes[node])
        passing = not comes[node] & goes[node] and min(len(comes[node]), len(goes[node])) >= _LONELY
        if lonely >= _LONELY or passing:
            found.append(node)
    return found


def read_network(
    path: Path, *, topology: str | None = None, chassis: str | None = None, switches: Sequence[int] | None = None
) -> LinkNetwork:
    """A network from a table of links: source, destination, gb_per_s (decimal GB/s), latency_us.

    Args:
        path: CSV; it may hold several networks, distinguished by columns `topology` and `chassis`.
        topology: Which; None: there is one.
        chassis: Which; None: there is one.
        switches: Nodes that are switches; None: those that look like it.

    Raises:
        InputError: Names file, line and column of what is wrong.
    """
    read = table.read(path, *_COLUMNS, known=(*_FILTERS, *_COLUMNS))
    kept = _chosen(read, {"topology": topology, "chassis": chassis})
    links: dict[tuple[int, int], tuple[int, int, float, float]] = {}
    lines: dict[tuple[int, int], int] = {}
    for row in kept:
        link = _link(row)
        if link[:2] in links:
            raise row.wrong(
                "destination", f"two rows say the link {link[0]} to {link[1]}", hint=f"line {lines[link[:2]]} does"
            )
        links[link[:2]], lines[link[:2]] = link, row.line
    return build(list(links.values()), switches, str(path))


def _chosen(read: table.Table, wanted: dict[str, str | None]) -> list[table.TableRow]:
    """Rows of one network."""
    rows = list(read)
    for name, value in wanted.items():
        if name not in read.columns:
            if value is not None:
                raise InputError(f"the table has no column `{name}` to choose by", file=read.file, found=value)
            continue
        there = list(dict.fromkeys(row[name] for row in rows))
        if value is None and len(there) > 1:
            raise InputError(f"the table holds several networks: which {name}?", file=read.file, allowed=there)
        if value is not None and value not in there:
            raise InputError(
                f"there is no {name} `{value}`", file=read.file, allowed=there, hint=did_you_mean(value, there)
            )
        rows = [row for row in rows if value is None or row[name] == value]
    if not rows:
        raise InputError("the table has no link", file=read.file)
    return rows


def _link(row: table.TableRow) -> tuple[int, int, float, float]:
    source, target = (row.integer(name, low=0, high=_MOST_NODES - 1) for name in ("source", "destination"))
    if source == target:
        raise row.wrong("destination", "a link leads from a node to itself")
    return source, target, row.number("gb_per_s", low=1e-9, high=1e9), row.number("latency_us", low=0, high=1e9)


def build(
    links: Sequence[tuple[int, int, float, float]], switches: Sequence[int] | None, file: str = ""
) -> LinkNetwork:
    """A network of (source, destination, GB/s, latency in us) whose nodes are numbered from 0.

    Raises:
        InputError: A number is left out, a switch is no node, or a rank cannot reach another.
    """
    source, target = [link[0] for link in links], [link[1] for link in links]
    nodes = max(*source, *target) + 1
    absent = sorted(set(range(nodes)) - set(source) - set(target))
    if absent:
        raise InputError(f"no link has the node {absent[0]}", file=file or None, allowed=f"all of 0 to {nodes - 1}")
    chosen = switches_of(source, target, nodes) if switches is None else list(switches)
    wrong = next((node for node in chosen if not 0 <= node < nodes), None)
    if wrong is not None:
        raise InputError(f"there is no node {wrong}", key="--switches", found=str(wrong), allowed=f"0 to {nodes - 1}")
    mask = np.isin(np.arange(nodes), chosen)
    network = LinkNetwork(
        np.array(source, np.int32),
        np.array(target, np.int32),
        np.array([link[2] for link in links]) * 1e3,
        np.array([link[3] for link in links]),
        mask,
    )
    if len(network.ranks) < 2:
        raise InputError("a collective has at least two ranks", file=file or None, found=str(len(network.ranks)))
    return joined(network, file)


def joined(network: LinkNetwork, file: str = "") -> LinkNetwork:
    """The network itself, if every rank reaches every other.

    Raises:
        InputError: Names two that do not.
    """
    for one in (network, network.reversed()):
        seen, queue = {one.ranks[0]}, [one.ranks[0]]
        while queue:
            for link in one.out[queue.pop()]:
                if int(one.target[link]) not in seen:
                    seen.add(int(one.target[link]))
                    queue.append(int(one.target[link]))
        lost = next((rank for rank in one.ranks if rank not in seen), None)
        if lost is not None:
            pair = f"{one.ranks[0]} and {lost}"
            raise InputError(f"the ranks {pair} do not reach one another", file=file or None, found=str(lost))
    return network
