"""What a network has more, less or otherwise than its inferred design, fault by fault."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.audit.blocks import usual_rate
from railyard.ask.audit.loads import Change
from railyard.ask.audit.symptom import Finding, Places
from railyard.cluster.asbuilt.discovery import UNKNOWN, natural
from railyard.cluster.asbuilt.ibnetdiscover import PORT_LANES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from railyard.ask.audit.absent import Absent
    from railyard.ask.audit.blocks import Block, PortMap
    from railyard.ask.audit.infer import Design, Group, HostPort
    from railyard.cluster.asbuilt.discovery import Discovery

RARE = 0.1
"""Share of the hosts' cables up to which a lower rate is a fault, and not another kind of host."""

_Pair = tuple[int, int]


def differences(found: Discovery, design: Design, absent: Sequence[Absent] = ()) -> list[Finding]:
    """All faults, unpriced.

    Args:
        found: The network, with a device for each absent switch.
        design: What was meant.
        absent: Switches that are not found, in the order of their devices, which are the last.
    """
    out: list[Finding] = []
    for number, (block, ports) in enumerate(zip(design.blocks, design.ports, strict=True)):
        out += _Cabling(found, block, ports, number).faults()
        out += _switches(found, block, number, absent)
        out += _slow_uplinks(found, block, ports, number)
    out += [_stray(found, cable) for cable in design.stray]
    holes = _holes(found, design)
    out += _hosts(found, design, holes)
    if len(holes) <= max(1, RARE * np.count_nonzero(design.level == 1)):  # their hosts may be in no file any more
        out += [_hole(found, leaf, port) for leaf, ports in holes.items() for port in ports]
    out += _slow_hosts(found)
    out += _loops(found)
    return out + _narrow(found, out)


def end_of(found: Discovery, cable: int, device: int) -> str:
    """The end of a cable at one of its devices."""
    return found.end_words(device, found.port(cable, device))


class _Cabling:
    """Cables too few and too many of one block, joined to swaps and moves where that explains two at once."""

    def __init__(self, found: Discovery, block: Block, ports: PortMap, number: int) -> None:
        self.found, self.block, self.ports, self.number = found, block, ports, number
        self.row = {device: row for row, device in enumerate(block.low.tolist())}
        self.column = {device: column for column, device in enumerate(block.high.tolist())}
        lack = block.meant - block.found
        self.few: Counter[_Pair] = Counter()
        self.many: list[tuple[_Pair, int]] = []
        for row, column in np.argwhere(lack != 0).tolist():
            pair, count = (int(block.low[row]), int(block.high[column])), int(lack[row, column])
            if count > 0:
                self.few[pair] = count
            else:
                self.many += [(pair, cable) for cable in ports.least_fitting(found, *pair, -count)]

    def faults(self) -> list[Finding]:
        swaps = self._swaps()
        moves = self._moves()
        extra = [self._extra(pair, cable) for pair, cable in self.many]
        return [*swaps, *moves, *extra, *self._missing()]

    def _change(self, pair: _Pair, cables: int) -> Change:
        return Change(self.row[pair[0]], self.column[pair[1]], cables)

    def _ends(self, pair: _Pair, cable: int) -> tuple[str, str]:
        return end_of(self.found, cable, pair[0]), end_of(self.found, cable, pair[1])

    def _swaps(self) -> list[Finding]:
        out: list[Finding] = []
        for first, one in list(self.many):
            for second, other in list(self.many):
                straight = ((first[0], second[1]), (second[0], first[1]))
                if one < other and all(self.few[pair] > 0 for pair in straight) and (first, one) in self.many:
                    out.append(self._swap((first, one), (second, other), straight))
                    break
        return out

    def _swap(self, one: tuple[_Pair, int], other: tuple[_Pair, int], straight: tuple[_Pair, _Pair]) -> Finding:
        self.many.remove(one)
        self.many.remove(other)
        self.few.subtract(straight)
        a, b = self._ends(*one)
        far = self._ends(*other)
        changes = [self._change(pair, 1) for pair in (one[0], other[0])]
        changes += [self._change(pair, -1) for pair in straight]
        words = f"exchange the plugs in {b} and {far[1]}: each cable then ends where the other does now"
        return Finding("swapped", a, b, words, far, self.number, tuple(changes))

    def _moves(self) -> list[Finding]:
        out = []
        for pair, cable in list(self.many):
            target = next((few for few in +self.few if few[0] == pair[0] or few[1] == pair[1]), None)
            if target is None:
                continue
            self.many.remove((pair, cable))
            port = self.ports.free(self.found, *target, 1)[0]
            self.few[target] -= 1
            a, b = self._ends(pair, cable)
            side = 1 if target[0] == pair[0] else 0
            words = f"move the plug from {(a, b)[side]} to {self.found.end_words(target[side], port[side])}"
            changes = (self._change(pair, 1), self._change(target, -1))
            out.append(Finding("misplaced", a, b, words, None, self.number, changes))
        return out

    def _extra(self, pair: _Pair, cable: int) -> Finding:
        words = f"{self.block.meant[self.row[pair[0]], self.column[pair[1]]]} between these two are usual"
        return Finding("extra", *self._ends(pair, cable), words, None, self.number, (self._change(pair, 1),))

    def _missing(self) -> list[Finding]:
        out = []
        for pair, count in sorted((+self.few).items()):
            if {*pair} & {*self.block.absent}:
                continue
            there = int(self.block.found[self.row[pair[0]], self.column[pair[1]]])
            words = f"{there} of {there + count} cables between the two are there"
            for low, high in self.ports.free(self.found, *pair, count):
                ends = self.found.end_words(pair[0], low), self.found.end_words(pair[1], high)
                out.append(Finding("missing", *ends, words, None, self.number, (self._change(pair, -1),)))
        return out


