"""Who is missing or behind, from a state of communicators as NCCL's RAS gives it.

A rank that is considered dead or does not answer is named. A member that has called a collective less often than the
others is behind; in a run that goes on that is usual for a moment, so that one capture names it with little confidence
and says what would settle it: a second one, in which the counts have not grown.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from railyard.ask.observe.diagnosis.verdict import Diagnosis, Suspect

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from railyard.ask.observe.reader import Member, Piece

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
