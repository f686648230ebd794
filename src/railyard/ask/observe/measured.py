"""What was read as a record: a row a kernel, times of one clock from the first of them on."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import asdict, dataclass
from math import gcd
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.observe.kernels import COMMUNICATION, PHASES
from railyard.ask.observe.reader import few
from railyard.graph import Label, Record
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    from railyard.ask.observe.gather import Gathered
    from railyard.ask.observe.kernels import Kernels
    from railyard.ask.observe.reader import Piece

    Table = dict[str, NDArray[Any]]


Ends = dict[tuple[int, int, int], int]
"""Ends of a rank's communications, ns, by numbers of group and kind, and number in these."""


FAR_NS = 1_000_000_000
"""Difference of two hosts' clocks, ns; by more they are not set by the same server."""


@dataclass(frozen=True)
class RankClock:
    """The clock of a rank against that of the first.

    Attributes:
        error_ns: To within how much that is known; -1 where it is not known at all.
    """

    ahead_ns: int
    error_ns: int
    shared: int


def aligned(ends: Mapping[int, Ends]) -> dict[int, RankClock]:
    """The clock of every rank against that of the lowest, over the neighbours that share most."""
    ranks = sorted(ends)
    clocks = {ranks[0]: RankClock(0, 0, 0)} if ranks else {}
    members: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for rank in ranks:
        for key in ends[rank]:
            members[key].append(rank)
    shared = {key for key, those in members.items() if len(those) > 1}
    reached = True
    while reached:
        reached = False
        for rank in ranks:
            if rank not in clocks and (clock := _against(rank, ends, clocks, members, shared)) is not None:
                clocks[rank] = clock
                reached = True
    return {rank: clocks.get(rank, RankClock(0, -1, 0)) for rank in ranks}


def odd(clocks: Mapping[int, RankClock]) -> list[str]:
    """Ranks whose clocks are far off, or that share nothing by which they could be aligned, in words."""
    far = {rank: clock.ahead_ns for rank, clock in clocks.items() if abs(clock.ahead_ns) > FAR_NS}
    lone = [rank for rank, clock in clocks.items() if clock.error_ns < 0 and len(clocks) > 1]
    listed = [f"{rank} by {ahead / 1e9:+,.1f} s" for rank, ahead in far.items()]
    words = [f"clocks are ahead of the first rank's, and were set back: rank {few(listed)}"] if listed else []
    apart = f"no collective shared with other ranks, so clocks are not aligned: rank {few(lone)}"
    return [*words, *([apart] if lone else [])]


def _against(
    rank: int,
    ends: Mapping[int, Ends],
    clocks: Mapping[int, RankClock],
    members: Mapping[tuple[int, int, int], list[int]],
    shared: set[tuple[int, int, int]],
) -> RankClock | None:
    """The clock of a rank against the known ones; None where they share nothing."""
    found: list[int] = []
    error = 0
    for key, end in ends[rank].items():
        known = next((other for other in members[key] if other in clocks), None) if key in shared else None
        if known is not None:
            found.append(end - (ends[known][key] - clocks[known].ahead_ns))
            error = max(error, clocks[known].error_ns)
    if not found:
        return None
    low, middle, high = np.percentile(np.array(found, np.float64) - found[0], [25, 50, 75])
    return RankClock(found[0] + round(middle), error + round((high - low) / 2), len(found))


@dataclass(frozen=True)
class Launched:
    """Kernels of a rank, n of them, in any order.

    Attributes:
        code: int64[n], what each is: equal for the same kernel.
        launch: int64[n], grows in the order of launches; -1 where not known.
        start_ns: int64[n].
        marks: Number, start and end of each step that the profiler marked, ns, by start.
    """

    code: Ints
    launch: Ints
    start_ns: Ints
    marks: Sequence[tuple[int, int, int]]
    exact: bool


def steps_of(ranks: Mapping[int, Launched]) -> tuple[dict[int, NDArray[np.int32]], list[int]]:
    """By rank int32[n], the step of each kernel as a place among the numbers, -1 for none; and the numbers."""
    numbers = sorted({mark[0] for one in ranks.values() for mark in one.marks})
    if numbers:
        place = {number: at for at, number in enumerate(numbers)}
        return {rank: _marked(one, place) for rank, one in ranks.items()}, numbers
    count = _most_common([_repetitions(_ordered(one)[0]) for one in ranks.values()])
    return {rank: _cut(one, count) for rank, one in ranks.items()}, list(range(count))


def _most_common(counts: Sequence[int]) -> int:
    """The most common count; in a tie the least."""
    return min(Counter(counts).most_common(), key=lambda one: (-one[1], one[0]))[0] if counts else 1


def _ordered(one: Launched) -> tuple[Ints, Ints]:
    """int64[n], what is launched in which order, and int64[n], rows in that order."""
    known = bool((one.launch >= 0).all())
    order = np.lexsort((one.start_ns, one.launch)) if known else np.argsort(one.start_ns, kind="stable")
    return one.code[order], np.asarray(order, np.int64)