def _switches(found: Discovery, block: Block, number: int, absent: Sequence[Absent]) -> list[Finding]:
    """A finding for each switch of a block that is missing completely."""
    out = []
    for device in block.absent:
        one = absent[device - len(found.switch)]
        row, column = np.flatnonzero(block.low == device), np.flatnonzero(block.high == device)
        ends = [(int(row[0]), at) for at in range(len(block.high))] if len(row) else []
        ends += [(at, int(column[0])) for at in range(len(block.low))] if len(column) else []
        changes = tuple(Change(low, high, -int(block.meant[low, high])) for low, high in ends)
        hosts = float(one.hosts)
        out.append(Finding("missing-switch", one.name, UNKNOWN, one.words, None, number, changes, idle=hosts))
    return out


def _slow_uplinks(found: Discovery, block: Block, ports: PortMap, number: int) -> list[Finding]:
    out = []
    row = {device: at for at, device in enumerate(block.low.tolist())}
    column = {device: at for at, device in enumerate(block.high.tolist())}
    for (low, high), cables in ports.cables.items():
        for cable in cables:
            rate = int(found.rate_bps[cable])
            if low in row and high in column and 0 < rate < block.rate_bps:
                change = Change(row[low], column[high], 0, rate / block.rate_bps)
                ends = end_of(found, cable, low), end_of(found, cable, high)
                words = f"{_speed(found, cable)} where its like have {_gigabit(block.rate_bps)}"
                out.append(Finding("degraded", *ends, words, None, number, (change,)))
    return out


def _speed(found: Discovery, cable: int) -> str:
    lanes = found.cables[cable].lanes
    return _gigabit(int(found.rate_bps[cable])) + (
        f" on {lanes} of {PORT_LANES} lanes" if 0 < lanes < PORT_LANES else ""
    )


def _gigabit(rate: int) -> str:
    return f"{rate / 1e9:g} Gb/s"


def _loops(found: Discovery) -> list[Finding]:
    same = np.flatnonzero(found.ends[:, 0] == found.ends[:, 1])
    cables = [found.cables[one] for one in same.tolist() if found.switch[found.ends[one, 0]]]
    words = "both ends are in this switch"
    return [Finding("extra", found.end_words(c.a, c.a_port), found.end_words(c.b, c.b_port), words) for c in cables]


def _narrow(found: Discovery, named: list[Finding]) -> list[Finding]:
    """Cables on one lane among wider ones that nothing above names: ports are split in halves, never in quarters."""
    known = {frozenset((one.a, one.b)) for one in named if one.kind == "degraded"}
    lanes = np.array([cable.lanes for cable in found.cables])
    out = []
    for number in np.flatnonzero(lanes == 1).tolist() if lanes.max(initial=0) > 1 else []:
        cable = found.cables[number]
        a, b = found.end_words(cable.a, cable.a_port), found.end_words(cable.b, cable.b_port)
        if frozenset((a, b)) not in known:
            unpriced = "which traffic takes it is not known: it is in no regular part of the design"
            out.append(Finding("degraded", a, b, _speed(found, number), unpriced=unpriced))
    return out


def _stray(found: Discovery, cable: int) -> Finding:
    one, other = found.ends[cable].tolist()
    words = "these two switches are not joined in the design"
    return Finding("extra", end_of(found, cable, one), end_of(found, cable, other), words)


def _hosts(found: Discovery, design: Design, holes: dict[int, list[str]]) -> list[Finding]:
    """Ports of hosts that are on another leaf than those of their like, and those that are not there.

    A port that is not there takes one of the holes of its leaf.
    """
    out: list[Finding] = []
    places = Places(design)
    lack = _lack(design.groups)
    for group in design.groups:
        wrong = [
            port
            for ports in group.hosts.values()
            for part, port in ports.items()
            if port.leaf != group.leaf_of.get(part, port.leaf)
        ]
        out += _crossed(found, places, wrong, design.meant_leaf)
        out += _absent(found, group, lack, (design.nameless, holes))
    return out


