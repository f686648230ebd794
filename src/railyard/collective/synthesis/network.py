"""Directed links between ranks and switches, and the table that they are read from."""

from __future__ import annotations

import csv
import io
import math
import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from railyard.errors import InputError, did_you_mean
from railyard.files import read_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

_COLUMNS = ("source", "destination", "gb_per_s", "latency_us")
_FILTERS = ("topology", "chassis")
_MOST_NODES = 100_000
_LONELY = 3
"""So many nodes that can send to nobody else make the one that they send to a switch."""


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
        path: CSV; it may hold several networks, told apart by columns `topology` and `chassis`.
        topology: Which; None: there is one.
        chassis: Which; None: there is one.
        switches: Nodes that are switches; None: those that look like it.

    Raises:
        InputError: Names file, line and column of what is wrong.
    """
    text = read_text(path)
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error as error:
        raise InputError("the table cannot be read", file=str(path), found=str(error)) from error
    table = _Table.of(rows, str(path))
    kept = table.chosen({"topology": topology, "chassis": chassis})
    links = [table.link(line) for line in kept]
    return build(links, switches, str(path))


@dataclass(frozen=True)
class _Table:
    rows: list[list[str]]
    columns: dict[str, int]
    file: str

    @staticmethod
    def of(rows: list[list[str]], file: str) -> _Table:
        if not rows or not rows[0]:
            raise InputError("the table is empty", file=file, allowed=", ".join(_COLUMNS))
        heading = [cell.strip() for cell in rows[0]]
        allowed = (*_FILTERS, *_COLUMNS)
        for word in heading:
            if word not in allowed:
                raise InputError(
                    f"there is no column `{word}`", file=file, line=1, allowed=allowed, hint=did_you_mean(word, allowed)
                )
        missing = next((name for name in _COLUMNS if name not in heading), None)
        if missing:
            raise InputError(f"the column `{missing}` is missing", file=file, line=1, allowed=_COLUMNS)
        return _Table(rows, {name: heading.index(name) for name in heading}, file)

    def chosen(self, wanted: dict[str, str | None]) -> list[int]:
        """Lines of one network."""
        lines = [line for line in range(2, len(self.rows) + 1) if any(cell.strip() for cell in self.rows[line - 1])]
        for name, value in wanted.items():
            if name not in self.columns:
                if value is not None:
                    raise InputError(f"the table has no column `{name}` to choose by", file=self.file, found=value)
                continue
            there = list(dict.fromkeys(self.cell(line, name) for line in lines))
            if value is None and len(there) > 1:
                raise InputError(f"the table holds several networks: which {name}?", file=self.file, allowed=there)
            if value is not None and value not in there:
                raise InputError(
                    f"there is no {name} `{value}`", file=self.file, allowed=there, hint=did_you_mean(value, there)
                )
            lines = [line for line in lines if value is None or self.cell(line, name) == value]
        if not lines:
            raise InputError("the table has no link", file=self.file)
        return lines

    def cell(self, line: int, name: str) -> str:
        row, at = self.rows[line - 1], self.columns[name]
        return row[at].strip() if at < len(row) else ""

    def link(self, line: int) -> tuple[int, int, float, float]:
        ends = [self._node(line, name) for name in ("source", "destination")]
        if any(cell.strip() for cell in self.rows[line - 1][len(self.columns) :]):
            raise InputError(
                "the row has more cells than the heading",
                file=self.file,
                line=line,
                found=",".join(self.rows[line - 1])[:80],
                allowed=", ".join(self.columns),
            )
        if ends[0] == ends[1]:
            raise InputError("a link leads from a node to itself", file=self.file, line=line, found=str(ends[0]))
        return ends[0], ends[1], self._number(line, "gb_per_s", 1e-9), self._number(line, "latency_us", 0.0)

    def _node(self, line: int, name: str) -> int:
        text = self.cell(line, name)
        if not re.fullmatch("[0-9]{1,9}", text) or int(text) >= _MOST_NODES:
            raise InputError(
                f"expected an integer, got `{text[:40]}`", file=self.file, line=line, key=name, allowed="0 to 99999"
            )
        return int(text)

    def _number(self, line: int, name: str, least: float) -> float:
        text = self.cell(line, name)
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value < 1e9:
            raise InputError(
                f"expected a number, got `{text[:40]}`",
                file=self.file,
                line=line,
                key=name,
                allowed=f"{least:g} or more, below 1e9",
            )
        return value


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