def _repetitions(code: Ints) -> int:
    """The most times that the same sequence follows itself; 1 where it does not."""
    if not len(code):
        return 1
    most = gcd(*np.unique(code, return_counts=True)[1].tolist())
    for count in range(most, 1, -1):
        if most % count == 0 and _repeats(code, count):
            return count
    return 1


def _repeats(code: Ints, count: int) -> bool:
    if len(code) % count:
        return False
    rows = code.reshape(count, -1)
    return bool((rows == rows[0]).all())


def _cut(one: Launched, count: int) -> NDArray[np.int32]:
    """Equal parts in the order of launches; a rank whose kernels do not repeat so often is in no step."""
    code, order = _ordered(one)
    step = np.full(len(code), -1, np.int32)
    if count == 1 or _repeats(code, count):
        step[order] = np.arange(len(code)) * count // max(len(code), 1)
    return step


def _marked(one: Launched, place: Mapping[int, int]) -> NDArray[np.int32]:
    """Steps by marks: by their repetition if the host's are as many, else by the last mark before each kernel."""
    if not one.marks:
        return np.full(len(one.code), -1, np.int32)
    names = np.array([place[number] for number, _, _ in one.marks], np.int32)
    if not one.exact and _repeats(_ordered(one)[0], len(one.marks)):
        return names[_cut(one, len(one.marks))]
    begins = np.array([start for _, start, _ in one.marks], np.int64)
    at = np.searchsorted(begins, one.start_ns, side="right") - 1
    return np.where(at >= 0, names[np.maximum(at, 0)], np.int32(-1)).astype(np.int32)


_READ = (
    "phase",
    "name",
    "kind",
    "group",
    "start_ns",
    "duration_ns",
    "stream",
    "launch",
    "blocks",
    "sequence",
    "size_bytes",
)
_COLUMNS = (*_READ, "number")
_LONGEST_NS = (1 << 63) // 2000
"""Longest trace in nanoseconds of which picoseconds still fit in 64 bits, with room to spare: 53 days."""


def record_of(found: Gathered) -> Record:
    """The kernels of all ranks.

    Raises:
        InputError: No trace of times was read, or its times span too long.
    """
    pieces = [piece for piece in found.pieces if piece.timed and piece.kernels]
    if not pieces:
        raise InputError("no kernel was found: there is nothing to measure", found="; ".join(found.remarks[:4]) or None)
    words = list(dict.fromkeys(word for piece in pieces for word in ("", *_of(piece).words)))
    tables = _joined(pieces, words)
    clocks = aligned({rank: _ends(table, words) for rank, table in tables.items()})
    step, numbers = _steps(tables, pieces)
    ahead = {rank: clock.ahead_ns for rank, clock in clocks.items()}
    first = _first(tables, ahead)
    begin = np.concatenate([table["start_ns"] - (ahead[rank] + first) for rank, table in tables.items()])
    rows = {name: np.concatenate([table[name] for table in tables.values()]) for name in _COLUMNS}
    labels, what = _labels(rows, words)
    who = np.repeat(np.fromiter(tables, np.int32, len(tables)), [len(table["name"]) for table in tables.values()])
    groups, communicator = _groups(rows, who, pieces, words)
    return Record(
        rows="kernels",
        who=who,
        what=what,
        start_ps=begin * 1000,
        end_ps=(begin + rows["duration_ns"]) * 1000,
        size_bytes=rows["size_bytes"],
        labels=labels,
        optional={
            "communicator": communicator,
            "sequence": rows["number"],
            "stream": rows["stream"],
            "step": step,
            "blocks": rows["blocks"],
        },
        meta={
            **_meta(found, pieces, clocks, groups),
            "steps": numbers,
            "began_ps": {
                str(piece.rank): 1000 * (piece.began_ns - ahead[_rank(piece)] - first)
                for piece in pieces
                if piece.began_ns >= 0
            },
        },
    )


def _rank(piece: Piece) -> int:
    return -1 if piece.rank is None else piece.rank


def _of(piece: Piece) -> Kernels:
    if piece.kernels is None:
        raise InputError("the file is not a trace", file=piece.source)
    return piece.kernels


def _joined(pieces: Sequence[Piece], words: Sequence[str]) -> dict[int, Table]:
    """Columns of every rank in the order of time, words by their number among those of all."""
    number = {word: index for index, word in enumerate(words)}
    tables = {}
    for piece in pieces:
        kernels = _of(piece)
        order = np.lexsort((kernels.stream, kernels.start_ns))
        place = np.array([number[word] for word in kernels.words] or [0], np.int64)
        table: Table = {name: getattr(kernels, name)[order] for name in _READ}
        for name in ("name", "kind", "group"):
            table[name] = place[table[name]]
        table["number"] = _numbers(table)
        tables[_rank(piece)] = table
    return tables


