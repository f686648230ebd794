"""Where a set of pods goes: the level at which groups hold it, and from there down to the leafs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.work.operate.kueue.ask import Given
from railyard.work.operate.kueue.balanced import balanced
from railyard.work.operate.kueue.room import Room

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.operate.kueue.ask import Ask, Fits
    from railyard.work.operate.kueue.domains import Domains

Found = tuple[int, list[int]]
"""A level, and groups of it."""


def assign(domains: Domains, fits: Fits, ask: Ask) -> Given | tuple[Room, int]:
    """The pods that each leaf gets, or the room that there was, and how many slices it holds.

    Args:
        domains: The topology; it has leafs.
        fits: What would fit on each.
        ask: What is asked.
    """
    room = Room(domains, fits, ask)
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


def _fitting(room: Room, level: int) -> Found | int:
    """The level and the groups that hold the set; a number: it has to wait, so many slices would fit."""
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


def _tightest_slices(room: Room, level: int, order: list[int], wanted: int, leaders: int) -> int:
    slices = room.slices_led[level] if leaders else room.slices[level]
    return room.tightest(level, order, slices, wanted, leaders)


def _several(room: Room, level: int, order: list[int]) -> Found | int:
    """The first groups: those that take leaders, then others; for the last part the tightest that holds it."""
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
    """What groups are to get: pods in slices of a size, or one by one, and leaders."""

    pods: int
    leaders: int
    size: int
    in_slices: bool

    @property
    def each(self) -> int:
        """Pods that stay together."""
        return self.size if self.in_slices else 1

    def counts(self, room: Room, level: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Of groups what they hold of it, without a leader and beside one."""
        if self.in_slices:
            return room.slices[level], room.slices_led[level]
        return room.pods[level], room.led[level]


def _leader_first(room: Room, level: int, order: list[int], load: _Load) -> list[int]:
    """The first group that can take the leader and leaves room enough for all, put in front."""
    if not load.leaders or len(order) < 2:
        return order
    counts, led = load.counts(room, level)
    spare = int(counts[order].sum()) - load.pods // load.each
    for place, group in enumerate(order):
        if room.leaders[level][group] >= load.leaders and int(counts[group] - led[group]) <= spare:
            return [group, *order[:place], *order[place + 1 :]]
    return order


def _hand_out(room: Room, level: int, order: list[int], load: _Load) -> list[int]:
    """Gives groups their pods and leaders.

    Returns:
        The groups that have some; empty where they do not suffice.
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


def _down(room: Room, level: int, groups: list[int], *, equal: bool) -> list[int]:
    """From groups to leafs: above the slices' level all together, from there on each group for itself."""
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


def _each_down(room: Room, level: int, groups: list[int]) -> list[int]:
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
