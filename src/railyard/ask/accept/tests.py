"""Tests of acceptance as rows: what is run, what it should give, and within which bounds it passes."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from railyard.cluster.network_table import components
from railyard.kit import table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from railyard.ask.deploy.cabling import CablingPlan
    from railyard.kit.table import TableRow


@dataclass(frozen=True)
class TestGroup:
    """Accelerators that are tested as one communicator.

    Attributes:
        scope: `node`, `rail`, `leaf`, `pod` or `all`.
        name: Of the group, as tests are called: `node3`, `be-leaf0`, `rail2`.
        local: Which accelerator of each server; -1: all.
    """

    scope: str
    name: str
    servers: tuple[int, ...]
    local: int = -1

    def ranks(self, each: int) -> NDArray[np.int32]:
        """int32[ranks], accelerators by number, of servers of so many each."""
        first = np.array(self.servers, np.int32) * each
        local = np.arange(each, dtype=np.int32) if self.local < 0 else np.array([self.local], np.int32)
        return (first[:, None] + local[None, :]).ravel()


def groups(plan: CablingPlan) -> Iterator[TestGroup]:
    """All groups; those of the same members are tested once, as the largest scope that they are."""
    servers = range(plan.devices.servers)
    everything = tuple(servers)
    seen: set[tuple[int, ...]] = set()
    if len(everything) > 1:
        seen.add(everything)
        yield TestGroup("all", "all", everything)
        yield from _rails(plan, everything)
    for scope, found in (("pod", _pods(plan)), ("leaf", _leaves(plan))):
        for name, members in found:
            if len(members) > 1 and members not in seen:
                seen.add(members)
                yield TestGroup(scope, name, members)
    yield from (TestGroup("node", plan.devices.name[one], (one,)) for one in servers)


def _rails(plan: CablingPlan, everything: tuple[int, ...]) -> Iterator[TestGroup]:
    """One accelerator a server with its NIC, where each has a NIC."""
    each = plan.cluster.ranks_per_server
    if each > 1 and plan.cluster.plans["back_end"].nics == each:
        yield from (TestGroup("rail", f"rail{local}", everything, local) for local in range(each))


def access(plan: CablingPlan) -> NDArray[np.int64]:
    """Rows of the cables of servers on the back-end."""
    rows, level = plan.cables, plan.devices.level
    mine = (rows.network == plan.networks.index("back-end")) & (rows.a < plan.devices.servers) & (level[rows.b] > 0)
    return np.flatnonzero(mine)


def _leaves(plan: CablingPlan) -> Iterable[tuple[str, tuple[int, ...]]]:
    """Servers that share all of their leaves, by the name of the first."""
    rows = access(plan)
    leaves: dict[int, set[int]] = {}
    for server, leaf in zip(plan.cables.a[rows].tolist(), plan.cables.b[rows].tolist(), strict=True):
        leaves.setdefault(server, set()).add(leaf)
    alike: dict[tuple[int, ...], list[int]] = {}
    for server in sorted(leaves):
        alike.setdefault(tuple(sorted(leaves[server])), []).append(server)
    return [(plan.devices.name[shared[0]], tuple(members)) for shared, members in alike.items()]


def _pods(plan: CablingPlan) -> Iterable[tuple[str, tuple[int, ...]]]:
    """Servers whose leaves are joined by spines, without the tier above; none where there is no such tier."""
    level = plan.devices.level
    if not (level > 2).any():
        return
    cables = plan.cables
    near = (cables.network == plan.networks.index("back-end")) & (level[cables.a] < 2) & (level[cables.b] <= 2)
    pod = components(len(plan.devices), cables.ends[near])[: plan.devices.servers]
    for number, first in enumerate(np.unique(pod).tolist()):
        yield f"pod{number}", tuple(np.flatnonzero(pod == first).tolist())


class NicEnd(NamedTuple):
    """A NIC of the back-end.

    Attributes:
        nic: Number on its server, from 0.
        row: Of the plan's cables.
    """

    leaf: int
    nic: int
    server: int
    row: int


def pairs(plan: CablingPlan) -> Iterator[tuple[NicEnd, NicEnd]]:
    """All NICs in pairs, of different servers wherever there are two; an odd one out is tested with one of another."""
    rows, cables = access(plan), plan.cables
    columns = (cables.b[rows], cables.port[rows, 0] - 1, cables.a[rows], rows)
    ends = sorted(map(NicEnd, *(column.tolist() for column in columns)))
    left: list[NicEnd] = []
    for _, below in groupby(ends, key=lambda end: end.leaf):
        rest: list[NicEnd] = []
        for end in below:
            partner = next((one for one in rest if one.server != end.server), None)
            if partner is None:
                rest.append(end)
            else:
                rest.remove(partner)
                yield partner, end
        left += rest
    for end in left:
        other = next((one for one in ends if one.server != end.server and one.nic == end.nic), None)
        if other is not None:
            yield end, other


NCCL, WRITE, BURN, CABLE, COUNTERS = "nccl-tests", "ib_write_bw", "burn-in", "cable", "counters"
METHODS = (NCCL, WRITE, BURN, CABLE, COUNTERS)

PRE_FEC, LOST, SYMBOLS = "pre-FEC BER", "codewords lost", "symbol errors a bit"
"""Units of counters: ratios, as many of one kind a bit or a codeword."""

FILE = "tests.csv"

_HEADS = (
    *("test", "scope", "method", "collective", "servers", "ranks", "size_bytes"),
    *("expected", "low", "high", "unit", "hosts", "parts"),
)


@dataclass(frozen=True, slots=True)
class ExpectedValue:
    """Expected value of one test, at one size where it has sizes.

    Attributes:
        size_bytes: Of the message as the test counts it; 0 where it has none.
        expected: In the test's unit.
    """

    size_bytes: int
    expected: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Test:
    """One test.

    Attributes:
        name: Of the test, and of the file that its result is put into.
        scope: `node`, `rail`, `leaf`, `pod`, `all`, `pair`, `server` or `cable`.
        method: One of `METHODS`.
        collective: all_reduce and so on, of nccl-tests; else empty.
        ranks: Of the communicator; 0 where there is none.
        unit: `GB/s` of nccl-tests (busbw), `Gb/s` of ib_write_bw and of cables, `faults` of burn-in,
            those of counters.
        hosts: Name of the list of servers; of one or two, their names, separated by a blank.
        parts: What it can point at: NICs, cables or servers; empty: the servers. Of counters the cable, then both ends.
        marks: What it should give, by rising size.
    """

    name: str
    scope: str
    method: str
    collective: str
    servers: int
    ranks: int
    unit: str
    hosts: str
    parts: tuple[str, ...]
    marks: tuple[ExpectedValue, ...]


def written(tests: Iterable[Test]) -> str:
    """The tests as CSV, a row a mark."""
    buffer = io.StringIO()
    rows = csv.writer(buffer, lineterminator="\n")
    rows.writerow(_HEADS)
    for one in tests:
        for mark in one.marks:
            bounds = (f"{value:.6g}" for value in (mark.expected, mark.low, mark.high))
            size = mark.size_bytes or ""
            how = (one.name, one.scope, one.method, one.collective, one.servers, one.ranks, size)
            rows.writerow((*how, *bounds, one.unit, one.hosts, " ".join(one.parts)))
    return buffer.getvalue()


def read(path: Path) -> list[Test]:
    """Tests that `written` wrote, perhaps with bounds that were changed by hand.

    Raises:
        InputError: It is no such file, or a bound is no number.
    """
    by_name: dict[str, tuple[TableRow, list[ExpectedValue]]] = {}
    for row in table.read(path, *_HEADS):
        first, marks = by_name.setdefault(row["test"], (row, []))
        if any(row[key] != first[key] for key in ("scope", "method", "collective", "unit")):
            raise row.wrong("test", f"two tests are called `{row['test']}`")
        marks.append(_mark(row))
    return [
        Test(
            **{key: row[key] for key in ("scope", "method", "collective", "unit", "hosts")},
            name=name,
            servers=_count(row, "servers"),
            ranks=_count(row, "ranks"),
            parts=tuple(row["parts"].split()),
            marks=tuple(sorted(marks, key=lambda mark: mark.size_bytes)),
        )
        for name, (row, marks) in by_name.items()
    ]


def _count(row: TableRow, key: str) -> int:
    return row.integer(key, low=0) if row[key] else 0


def _mark(row: TableRow) -> ExpectedValue:
    for key in ("servers", "ranks"):
        _count(row, key)
    expected, low, high = (row.number(key, low=0) for key in ("expected", "low", "high"))
    if low > high:
        raise row.wrong("low", "the lower bound is above the upper one")
    row.one_of("method", METHODS)
    return ExpectedValue(_count(row, "size_bytes"), expected, low, high)


def size_words(size_bytes: int) -> str:
    """A size of a message, as `16 MiB`."""
    power, unit = next(
        one for one in ((30, "GiB"), (20, "MiB"), (10, "KiB"), (0, "B")) if size_bytes >> one[0] or not one[0]
    )
    return f"{size_bytes / (1 << power):g} {unit}"
