"""Searches the level at which groups can contain a set of pods, then goes down to the leafs."""

from __future__ import annotations

from dataclasses import dataclass
from math import log2
from typing import TYPE_CHECKING

import numpy as np

from railyard.work.operate.kueue.objects import Given
from railyard.work.operate.kueue.room import TopologyRoom

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.work.operate.kueue.objects import Fits, PodAsk
    from railyard.work.operate.kueue.room import Domains


Spread = tuple["TopologyRoom", int, list[int]]
"""Room with assigned shares, the level of the groups, and the groups."""


@dataclass(frozen=True)
class _Greedy:
    """A greedy choice: the number of groups, and the last one with a leader and without."""

    groups: int
    last_led: int | None
    last: int | None


@dataclass(frozen=True, eq=False)
class _Choice:
    """Groups that could get equal shares: the room without groups below the threshold."""

    room: TopologyRoom
    groups: list[int]
    threshold: int
    count: int


def balanced(room: TopologyRoom) -> Spread | None:
    """Equal shares for the groups of the requested level; None: impossible, so the usual search has to do."""
    ask = room.ask
    choice = _best(room)
    if choice is None:
        return None
    level, groups = ask.level, choice.groups
    if level < room.slice_level:
        chosen = _fewest(choice.room, level, sorted(groups, key=lambda one: _richness(choice.room, level, one)))
        if chosen is None:
            return None
        groups = [int(child) for one in chosen for child in room.domains.children[level][one]]
        level += 1
    shared = _share(choice.room, level, groups, choice.threshold)
    return None if shared is None else (choice.room, level, shared)


def _best(room: TopologyRoom) -> _Choice | None:
    """Among the groups under each parent those with the highest threshold; of equals, the fewest groups."""
    level, best = room.ask.level, None
    for siblings in _siblings(room, level):
        found = _candidate(room, level, [int(one) for one in siblings], best.threshold if best else 0)
        if found and (
            best is None
            or found.threshold > best.threshold
            or (found.threshold == best.threshold and found.count < best.count)
        ):
            best = found
    return best


def _siblings(room: TopologyRoom, level: int) -> Sequence[NDArray[np.int64]]:
    if not level:
        return [room.domains.groups(0)]
    return [room.domains.children[level - 1][parent] for parent in np.argsort(room.domains.rank[level - 1])]


