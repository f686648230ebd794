"""Who is missing in a collective that hangs, from what the members' libraries noted.

Of every process group, the first collective that some members have called and others have not names those others: they
are not slow, they are not there. Where all have called it with different inputs, or different collectives under one
number, the program is at fault, and those that differ from most are named. A group whose members wait inside a
collective that all have called says nothing of who is guilty.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.ask.observe.diagnosis.verdict import Diagnosis, Suspect
from railyard.ask.observe.reader import COMPLETED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from railyard.ask.observe.reader import Call, Member, Piece


_MISSING = {"dead": 0.95, "unresponsive": 0.8}
FAR_BEHIND = 2
"""Calls by which as many ranks are behind as ahead to be named: by one, either half may be the one that errs."""

SHOWN = 8
STUCK, ONCE = 0.9, 0.5
"""Confidence in a rank that is behind: where counts have not grown since an earlier capture, and from one alone."""


def diagnose_counts(pieces: Sequence[Piece]) -> Diagnosis:
    """Who is missing, and who is behind."""
    answer = Diagnosis()
    captures = [piece.members for piece in pieces if piece.members]
    last = captures[-1] if captures else []
    answer.verdict = [
        Suspect(
            f"rank {one.rank}",
            "rank",
            _MISSING[one.missing],
            f"communicator {one.group}: it is {one.missing}{_at(one)}",
        )
        for one in last
        if one.missing
    ]
    if not answer.verdict:
        _behind(last, _still(captures), answer)
    first = {suspect.part: suspect for suspect in reversed(answer.verdict)}
    answer.verdict = sorted(first.values(), key=lambda one: (-one.confidence, len(one.part), one.part))
    return answer


def _still(captures: Sequence[Sequence[Member]]) -> bool:
    """Whether there are two captures, and no count has grown from one to the other."""
    if len(captures) < 2:
        return False
    before, after = ({(one.group, one.rank): one.counts for one in capture} for capture in captures[-2:])
    return before == after


def _behind(members: Sequence[Member], still: bool, answer: Diagnosis) -> None:
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
                Suspect(
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
    return f"{words}; ahead: rank {', '.join(map(str, ahead[:SHOWN]))}" + (", ..." if len(ahead) > SHOWN else "")


def _at(one: Member) -> str:
    return f" on {one.host}" if one.host else ""


@dataclass(frozen=True)
class Group:
    """A process group and what its members called.

    Attributes:
        name: Of the group.
        members: All ranks; those that called where the rest is not known.
        calls: By rank, by number.
    """

    name: str
    members: tuple[int, ...]
    calls: dict[int, dict[int, Call]]

    @property
    def heard(self) -> list[int]:
        """Members of which there is a dump."""
        return sorted(self.calls)


def diagnose_calls(pieces: Sequence[Piece]) -> Diagnosis:
    """Who is missing, and whose calls do not fit."""
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
        answer.notes.append(f"{len(waiting)} calls have not ended, and no rank that was heard of is missing in one")
    first = {suspect.part: suspect for suspect in reversed(answer.verdict)}
    answer.verdict = sorted(first.values(), key=lambda one: -one.confidence)
    return answer


def _groups(pieces: Sequence[Piece]) -> list[Group]:
    calls: dict[tuple[str, tuple[int, ...]], dict[int, dict[int, Call]]] = {}
    for piece in pieces:
        for call in piece.calls:
            ranks = piece.groups.get(call.group, ())
            calls.setdefault((call.group, ranks), {}).setdefault(call.rank, {})[call.sequence] = call
    return [Group(name, ranks or tuple(sorted(found)), found) for (name, ranks), found in sorted(calls.items())]


def _missing(group: Group, answer: Diagnosis) -> None:
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
                Suspect(
                    f"rank {rank}",
                    "rank",
                    0.95 if not silent else 0.8,
                    f"process group {group.name or 'default'}: {name} {number} was called by ranks {_listed(there)},"
                    f" the last call of rank {rank} is {latest[rank]}",
                )
            )
        return


def _mismatch(group: Group, answer: Diagnosis) -> None:
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
                Suspect(
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
