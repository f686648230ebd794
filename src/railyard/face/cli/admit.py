"""`railyard place` on objects of Kueue: which workloads get in, with which flavors, on which nodes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from railyard.face.cli.tables import Table, emit
from railyard.work.operate.hostlist import compress
from railyard.work.operate.kueue.words import state_of, why_not

if TYPE_CHECKING:
    from railyard.work.operate.kueue.play import Played
    from railyard.work.operate.kueue.queues import Share, Workload


def show(played: Played, *, as_json: bool) -> None:
    """Prints what Kueue makes of workloads that wait.

    Args:
        played: What it made of them.
        as_json: By workload in place of a table.
    """
    if as_json:
        emit(json.dumps({key: _values(played, one) for key, one in played.workloads.items()}, ensure_ascii=False))
        return
    _print(played)


def _print(played: Played) -> None:
    table = Table(["workload", "queue", "state", "pod set", "pods", "flavors", "where"], right=[4])
    for key, one in played.workloads.items():
        if one.admission is None:
            table.add(key, one.queue, state_of(played, one), "", "", "", why_not(played, key))
            continue
        for place, share in enumerate(one.admission.shares):
            first = (key, one.queue, state_of(played, one)) if not place else ("", "", "")
            flavors = ", ".join(dict.fromkeys(share.flavors.values()))
            table.add(*first, share.name, str(share.count), flavors, _where(share))
    table.print()
    new, waiting = len(played.news), sum(one.admission is None for one in played.workloads.values())
    emit("")
    emit(f"{new} got in or moved, {len(played.gone)} had to go, {waiting} wait ({played.cycles} cycles)")


def _where(share: Share) -> str:
    if share.place is None:
        return "once nodes are provisioned" if share.delayed == "Pending" else ""
    counts: dict[int, list[str]] = {}
    for values, pods in share.place.domains:
        counts.setdefault(pods, []).append("/".join(values))
    return "; ".join(f"{pods} on {compress(names)}" for pods, names in sorted(counts.items(), reverse=True))


def _values(played: Played, one: Workload) -> dict[str, object]:
    shares = one.admission.shares if one.admission else ()
    return {
        "queue": one.queue,
        "state": state_of(played, one),
        "for": played.gone.get(one.key) or None,
        "why": played.why.get(one.key) if one.admission is None else None,
        "podSets": {
            share.name: {
                "count": share.count,
                "flavors": share.flavors,
                "levels": list(share.place.levels) if share.place else [],
                "domains": [[list(values), pods] for values, pods in share.place.domains] if share.place else [],
            }
            for share in shares
        },
    }
