"""What became of a workload, in a word, and why it did not get in."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from railyard.work.operate.kueue.play import Played
    from railyard.work.operate.kueue.queues import Workload


def state_of(played: Played, one: Workload) -> str:
    """Of `waits`, `preempted`, `has quota`, `moved`, `admitted` and `runs`."""
    if one.admission is None:
        return "preempted" if one.key in played.gone else "waits"
    if not one.admitted:
        return "has quota"
    if one.key in played.moved:
        return "moved"
    return "admitted" if one.key in played.news else "runs"


def why_not(played: Played, key: str) -> str:
    """Why a workload has no admission; empty where nothing is known."""
    if played.gone.get(key):
        return f"for {played.gone[key]}"
    return played.why.get(key, "no node in place of the one that is lost" if key in played.gone else "")
