"""Process groups whose communications are slow, and the rank whose way into the network all of them share.

The member that comes last to a collective waits for nobody: the shortest of its members' kernels is the transfer alone,
whatever their clocks say. Groups alike in kind, size, members and hosts are peers; a group without any is compared with
its own other steps. A slow way of one rank into the network slows every group that leaves its
host with that rank in it, and no other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.observe.diagnosis.episodes import Episode, Series, quantile
from railyard.ask.observe.diagnosis.peers import BIAS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.graph import Record

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

MOST_SHOWN = 8
"""Ranks that are listed."""


@dataclass(frozen=True)
class Group:
    """A process group that was traced.

    Attributes:
        name: As the library calls it.
        kind: Of the communications.
        members: Ranks.
        leaves: Whether it reaches more than one host.
        compared: Whether it has peers; else it was compared with its own other steps.
        slow: Where it is slow; None where it is not.
        lost_ps: What it loses by that, of every step on average.
    """

    name: str
    kind: str
    members: tuple[int, ...]
    leaves: bool
    compared: bool
    slow: Episode | None
    lost_ps: float


@dataclass(frozen=True)
class Network:
    """What is slow in the network.

    Attributes:
        part: As faults write it; empty where several could be to blame.
        kind: nic, or host for links inside one.
        episode: Where it is slow.
        words: What is slow, by how much.
        lost_ps: Of every step on average.
    """

    part: str
    kind: str
    episode: Episode
    words: str
    lost_ps: float


def networks(groups: Sequence[Group], per_host: int, least_ps: float, crowded: set[int]) -> list[Network]:
    """Ways into the network that are slow, or groups whose slowness could be that of several.

    Args:
        groups: That were traced.
        per_host: Accelerators of a host; 0 where that is not known.
        least_ps: What a group must lose of a step to be worth a word.
        crowded: Ranks whose experts get more tokens than others: their groups exchange more.
    """
    slow = [one for one in groups if one.slow is not None and one.lost_ps >= least_ps]
    slow = [one for one in slow if one.kind != "all_to_all" or not crowded & set(one.members)]
    healthy = {rank for one in groups if one.compared and one.slow is None and one.leaves for rank in one.members}
    found = [_inside(one, per_host) for one in slow if not one.leaves]
    leaving = [one for one in slow if one.leaves]
    if not leaving:
        return found
    shared = set.intersection(*(set(one.members) for one in leaving)) - healthy
    worst = max(leaving, key=lambda one: one.lost_ps)
    assert worst.slow is not None, "slow groups were chosen"
    lost = sum(one.lost_ps for one in leaving)
    if len(shared) == 1:
        words = f"its way into the network is slow: {_words(worst)}, and no other rank is in all slow groups alone"
        return [*found, Network(f"rank {shared.pop()}", "nic", worst.slow, words, lost)]
    known = sorted(shared or worst.members)
    words = f"the network of ranks {_listed(known)} is slow: {_words(worst)}; traces do not say which of their"
    return [*found, Network("", "nic", worst.slow, f"{words} interfaces or cables it is", lost)]


def _inside(group: Group, per_host: int) -> Network:
    assert group.slow is not None, "slow groups were chosen"
    words = f"links between its accelerators are slow: {_words(group)}"
    return Network(f"server {group.members[0] // per_host}", "host", group.slow, words, group.lost_ps)


def _words(group: Group) -> str:
    assert group.slow is not None, "slow groups were chosen"
    against = "in groups like it" if group.compared else "in its other steps"
    kind = group.kind.replace("_", "-")
    return f"{kind} over ranks {_listed(group.members)} takes {np.exp(group.slow.level):.2f} times as long as {against}"


def _listed(ranks: Sequence[int]) -> str:
    shown = ", ".join(map(str, ranks[:MOST_SHOWN]))
    return shown if len(ranks) <= MOST_SHOWN else f"{shown} and {len(ranks) - MOST_SHOWN} more"


def groups_of(record: Record, per_host: int) -> list[Group]:
    """Groups all of whose members were traced.

    Args:
        record: Of kernels.
        per_host: Accelerators of a host; 0 where that is not known.
    """
    about = record.meta["communicators"]
    members = [tuple(one["ranks"]) for one in about]
    found: list[Group] = []
    for (kind, _, _, hosts), rows in _classes(record, members, per_host).items():
        groups = list(rows)
        took = np.stack([rows[group] for group in groups], axis=1)
        compared = len(groups) > 1
        for group, of, slow in zip(groups, took.T, _episodes(took, compared=compared), strict=True):
            lost = 0.0 if slow is None else float(np.where(slow.steps, of, 0.0).mean() * (1 - np.exp(-slow.level)))
            found.append(Group(about[group]["name"], kind, members[group], hosts != 1, compared, slow, lost))
    return found


def _episodes(took: Floats, *, compared: bool) -> list[Episode | None]:
    """Of each group, where it is slow.

    Args:
        took: float64[steps, groups], ps.
        compared: Against one another; else each against its own other steps.
    """
    with np.errstate(divide="ignore"):
        log = np.where(took > 0, np.log(took), np.nan)
    if not compared:
        return [Series.alone(one).episode(0) for one in log.T]
    series = Series.of(log - quantile(log.T, 0.5)[:, None], BIAS)
    return [series.episode(place) for place in range(took.shape[1])]


def _classes(
    record: Record, members: Sequence[tuple[int, ...]], per_host: int
) -> dict[tuple[str, int, int, int], dict[int, Floats]]:
    """By kind, size in bytes, members and hosts, and by group: float64[steps], ps of all transfers of each step."""
    steps = len(record.meta["steps"])
    step = record.column("step").astype(np.int64)
    group, number = record.column("communicator"), record.column("sequence")
    rows = np.flatnonzero((group >= 0) & (number >= 0) & (step >= 0))
    order = rows[np.lexsort((number[rows], record.what[rows], group[rows]))]
    new = np.zeros(len(order), np.bool_)
    new[:1] = True
    for column in (group, record.what, number):
        new[1:] |= np.diff(column[order]) != 0
    first = np.flatnonzero(new)
    if not len(first):
        return {}
    alone = np.minimum.reduceat(record.end_ps[order] - record.start_ps[order], first)
    size = np.maximum.reduceat(record.size_bytes[order], first)
    there = np.diff(np.r_[first, len(order)])
    kinds = [label.op for label in record.labels]
    found: dict[tuple[str, int, int, int], dict[int, Floats]] = {}
    for at, ps, size_bytes, count in zip(
        order[first].tolist(), alone.tolist(), size.tolist(), there.tolist(), strict=True
    ):
        those = members[group[at]]
        if count != len(those) or count < 2:
            continue
        hosts = len({rank // per_host for rank in those}) if per_host else 0
        key = kinds[record.what[at]], size_bytes, count, hosts
        took = found.setdefault(key, {}).setdefault(int(group[at]), np.zeros(steps))
        took[step[at]] += ps
    return found
