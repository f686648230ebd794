"""Missing switches in a network without a plan: all other switches leave a port free for them.

A switch that is absent takes all of its cables with it, so that no pair of switches lacks any. But every switch of the
tier below (or above) has the same ports free for it. Free ports alone mean nothing: many are meant to be free. They are
taken for an absent switch where they lie between those of similar switches, where the names of these begin after its
own, where hosts lack a rail, or where one upper switch more makes an odd ratio of what leads down and up a whole one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import pairwise, product
from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.audit.infer import tier_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from railyard.ask.audit.blocks import ClosBlock
    from railyard.ask.audit.infer import HostGroup, InferredDesign
    from railyard.cluster.network_table import NetworkTable


MOST = 4
"""Ports that a switch may have for each that is used, at most, for the names of the others to be guessed."""

_DIGITS = re.compile(r"([0-9]{1,9})")


@dataclass(frozen=True)
class NameSeries:
    """Names that differ in one number.

    Attributes:
        width: Of the number, with zeros before it; 1: none.
    """

    head: str
    tail: str
    width: int
    numbers: frozenset[int]

    @classmethod
    def of(cls, names: Iterable[str]) -> NameSeries | None:
        """The series of some names, of one by its last number; None where they differ in anything but one number."""
        parts = [_DIGITS.split(name) for name in dict.fromkeys(names)]
        if not parts or len({len(one) for one in parts}) > 1 or len(parts[0]) == 1:
            return None
        differ = [at for at in range(len(parts[0])) if len({one[at] for one in parts}) > 1] or [len(parts[0]) - 2]
        if len(differ) != 1 or differ[0] % 2 == 0:
            return None
        (at,) = differ
        texts = {one[at] for one in parts}
        width = len(next(iter(texts))) if len({len(one) for one in texts}) == 1 else 1
        first = parts[0]
        return cls("".join(first[:at]), "".join(first[at + 1 :]), width, frozenset(map(int, texts)))

    def name(self, number: int) -> str:
        """The name with a number."""
        return f"{self.head}{number:0{self.width}d}{self.tail}"

    @property
    def between(self) -> list[str]:
        """Names that are absent between those that are there."""
        missing = sorted(set(range(min(self.numbers), max(self.numbers))) - self.numbers)
        return [self.name(number) for number in missing]

    def before(self, first: int) -> list[str]:
        """Names that are absent before the first that is there, where others count from `first`."""
        return [self.name(number) for number in range(first, min(self.numbers))]

    @property
    def after(self) -> str:
        """The name after the last that is there."""
        return self.name(max(self.numbers) + 1)


def grid_gap(names: Iterable[str]) -> list[str]:
    """The one name that completes a grid of two numbers; empty where none or several are absent."""
    parts = [re.fullmatch(r"(.*?)(\d+)(\D+)(\d+)", name) for name in names]
    found = {(part[2], part[4]): part for part in parts if part}
    if not parts or len(found) != len(parts):
        return []
    gone = [
        (row, column)
        for row in dict.fromkeys(row for row, _ in found)
        for column in dict.fromkeys(column for _, column in found)
        if (row, column) not in found
    ]
    if len(gone) != 1:
        return []
    row, column = gone[0]
    like = next(part for (_, other), part in found.items() if other == column)
    return [f"{like[1]}{row}{like[3]}{column}"]


def every_port(used: Iterable[str], count: int = 0) -> list[str]:
    """All ports that switches of a kind have, in their order, from those that are used; empty where that is not clear.

    Cages are counted from the lowest to the highest that is used, in the steps in which they are counted (SONiC counts
    lanes); each cage has the lanes that any has.

    Args:
        used: Names that switches of the kind have used.
        count: Ports of each, where they are counted straight on from 1; 0: not known.
    """
    names = list(dict.fromkeys(used))
    parts = [_DIGITS.split(name) for name in names]
    if not parts or len({tuple(one[::2]) for one in parts}) != 1:
        return []
    if parts[0] and len(parts[0]) == 3 and not parts[0][0] and count:
        return [str(number) for number in range(1, count + 1)]
    columns = [sorted({int(one[at]) for one in parts}) for at in range(1, len(parts[0]), 2)]
    ranges = [_steps(column) if at < len(columns) - 1 or at == 0 else column for at, column in enumerate(columns)]
    total = 1
    for column in ranges:
        total *= len(column)
    if total > MOST * len(names):
        return []
    text = parts[0][::2]
    return ["".join(a + b for a, b in zip(text, [*map(str, numbers), ""], strict=True)) for numbers in product(*ranges)]


def _steps(column: list[int]) -> list[int]:
    """Positions from the first to the last, in the steps in which they are counted."""
    step = gcd(*(b - a for a, b in pairwise(column))) if len(column) > 1 else 1
    return list(range(column[0], column[-1] + 1, step))


FEW = 4
"""One switch at least, and one in so many, may be absent: more are a smaller network."""

LEAST_PARTS = 3
"""Ports that hosts must have for one more to be missed on all of them."""


@dataclass(frozen=True)
class Absent:
    """A switch that is not found.

    Attributes:
        block: Number of the block that it belongs to; -1: none, of a network of leafs alone.
        ports: That the switches at the far ends have free for it.
        hosts: Ports of hosts that have no cable because it is missing.
    """

    block: int
    low: bool
    name: str
    ports: tuple[str, ...]
    hosts: int
    words: str


def completed(found: NetworkTable, design: InferredDesign) -> tuple[NetworkTable, InferredDesign, tuple[Absent, ...]]:
    """A network with the switches that are absent, without cables, and its design with theirs."""
    absent: list[Absent] = []
    for number in range(len(design.blocks)):
        absent += [*_above(found, design, number), *_below(found, design, number)]
    known: dict[str, Absent] = {}
    for one in absent:  # of a tier in the middle both its blocks tell: the lower one, whose load is larger
        known.setdefault(one.name, one)
    absent = list(known.values())
    if not absent:
        return found, design, ()
    first, names, blank = len(found.name), [one.name for one in absent], [""] * len(absent)
    whole = replace(
        found,
        key=[*found.key, *(f"absent {name}" for name in names)],
        name=[*found.name, *names],
        label=[*found.label, *names],
        kind=[*found.kind, *["switch"] * len(absent)],
        part=[*found.part, *blank],
        chassis=[*found.chassis, *blank],
        sockets=[*found.sockets, *[0] * len(absent)],
    )
    level, blocks, ports = [*design.level.tolist()], list(design.blocks), list(design.ports)
    for device, one in enumerate(absent, first):
        block = blocks[one.block]
        level.append(block.tier + (not one.low))
        blocks[one.block] = _with(block, one, device)
        ports[one.block] = ports[one.block].with_switch(device, one.ports, low=one.low, trunk=block.trunk)
    return (
        whole,
        replace(design, level=np.array(level, np.int8), blocks=tuple(blocks), ports=tuple(ports)),
        tuple(absent),
    )


def _with(block: ClosBlock, one: Absent, device: int) -> ClosBlock:
    axis = 0 if one.low else 1
    shape = (1, block.found.shape[1]) if one.low else (block.found.shape[0], 1)
    return replace(
        block,
        low=np.append(block.low, device) if one.low else block.low,
        high=block.high if one.low else np.append(block.high, device),
        found=np.concatenate([block.found, np.zeros(shape, np.int64)], axis=axis),
        meant=np.concatenate([block.meant, np.full(shape, block.trunk)], axis=axis),
        absent=(*block.absent, device),
    )


@dataclass(frozen=True)
class _Tier:
    """One side of a block, and the ports that all switches of the other side have free.

    Attributes:
        series: Of their names; None where they do not count.
        first: From which number the names of other tiers count; None where they do not.
        before, between, after: Free ports by where they are to those of this side; before and after the nearest first.
    """

    number: int
    block: ClosBlock
    low: bool
    names: list[str]
    series: NameSeries | None
    first: int | None
    before: list[str]
    between: list[str]
    after: list[str]

    @classmethod
    def of(cls, found: NetworkTable, design: InferredDesign, number: int, *, low: bool) -> _Tier | None:
        """A side of a block; None where names of ports do not count."""
        block, ports = design.blocks[number], design.ports[number]
        near, far = (block.low, block.high) if low else (block.high, block.low)
        mine = {port for listed in (ports.down if low else ports.up).values() for port in listed}
        count = {found.sockets[one] for one in far.tolist()}
        used = {port for one in np.flatnonzero(found.switch).tolist() for port in found.cables_of[one]}
        at = {port: place for place, port in enumerate(every_port(used, count.pop() if len(count) == 1 else 0))}
        if not mine or not mine <= at.keys() or not block.trunk:
            return None
        taken = {port for one in far.tolist() for port in found.cables_of[one]}
        free, places = [port for port in at if port not in taken], [at[port] for port in mine]
        names = [found.name[one] for one in near.tolist()]
        others = (design.level > 0) & (design.level != block.tier + (not low))
        base = NameSeries.of(found.name[one] for one in np.flatnonzero(others).tolist())
        return cls(
            number,
            block,
            low,
            names,
            NameSeries.of(names),
            min(base.numbers) if base and min(base.numbers) <= 1 else None,
            [port for port in reversed(free) if at[port] < min(places)],
            [port for port in free if min(places) < at[port] < max(places)],
            [port for port in free if at[port] > max(places)],
        )

    @property
    def most(self) -> int:
        return max(1, len(self.names) // FEW)

    def inside(self) -> list[Absent]:
        """Switches whose ports are between those of similar ones; a single far switch counts only if names agree."""
        count, rest = divmod(len(self.between), self.block.trunk)
        gaps = (self.series.between if self.series else []) or grid_gap(self.names)
        alone = len(self.block.high if self.low else self.block.low) < 2 and len(gaps) != count
        if rest or count > self.most or alone:
            return []
        names = gaps if len(gaps) == count else [f"a {self.word} switch ({at + 1})" for at in range(count)]
        return [self._absent(at, name, self.between, "between those to its peers") for at, name in enumerate(names)]

    def leading(self) -> list[Absent]:
        names = self.series.before(self.first) if self.series and self.first is not None else []
        needed = self.block.trunk * len(names)
        if not 0 < len(names) <= self.most or len(self.before) < needed:
            return []
        ports = self.before[:needed][::-1]
        why = "before those to its peers, whose names start after it"
        return [self._absent(at, name, ports, why) for at, name in enumerate(names)]

    def trailing(self, why: str) -> Absent:
        return self._absent(0, self.series.after if self.series else f"a {self.word} switch", self.after, why)

    @property
    def word(self) -> str:
        return tier_name(self.block.tier + (not self.low))

    def _absent(self, at: int, name: str, free: list[str], why: str) -> Absent:
        ports = tuple(free[at * self.block.trunk : (at + 1) * self.block.trunk])
        far, tier = (self.block.high, self.block.tier + 1) if self.low else (self.block.low, self.block.tier)
        listed = f"ports {ports[0]} to {ports[-1]} are" if len(ports) > 1 else f"port {''.join(ports)} is"
        free_on = f"{listed} free on all {len(far)} {tier_name(tier)} switches, " if ports else ""
        return Absent(self.number, low=self.low, name=name, ports=ports, hosts=0, words=f"{free_on}{why}")


def _above(found: NetworkTable, design: InferredDesign, number: int) -> list[Absent]:
    """Upper switches of a block for which all lower ones have the same ports free."""
    tier = _Tier.of(found, design, number, low=False)
    if tier is None or len(tier.block.low) < 2:
        return []
    listed = tier.inside() or tier.leading()
    if listed or len(tier.after) < tier.block.trunk or not _evens_out(found, tier):
        return listed
    return [tier.trailing("after those to its peers; with it, uplinks equal downlinks")]


def _evens_out(found: NetworkTable, tier: _Tier) -> bool:
    """Whether what is below is no multiple of half of what is above, and is one of all with an upper switch more.

    Only where one of the two tiers has no other port free: else there may be few hosts as yet.
    """
    block = tier.block
    spines_full = all(found.sockets[one] == len(found.cables_of[one]) for one in block.high.tolist())
    if block.tier > 1 or not (spines_full or len(tier.after) == block.trunk):
        return False
    down, up = int(np.bincount(found.hosts_of[block.low]).argmax()), block.trunk * len(block.high)
    return down > 0 and 2 * down % up > 0 and down % (up + block.trunk) == 0


def _below(found: NetworkTable, design: InferredDesign, number: int) -> list[Absent]:
    """Lower switches of a block for which all upper ones have the same ports free, with the hosts that lack them."""
    tier = _Tier.of(found, design, number, low=True)
    if tier is None:
        return []
    lacked = _rails(design.groups) if tier.block.tier == 1 else []
    listed = [*tier.leading(), *tier.inside()]
    if not listed and len(lacked) == 1:
        listed = [tier.trailing("after those to its peers")]
    usual = int(np.bincount(found.hosts_of[tier.block.low]).argmax()) if tier.block.tier == 1 else 0
    return [
        replace(one, hosts=lacked[at], words=f"{one.words}; {lacked[at]} hosts have no cable to it")
        if at < len(lacked)
        else replace(one, hosts=usual, words=f"{one.words}; {usual} host ports are missing too")
        if usual
        else one
        for at, one in enumerate(listed)
    ]


def _rails(groups: Sequence[HostGroup]) -> list[int]:
    """Sizes of the groups whose hosts all lack one rail and have all other parts.

    What hosts have is known from a group that has one part more, from a number that their parts leave out, or from
    being one short of a power of two.
    """
    every = [set(group.leaf_of) for group in groups]
    out = []
    for group, mine in zip(groups, every, strict=True):
        series = NameSeries.of(mine)
        lack = any(mine < other and len(other) == len(mine) + 1 for other in every)
        gap = series is not None and len(series.between) == 1
        short = not lack and len({*map(len, every)}) == 1 and len(mine) + 1 == 1 << len(mine).bit_length()
        if len(mine) >= LEAST_PARTS and (lack or gap or short):
            out.append(len(group.hosts))
    return out