def _numbers(table: Table) -> NDArray[np.int64]:
    """Number of each communication in its group: as noted, else counted by kind in the order of time; -1 for others."""
    number = np.full(len(table["phase"]), -1, np.int64)
    rows = np.flatnonzero(table["phase"] == PHASES.index(COMMUNICATION))
    _, key = np.unique(np.stack([table["group"][rows], table["kind"][rows]]), axis=1, return_inverse=True)
    order = np.argsort(key.ravel(), kind="stable")
    count = np.bincount(key.ravel())
    first = np.repeat(np.cumsum(count) - count, count)
    number[rows[order]] = np.arange(len(rows)) - first
    noted = table["sequence"][rows]
    number[rows] = np.where(noted >= 0, noted, number[rows])
    return number


def _steps(tables: Mapping[int, Table], pieces: Sequence[Piece]) -> tuple[NDArray[np.int32], list[int]]:
    """int32[n], the step of each kernel as a place among the numbers of steps, and these numbers."""
    marked = {_rank(piece): piece for piece in pieces}
    launched = {
        rank: Launched(
            (table["name"] * (1 << 20) + table["group"]) * len(PHASES) + table["phase"],
            table["launch"],
            table["start_ns"],
            marked[rank].steps,
            marked[rank].exact,
        )
        for rank, table in tables.items()
    }
    found, numbers = steps_of(launched)
    return np.concatenate([found[rank] for rank in tables]), numbers


def _ends(table: Table, words: Sequence[str]) -> Ends:
    """Ends of communications that end at once on all members, which messages between two ranks do not."""
    pairs = [words.index(word) for word in ("send", "recv", "send_recv") if word in words]
    rows = np.flatnonzero((table["number"] >= 0) & ~np.isin(table["kind"], pairs))
    keys = (table[name][rows].tolist() for name in ("group", "kind", "number"))
    ends = (table["start_ns"][rows] + table["duration_ns"][rows]).tolist()
    return dict(zip(zip(*keys, strict=True), ends, strict=True))


def _first(tables: Mapping[int, Table], ahead_ns: Mapping[int, int]) -> int:
    """Start of the first kernel of all, ns by one clock.

    Raises:
        InputError: They span too long.
    """
    bounds = [
        (
            int(table["start_ns"].min()) - ahead_ns[rank],
            int((table["start_ns"] + table["duration_ns"]).max()) - ahead_ns[rank],
        )
        for rank, table in tables.items()
    ]
    first, last = min(low for low, _ in bounds), max(high for _, high in bounds)
    if last - first > _LONGEST_NS or any(int(table["duration_ns"].max()) > _LONGEST_NS for table in tables.values()):
        raise InputError("times of the traces span more than 53 days", found=f"{last - first} ns")
    return first


def _labels(rows: Table, words: Sequence[str]) -> tuple[list[Label], NDArray[np.int32]]:
    operation = np.where(rows["kind"] == words.index(""), rows["name"], rows["kind"])
    code = (rows["phase"].astype(np.int64) * len(words) + operation) * len(words) + rows["group"]
    found, first, what = np.unique(code, return_index=True, return_inverse=True)
    by_row = np.argsort(first, kind="stable")
    place = np.empty(len(found), np.int32)
    place[by_row] = np.arange(len(found))
    chosen = first[by_row].tolist()
    labels = [Label(PHASES[rows["phase"][row]], words[operation[row]], words[rows["group"][row]]) for row in chosen]
    return labels, place[what.ravel()]


def _groups(
    rows: Table, who: NDArray[np.int32], pieces: Sequence[Piece], words: Sequence[str]
) -> tuple[list[dict[str, Any]], NDArray[np.int32]]:
    """Process groups by number, and that of each row. Groups of equal name and different members are different ones."""
    members = {(_rank(piece), name): ranks for piece in pieces for name, ranks in piece.groups.items()}
    mine = np.flatnonzero(rows["phase"] == PHASES.index(COMMUNICATION))
    found, inverse = np.unique(np.stack([who[mine], rows["group"][mine]]), axis=1, return_inverse=True)
    number: dict[tuple[str, tuple[int, ...]], int] = {}
    keys = [(words[group], members.get((rank, words[group]), ())) for rank, group in found.T.tolist()]
    of = np.array([number.setdefault(key, len(number)) for key in keys], np.int32)
    column = np.full(len(who), -1, np.int32)
    column[mine] = of[inverse.ravel()] if len(mine) else 0
    return [{"name": name, "ranks": list(ranks)} for name, ranks in number], column


def _meta(
    found: Gathered, pieces: Sequence[Piece], clocks: dict[int, RankClock], groups: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "sources": {str(piece.rank): piece.source for piece in pieces},
        "world": found.world,
        "devices": {str(piece.rank): piece.device for piece in pieces},
        "communicators": groups,
        "clocks": {str(rank): asdict(one) for rank, one in clocks.items()},
        "warnings": found.remarks + odd(clocks),
    }
