"""`railyard place` on objects of Kueue: which workloads get in, with which flavors, on which nodes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from railyard.cli.tables import Table, emit
from railyard.errors import InputError
from railyard.operate.hostlist import compress
from railyard.operate.kueue.files import read_cluster
from railyard.operate.kueue.play import play

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.operate.kueue.play import Played
    from railyard.operate.kueue.queues import Share, Workload


def admit(workloads: Path, nodes: Path, *, as_json: bool) -> None:
    """Prints what Kueue makes of workloads that wait.

    Args:
        workloads: Objects, Workloads among them.
        nodes: Objects, Nodes, queues and flavors among them; may be the same file.
        as_json: By workload in place of a table.

    Raises:
        InputError: A file is wrong, or has no queue or no node.
    """
    cluster = read_cluster([nodes, workloads])
    for what, found in (("ClusterQueue", cluster.queues), ("Node", cluster.nodes), ("Workload", cluster.workloads)):
        if not found:
            raise InputError(f"there is no {what}", file=workloads if what == "Workload" else nodes)
    played = play(cluster)
    if as_json:
        emit(json.dumps({key: _values(played, one) for key, one in played.workloads.items()}, ensure_ascii=False))
        return
    _print(played)


def _state(played: Played, one: Workload) -> str:
    if one.admission is None:
        return "preempted" if one.key in played.gone else "waits"
    if not one.admitted:
        return "has quota"
    if one.key in played.moved:
        return "moved"
    return "admitted" if one.key in played.news else "runs"


def _print(played: Played) -> None:
    table = Table(["workload", "queue", "state", "pod set", "pods", "flavors", "where"], right=[4])
    for key, one in played.workloads.items():
        if one.admission is None:
            table.add(key, one.queue, _state(played, one), "", "", "", _why(played, key))
            continue
        for place, share in enumerate(one.admission.shares):
            first = (key, one.queue, _state(played, one)) if not place else ("", "", "")
            flavors = ", ".join(dict.fromkeys(share.flavors.values()))
            table.add(*first, share.name, str(share.count), flavors, _where(share))
    table.print()
    new, waiting = len(played.news), sum(one.admission is None for one in played.workloads.values())
    emit("")
    emit(f"{new} got in or moved, {len(played.gone)} had to go, {waiting} wait ({played.cycles} cycles)")


def _why(played: Played, key: str) -> str:
    if played.gone.get(key):
        return f"for {played.gone[key]}"
    return played.why.get(key, "no node in place of the one that is lost" if key in played.gone else "")


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
        "state": _state(played, one),
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
