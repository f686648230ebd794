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
    from collections.abc import Sequence

    from railyard.ask.observe.reader import Call, Piece


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