def _crossed(found: Discovery, places: Places, wrong: list[HostPort], meant_leaf: Mapping[int, int]) -> list[Finding]:
    out = []
    left = list(wrong)
    while left:
        port = left.pop(0)
        meant = meant_leaf[port.cable]
        partner = next((one for one in left if one.leaf == meant and meant_leaf[one.cable] == port.leaf), None)
        a, b = end_of(found, port.cable, port.host), end_of(found, port.cable, port.leaf)
        like = f"its peers are on {found.devices[meant].name}"
        moves = [places.move(port.host, meant, port.leaf)]
        if partner is None:
            kind, words, far = "misplaced", f"move the plug from {b} to {found.devices[meant].name}: {like}", None
        else:
            left.remove(partner)
            far = end_of(found, partner.cable, partner.host), end_of(found, partner.cable, partner.leaf)
            kind, words = "swapped", f"exchange the plugs in {b} and {far[1]}: {like}"
            moves.append(places.move(partner.host, port.leaf, meant))
        block = next((move[0] for move in moves if move is not None), -1)
        out.append(Finding(kind, a, b, words, far, block, tuple(move[1] for move in moves if move is not None)))
    return out


def _lack(groups: Sequence[Group]) -> dict[str, tuple[int, int]]:
    """By part that hosts may have: how many have not, and fewer ports than is usual; and all hosts of groups."""
    every = [ports for group in groups for ports in group.hosts.values()]
    usual = Counter(len(ports) for ports in every).most_common(1)
    parts = {part for ports in every for part in ports}
    return {
        part: (sum(part not in ports and len(ports) < usual[0][0] for ports in every), len(every)) for part in parts
    }


def _absent(
    found: Discovery,
    group: Group,
    lack: Mapping[str, tuple[int, int]],
    about: tuple[frozenset[int], dict[int, list[str]]],
) -> list[Finding]:
    """Parts that nearly all hosts have; a leaf with nameless hosts may have them under no name."""
    out = []
    nameless, holes = about
    usual = Counter(len(ports) for ports in group.hosts.values()).most_common(1)[0][0]
    for part, leaf in group.leaf_of.items():
        few, hosts = lack[part]
        if leaf in nameless or few > max(1, RARE * hosts):
            continue
        for name, ports in group.hosts.items():
            if part in ports or len(ports) >= usual:
                continue
            words = f"{hosts - few} of {hosts} like hosts have it"
            a = f"{name} {part}[1]" if found.devices[next(iter(ports.values())).host].part else f"{name}[{part}]"
            slower = usual / max(len(ports), 1)
            port = holes[leaf].pop(0) if holes.get(leaf) else UNKNOWN
            out.append(Finding("missing", a, found.end_words(leaf, port), words, slower=slower))
    return out


def _holes(found: Discovery, design: Design) -> dict[int, list[str]]:
    """Ports of leafs without a host where most leafs have one, and all of those that are as full as most."""
    absent = [device for block in design.blocks for device in block.absent]
    leafs = np.setdiff1d(np.flatnonzero(design.level == 1), absent)
    count = found.hosts_of[leafs]
    usual = int(np.bincount(count).argmax()) if len(count) else 0
    short = leafs[count < usual]
    if len(leafs) < GROUP_OF_LEAFS or (count > usual).any() or 2 * len(short) >= len(leafs):
        return {}
    used = _host_ports(found, set(leafs.tolist()))
    out: dict[int, list[str]] = {}
    for leaf in short.tolist():
        others = Counter(port for other, ports in used.items() if other not in short for port in ports)
        gone = sorted((port for port, times in others.items() if times == len(leafs) - len(short)), key=natural)
        out[leaf] = [port for port in gone if port not in found.cables_of[leaf]]
    return out


def _hole(found: Discovery, leaf: int, port: str) -> Finding:
    words = "every other leaf has a host in this port"
    return Finding("missing", found.end_words(leaf, port), UNKNOWN, words, idle=1.0)


GROUP_OF_LEAFS = 3
"""Leafs that must be alike before a free port on one of them says anything."""


def _host_ports(found: Discovery, leafs: set[int]) -> dict[int, set[str]]:
    used: dict[int, set[str]] = {leaf: set() for leaf in leafs}
    for cable, (leaf, _) in zip(found.access.tolist(), found.access_ends.tolist(), strict=True):
        if leaf in used:
            used[leaf].add(found.port(cable, leaf))
    return used


def _slow_hosts(found: Discovery) -> list[Finding]:
    rate = found.rate_bps[found.access]
    usual = usual_rate(rate)
    slow = np.flatnonzero((rate > 0) & (rate < usual))
    if len(slow) > RARE * len(rate):
        return []
    out = []
    for at in slow.tolist():
        cable, (leaf, host) = int(found.access[at]), found.access_ends[at].tolist()
        words = f"{_speed(found, cable)} where its like have {_gigabit(usual)}"
        ends = end_of(found, cable, host), end_of(found, cable, leaf)
        out.append(Finding("degraded", *ends, words, slower=usual / int(rate[at])))
    return out
