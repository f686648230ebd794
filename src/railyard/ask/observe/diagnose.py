"""The diagnosis of whatever lies at a path."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.observe.diagnosis.verdict import Diagnosis, suspect
from railyard.ask.observe.reader import COMPLETED, few
from railyard.ask.observe.summary import record_file
from railyard.graph import TaskGraph
from railyard.kit.errors import InputError
from railyard.kit.files import readable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from railyard.ask.observe.gather import Gathered
    from railyard.ask.observe.reader import Call, CommunicatorMember, Piece
    from railyard.graph import Record


_MISSING = {"dead": 0.95, "unresponsive": 0.8}
FAR_BEHIND = 2
"""Calls by which as many ranks are behind as ahead to be named: by one, either half may be the one that errs."""

STUCK, ONCE = 0.9, 0.5
"""Confidence in a rank that is behind: where counts have not grown since an earlier capture, and from one alone."""


def diagnose_counts(pieces: Sequence[Piece]) -> Diagnosis:
    """Finds ranks that are missing, and ranks that are behind."""
    answer = Diagnosis()
    captures = [piece.members for piece in pieces if piece.members]
    last = captures[-1] if captures else []
    answer.verdict = [
        suspect(
            f"rank {one.rank}",
            "rank",
            _MISSING[one.missing],
            f"communicator {one.group}: it is {one.missing}{f' on {one.host}' if one.host else ''}",
        )
        for one in last
        if one.missing
    ]
    if not answer.verdict:
        _behind(last, _still(captures), answer)
    first = {one.part: one for one in reversed(answer.verdict)}
    answer.verdict = sorted(first.values(), key=lambda one: (-one.confidence, len(one.part), one.part))
    return answer


def _still(captures: Sequence[Sequence[CommunicatorMember]]) -> bool:
    """Whether there are two captures, and no count has grown from one to the other."""
    if len(captures) < 2:
        return False
    before, after = ({(one.group, one.rank): one.counts for one in capture} for capture in captures[-2:])
    return before == after


def _behind(members: Sequence[CommunicatorMember], still: bool, answer: Diagnosis) -> None:
    for group in dict.fromkeys(one.group for one in members):
        mine = [one for one in members if one.group == group]
        for name in sorted({name for one in mine for name in one.counts}):
            counts = {one.rank: one.counts.get(name, 0) for one in mine}
            most = max(counts.values())
            late = [rank for rank, count in counts.items() if count < most]
            if not late:
                continue
            ahead = Counter(counts.values())[most]
            if ahead < len(late) or (ahead == len(late) and most - max(counts[rank] for rank in late) < FAR_BEHIND):
                answer.unknown = True
                answer.notes.append(_halved(group, name, counts, most))
                continue
            answer.verdict += [
                suspect(
                    f"rank {rank}",
                    "rank",
                    STUCK if still else ONCE,
                    f"communicator {group}: it called {name} {counts[rank]} times, {ahead} members {most} times",
                )
                for rank in late
            ]
    if answer.verdict and not still:
        answer.notes.append("counts differ in a healthy run too: a second capture, some seconds later, would settle it")


def _halved(group: str, name: str, counts: Mapping[int, int], most: int) -> str:
    """Why nobody is named, and who is ahead: they may call what others do not, or be the first with what all will."""
    ahead = [rank for rank, count in counts.items() if count == most]
    words = f"communicator {group}: {name} was called {min(counts.values())} to {most} times"
    return f"{words}; ahead: rank {few(ahead)}"


@dataclass(frozen=True)
class CallGroup:
    """A process group and what its members called.

    Attributes:
        members: All ranks; those that called where the rest is not known.
    """

    name: str
    members: tuple[int, ...]
    calls: dict[int, dict[int, Call]]

    @property
    def heard(self) -> list[int]:
        """Members of which there is a dump."""
        return sorted(self.calls)


def diagnose_calls(pieces: Sequence[Piece]) -> Diagnosis:
    """Finds ranks that are missing, and ranks whose calls do not fit."""
    answer = Diagnosis()
    heard = {piece.rank for piece in pieces if piece.calls}
    for group in _groups(pieces):
        _mismatch(group, answer)
        _missing(group, answer)
    silent = sorted({rank for piece in pieces for ranks in piece.groups.values() for rank in ranks} - heard)
    if silent:
        answer.notes.append(f"there is no dump of ranks {_listed(silent)}")
    waiting = [call for piece in pieces for call in piece.calls if call.state != COMPLETED]
    if waiting and not answer.verdict:
        answer.unknown = True
        answer.notes.append(f"{len(waiting)} calls have not ended, and no known rank is missing in any of them")
    first = {one.part: one for one in reversed(answer.verdict)}
    answer.verdict = sorted(first.values(), key=lambda one: -one.confidence)
    return answer


def _groups(pieces: Sequence[Piece]) -> list[CallGroup]:
    calls: dict[tuple[str, tuple[int, ...]], dict[int, dict[int, Call]]] = {}
    for piece in pieces:
        for call in piece.calls:
            ranks = piece.groups.get(call.group, ())
            calls.setdefault((call.group, ranks), {}).setdefault(call.rank, {})[call.sequence] = call
    return [CallGroup(name, ranks or tuple(sorted(found)), found) for (name, ranks), found in sorted(calls.items())]


def _missing(group: CallGroup, answer: Diagnosis) -> None:
    """The first collective that is under way without some members that were heard of."""
    latest = {rank: max(calls) for rank, calls in group.calls.items()}
    silent = sorted(set(group.members) - set(latest))
    open_ = sorted({n for calls in group.calls.values() for n, call in calls.items() if call.state != COMPLETED})
    for number in open_:
        behind = [rank for rank in group.heard if latest[rank] < number]
        there = [rank for rank in group.heard if number in group.calls[rank]]
        if not behind or not there:
            continue
        name = group.calls[there[0]][number].name
        for rank in behind:
            answer.verdict.append(
                suspect(
                    f"rank {rank}",
                    "rank",
                    0.95 if not silent else 0.8,
                    f"process group {group.name or 'default'}: {name} {number} was called by ranks {_listed(there)},"
                    f" the last call of rank {rank} is {latest[rank]}",
                )
            )
        return


def _mismatch(group: CallGroup, answer: Diagnosis) -> None:
    """The first number under which members called different things, where none of them has ended."""
    for number in sorted(set.intersection(*(set(calls) for calls in group.calls.values())) if group.calls else ()):
        calls = {rank: of[number] for rank, of in group.calls.items()}
        if all(call.state == COMPLETED for call in calls.values()):
            continue
        asked = Counter((call.name, call.shape) for call in calls.values())
        (usual, most), *others = asked.most_common()
        if not others:
            continue
        odd = [rank for rank, call in sorted(calls.items()) if (call.name, call.shape) != usual]
        sure = most > len(odd)
        for rank in odd if sure else sorted(calls):
            call = calls[rank]
            answer.verdict.append(
                suspect(
                    f"rank {rank}",
                    "software",
                    0.9 if sure else 0.5,
                    f"process group {group.name or 'default'}, number {number}: it called {call.name} {call.shape},"
                    f" most others {usual[0]} {usual[1]}",
                )
            )
        return


def _listed(ranks: Sequence[int]) -> str:
    shown = ", ".join(map(str, ranks[:16]))
    return shown if len(ranks) <= 16 else f"{shown} and {len(ranks) - 16} more"


WORTH_NAMING = 1.03
"""S from which on ByteDance's study takes a job for one with stragglers; below, nothing is named."""