def _candidate(room: TopologyRoom, level: int, groups: list[int], least: int) -> _Choice | None:
    ask, lower = room.ask, level < room.slice_level
    below = [int(child) for one in groups for child in room.domains.children[level][one]] if lower else groups
    greedy = _greedy(room, level + lower, below)
    if greedy is None or not greedy.groups:
        return None
    slices, led = room.slices[level + lower], room.slices_led[level + lower]
    limits = [ask.wanted // greedy.groups]
    limits += [int(led[greedy.last_led])] if greedy.last_led is not None else []
    limits += [int(slices[greedy.last])] if greedy.last is not None else []
    thresholds = [min(limits)]
    if ask.leaders and greedy.last is not None:
        thresholds.append(min(thresholds[0], int(led[greedy.last])))
    for threshold in dict.fromkeys(thresholds):
        if threshold <= 0 or threshold < least:
            return None
        trial = _pruned(room, level, groups, threshold)
        after = _greedy(trial, level, groups)
        if after is not None:
            return _Choice(trial, groups, threshold, after.groups)
    return None


def _greedy(room: TopologyRoom, level: int, groups: list[int]) -> _Greedy | None:
    """The largest groups until all slices and leaders have room; None: there is not enough."""
    slices, leaders, used = room.ask.wanted, room.ask.leaders, 0
    last_led = last = None
    if leaders:
        order = room.sorted_led(level, np.array(groups, np.int64))
        while leaders > 0 and used < len(order) and room.leaders[level][order[used]] > 0:
            last_led = order[used]
            leaders -= int(room.leaders[level][last_led])
            slices -= int(room.slices_led[level][last_led])
            used += 1
        groups = order[used:]
    for group in room.sorted(level, np.array(groups, np.int64)):
        if slices <= 0 or not room.slices[level][group]:
            break
        last, used = group, used + 1
        slices -= int(room.slices[level][group])
    return None if leaders > 0 or slices > 0 else _Greedy(used, last_led, last)


def _pruned(room: TopologyRoom, level: int, groups: list[int], threshold: int) -> TopologyRoom:
    """Room without the groups, and the groups one level below, that have less than the threshold.

    Leftovers of inner slices are not subtracted again, as in Kueue.
    """
    trial = room.copy()
    trial.inner = {}
    if level < room.domains.lowest:
        for child in np.concatenate([room.domains.children[level][one] for one in groups]):
            _prune(trial, level + 1, int(child), threshold)
    trial.roll_up()
    for group in groups:
        _prune(trial, level, group, threshold)
    trial.inner = room.inner
    return trial


def _prune(room: TopologyRoom, level: int, group: int, threshold: int) -> None:
    if room.slices[level][group] < threshold:
        _clear(room, level, group, (room.pods, room.slices, room.led, room.slices_led, room.leaders))
    elif room.ask.leaders and room.leaders[level][group] and room.slices_led[level][group] < threshold:
        _clear(room, level, group, (room.led, room.slices_led, room.leaders))


def _clear(room: TopologyRoom, level: int, group: int, kinds: tuple[list[NDArray[np.int64]], ...]) -> None:
    groups = np.array([group])
    while True:
        for counts in kinds:
            counts[level][groups] = 0
        if level == room.domains.lowest:
            return
        groups = np.concatenate([room.domains.children[level][one] for one in groups])
        level += 1


def _richness(room: TopologyRoom, level: int, group: int) -> tuple[int, int, float, int]:
    """Order in which groups are tried: with a leader, most slices next to it, most evenly spread pods, by name."""
    even = 0.0
    if level < room.domains.lowest:
        pods = room.pods[level + 1][room.domains.children[level][group]]
        shares = [int(one) / int(pods.sum()) for one in pods if one > 0]
        even = sum(-share * log2(share) for share in shares)
    return (
        -int(room.leaders[level][group]),
        -int(room.slices_led[level][group]),
        -even,
        int(room.domains.rank[level][group]),
    )


def _fewest(room: TopologyRoom, level: int, order: list[int]) -> list[int] | None:
    """As few groups as the greedy choice takes; among such sets, the one with the least sufficient room.

    Uses a table from (groups taken, leaders left, pods left) to the first set that reached it.
    """
    greedy = _greedy(room, level, order)
    if greedy is None:
        return None
    ask = room.ask
    table: list[dict[tuple[int, int], tuple[int, ...]]] = [{} for _ in range(greedy.groups + 1)]
    table[0][(ask.leaders, ask.wanted * ask.size)] = ()
    for group in order:
        for taken in range(greedy.groups, 0, -1):
            _extend(room, level, group, (table[taken - 1], table[taken]))
    done = {pods: chosen for (leaders, pods), chosen in table[-1].items() if not leaders and pods <= 0}
    return list(done[max(done)]) if done else None


def _extend(
    room: TopologyRoom, level: int, group: int, tables: tuple[dict[tuple[int, int], tuple[int, ...]], ...]
) -> None:
    before, after = tables
    for leaders, pods in sorted(before):
        if leaders <= 0 and pods <= 0:
            continue
        chosen = (*before[leaders, pods], group)
        able = int(room.leaders[level][group])
        if leaders > 0 and able > 0:
            after.setdefault((leaders - able, pods - int(room.led[level][group])), chosen)
        if room.slices[level][group] > 0:
            after.setdefault((leaders, pods - int(room.pods[level][group])), chosen)


def _share(room: TopologyRoom, level: int, groups: list[int], threshold: int) -> list[int] | None:
    """Gives the threshold to each of the fewest groups, and the rest to the first ones with room."""
    ask = room.ask
    chosen = _fewest(room, level, sorted(groups, key=lambda one: int(room.domains.rank[level][one])))
    if chosen is None or ask.wanted < len(chosen) * threshold:
        return None
    order = room.sorted_led(level, np.array(chosen, np.int64))
    extra, leaders = ask.wanted - len(order) * threshold, ask.leaders
    for group in order:
        source = room.slices_led if leaders else room.slices
        more = min(int(source[level][group]) - threshold, extra) if leaders or extra > 0 else 0
        slices, gets = threshold + more, min(leaders, 1)
        room.slices[level][group] = room.slices_led[level][group] = slices
        room.pods[level][group] = slices * ask.size
        room.led[level][group] = slices * ask.size - gets
        room.leaders[level][group] = gets
        extra, leaders = extra - more, leaders - gets
    return None if extra > 0 or leaders > 0 else order


Found = tuple[int, list[int]]
"""A level, and groups of it."""


def assign(domains: Domains, fits: Fits, ask: PodAsk) -> Given | tuple[TopologyRoom, int]:
    """The pods that each leaf gets; or the available room, and how many slices fit in it."""
    room = TopologyRoom(domains, fits, ask)
    spread, level, groups = room, ask.level, None
    if ask.balanced and not (ask.required or ask.anywhere):
        trial = balanced(room)
        if trial is not None:
            spread, level, groups = trial
    if groups is None:
        found = _fitting(room, ask.level)
        if isinstance(found, int):
            return room, found
        level, groups = found
    leafs = _down(spread, level, groups, equal=spread is not room)
    if not leafs:
        return room, 0
    pods, leaders = (np.zeros(len(domains.parent[-1]), np.int64) for _ in range(2))
    pods[leafs], leaders[leafs] = spread.pods[-1][leafs], spread.leaders[-1][leafs]
    return Given(pods, leaders if ask.leaders else np.zeros_like(leaders))


def _fitting(room: TopologyRoom, level: int) -> Found | int:
    """The level and the groups that contain the set; a number: it has to wait, and this many slices would fit."""
    ask, order = room.ask, room.sorted_led(level, room.domains.groups(level))
    holds = (room.slices_led[level] >= ask.wanted) & (room.leaders[level] >= ask.leaders)
    first = int(np.argmax(holds[order])) if holds.any() else None
    if first is not None and not ask.tight:
        return level, [order[first]]
    if first == 0 or (first is not None and ask.required and ask.by_score):
        return level, [_tightest_slices(room, level, order[first:], ask.wanted, ask.leaders)]
    if ask.required:
        return int(room.slices[level][order[0]])
    if level > 0 and not ask.anywhere:
        return _fitting(room, level - 1)
    return _several(room, level, order)


def _tightest_slices(room: TopologyRoom, level: int, order: list[int], wanted: int, leaders: int) -> int:
    slices = room.slices_led[level] if leaders else room.slices[level]
    return room.tightest(level, order, slices, wanted, leaders)


def _several(room: TopologyRoom, level: int, order: list[int]) -> Found | int:
    """The first groups: those that take leaders, then others; the tightest that fits takes the rest."""
    ask, wanted, leaders = room.ask, room.ask.wanted, room.ask.leaders
    order = _leader_first(room, level, order, _Load(ask.pods, leaders, ask.size, in_slices=True))
    found: list[int] = []
    place = 0
    while leaders > 0 and place < len(order) and room.leaders[level][order[place]] > 0:
        group = order[place]
        if ask.tight and room.slices_led[level][group] >= wanted:
            group = _tightest_slices(room, level, order[place:], wanted, leaders)
        found.append(group)
        leaders -= int(room.leaders[level][group])
        wanted -= int(room.slices_led[level][group])
        place += 1
    if leaders > 0:
        return ask.leaders - leaders
    order, place = room.sorted(level, np.array(order[place:], np.int64)), 0
    while wanted > 0 and place < len(order):
        group = order[place]
        if ask.tight and room.slices[level][group] >= wanted:
            group = _tightest_slices(room, level, order[place:], wanted, 0)
        found.append(group)
        wanted -= int(room.slices[level][group])
        place += 1
    return ask.wanted - wanted if wanted > 0 else (level, found)


@dataclass(frozen=True)
class _Load:
    """What groups still have to take: pods in slices of a size or one by one, and leaders."""

    pods: int
    leaders: int
    size: int
    in_slices: bool

    @property
    def each(self) -> int:
        """Pods that stay together."""
        return self.size if self.in_slices else 1

    def counts(self, room: TopologyRoom, level: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How much of it groups can take, without a leader and next to one."""
        if self.in_slices:
            return room.slices[level], room.slices_led[level]
        return room.pods[level], room.led[level]


def _leader_first(room: TopologyRoom, level: int, order: list[int], load: _Load) -> list[int]:
    """Moves the first group that can take the leader and still leaves enough room to the front."""
    if not load.leaders or len(order) < 2:
        return order
    counts, led = load.counts(room, level)
    spare = int(counts[order].sum()) - load.pods // load.each
    for place, group in enumerate(order):
        if room.leaders[level][group] >= load.leaders and int(counts[group] - led[group]) <= spare:
            return [group, *order[:place], *order[place + 1 :]]
    return order


def _hand_out(room: TopologyRoom, level: int, order: list[int], load: _Load) -> list[int]:
    """Assigns pods and leaders to groups.

    Returns:
        The groups that got some; empty if there is not enough room.
    """
    order = _leader_first(room, level, order, load)
    counts, led = load.counts(room, level)
    able, left, leaders = room.leaders[level], load.pods // load.each, load.leaders
    found: list[int] = []
    for place, first in enumerate(order):
        group, source = first, led if leaders else counts
        enough = source[group] >= left and (not leaders or able[group] >= leaders)
        if enough and room.ask.tight:
            group = room.tightest(level, order[place:], source, left, leaders)
        taken, gets = min(left, int(source[group])), min(leaders, int(able[group]))
        if leaders:
            led[group] = taken
        counts[group], able[group], room.pods[level][group] = taken, gets, taken * load.each
        found.append(group)
        left, leaders = left - taken, leaders - gets
        if enough:
            return found
    return []


def _down(room: TopologyRoom, level: int, groups: list[int], *, equal: bool) -> list[int]:
    """From groups down to leafs: above the slice level all groups together, below it each group separately."""
    ask, lowest = room.ask, room.domains.lowest
    load = _Load(ask.pods, ask.leaders, ask.size, in_slices=True)
    groups = _hand_out(room, level, groups, load)
    while level < min(lowest, room.slice_level) and not equal and groups:
        below = np.concatenate([room.domains.children[level][group] for group in groups])
        level += 1
        groups = _hand_out(room, level, room.sorted(level, below), load)
    while level < lowest and groups:
        groups = _each_down(room, level, groups)
        level += 1
    return groups


def _each_down(room: TopologyRoom, level: int, groups: list[int]) -> list[int]:
    below = level + 1
    size = room.ask.size if level < room.slice_level else room.inner.get(below, 1)
    found: list[int] = []
    for group in groups:
        pods, leaders = int(room.pods[level][group]), int(room.leaders[level][group]) if room.ask.leaders else 0
        if not pods and not leaders:
            continue
        children: NDArray[np.int64] = room.domains.children[level][group]
        order = room.sorted(below, children)
        if size > 1:
            room.slices[below][children] = room.pods[below][children] // size
            room.slices_led[below][children] = room.led[below][children] // size
        part = _hand_out(room, below, order, _Load(pods, leaders, size, in_slices=size > 1))
        if not part:
            return []
        found += part
    return found