MAIN_PART = 0.5
"""Share of the slowdown that the slowest workers, or the last stage, must explain to be named."""


def diagnose(path: Path, cluster_file: Path | None = None) -> Diagnosis:
    """Finds the guilty part.

    Args:
        path: A run's folder, a record, a table of operations, or traces and dumps.
        cluster_file: The cluster, where links, NICs and hosts are to be named.

    Raises:
        InputError: Nothing at the path can be read, or the cluster's file is wrong.
    """
    file = record_file(path)
    if file is None:
        return _traces(path, cluster_file)
    if _is_operations(file):
        return _operations(file)
    return _record(file, cluster_file)


def _is_operations(file: Path) -> bool:
    import polars as pl
    from polars.exceptions import PolarsError

    try:
        return {"optype", "dp_rank"} <= set(pl.read_parquet_schema(readable(file)))
    except (OSError, PolarsError) as error:
        raise InputError("the file is not readable Parquet", file=file, found=str(error).splitlines()[0]) from None


def _record(file: Path, cluster_file: Path | None) -> Diagnosis:
    from railyard.ask.observe.answer import cluster_for, seed_of, usd_per_hour
    from railyard.ask.observe.diagnosis.simulated import diagnose as of_tasks
    from railyard.ask.observe.diagnosis.verdict import HourlyPrice
    from railyard.graph.parquet import read_record

    record = _blind(read_record(file))
    if not isinstance(record.work, TaskGraph):
        raise InputError(
            "the record has no task graph, which a diagnosis needs", file=file, found=f"rows: {record.rows}"
        )
    cluster = None if cluster_file is None else cluster_for(record, cluster_file)
    price = HourlyPrice() if cluster is None else HourlyPrice(usd_per_hour(record, cluster))
    said = record.meta.get("seed")
    seeds = [] if cluster_file is None else [seed_of(cluster_file), *([said] if isinstance(said, int) else [])]
    return of_tasks(record, cluster, price, seeds)


def _blind(record: Record) -> Record:
    """The record with nothing in its `meta` but the seed of its hashes: no engine's word reaches a diagnosis."""
    return replace(record, meta={name: value for name, value in record.meta.items() if name == "seed"})


def _operations(file: Path) -> Diagnosis:
    from railyard.ask.observe.operations import read_operations
    from railyard.ask.observe.slowdown import slowdown

    found = slowdown(read_operations(file))
    answer = Diagnosis(
        what_if={
            "S": found.slowdown,
            "S_t": found.by_kind,
            "S_dp": dict(enumerate(found.by_data_parallel)),
            "S_stage": dict(enumerate(found.by_stage)),
            "S_w": found.by_worker,
            "M_W": found.workers,
            "M_S": found.last_stage,
            "step_s": found.step_s,
            "ideal_s": found.ideal_s,
        }
    )
    if found.slowdown < WORTH_NAMING:
        return answer
    if found.last_stage >= MAIN_PART and len(found.by_stage) > 1:
        words = (
            f"S {found.slowdown:.4f}; {min(found.last_stage, 1):.0%} of it would go with a last stage like the others"
        )
        answer.verdict.append(suspect(f"stage {len(found.by_stage) - 1}", "stage", 0.8, words))
    if found.workers >= MAIN_PART:
        slowest = list(found.by_worker)[int(np.argmax(list(found.by_worker.values())))]
        words = f"S {found.slowdown:.4f}; {min(found.workers, 1):.0%} of it would go without the slowest 3 % of workers"
        answer.verdict.append(suspect(f"rank {slowest}", "rank", 0.8, words))
    answer.unknown = not answer.verdict
    return answer


def _traces(path: Path, cluster_file: Path | None) -> Diagnosis:
    from railyard.ask.observe.gather import gather

    found = gather(path)
    answer = _of_traces(found, cluster_file)
    answer.notes += [words for words in found.remarks if words not in answer.notes]
    return answer


def _of_traces(found: Gathered, cluster_file: Path | None) -> Diagnosis:
    """Diagnoses by the strongest evidence: hanging calls, communicator states, port counters, kernel times."""
    from railyard.ask.observe.answer import cluster_of, price_of_parts
    from railyard.ask.observe.diagnosis.ports import diagnose_ports

    pieces = found.pieces
    if any(piece.calls for piece in pieces):
        return diagnose_calls(pieces)
    if any(piece.members or piece.well for piece in pieces):
        return diagnose_counts(pieces)
    if any(piece.counts for piece in pieces):
        return diagnose_ports(pieces, None if cluster_file is None else price_of_parts(cluster_of(cluster_file)))
    if any(piece.kernels for piece in pieces):
        return _kernels(found, cluster_file)
    raise InputError(
        "the files show how fast collectives were or what they run over, but not whether any part is healthy",
        file=found.pieces[0].source if found.pieces else None,
        found="; ".join(found.remarks[:8]) or None,
        allowed="timelines, flight recorder dumps, states of communicators, counters of ports",
        hint="`railyard observe PATH --cluster SCENARIO` compares them with what the cluster should reach",
    )


def _kernels(found: Gathered, cluster_file: Path | None) -> Diagnosis:
    from railyard.ask.observe.answer import cluster_of, traced_usd_per_hour
    from railyard.ask.observe.diagnosis.traced import diagnose as of_kernels
    from railyard.ask.observe.diagnosis.verdict import HourlyPrice
    from railyard.ask.observe.measured import record_of
    from railyard.ask.observe.summary import summary

    record = record_of(found)
    figures = summary(record)
    if cluster_file is None:
        return of_kernels(record, figures, missing=found.missing_ranks)
    cluster = cluster_of(cluster_file)
    price = HourlyPrice(traced_usd_per_hour(cluster, figures["span_s"], figures["utilization"]))
    return of_kernels(record, figures, cluster.ranks_per_server, price, found.missing_ranks)
