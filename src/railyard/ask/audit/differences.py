"""What a network has more, less or otherwise than its inferred design, fault by fault."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.audit.blocks import usual_rate
from railyard.ask.audit.symptom import AuditFinding, BlockPlaces, CableChange
from railyard.cluster.asbuilt.ibnetdiscover import PORT_LANES
from railyard.cluster.network_table import UNKNOWN, natural

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from railyard.ask.audit.absent import Absent
    from railyard.ask.audit.blocks import ClosBlock, PortMap
    from railyard.ask.audit.infer import HostGroup, HostPort, InferredDesign
    from railyard.cluster.network_table import NetworkTable

RARE = 0.1
"""Share of the hosts' cables up to which a lower rate is a fault, and not another kind of host."""

_Pair = tuple[int, int]


def differences(found: NetworkTable, design: InferredDesign, absent: Sequence[Absent] = ()) -> list[AuditFinding]:
    """All faults, unpriced.

    Args:
        found: The network, with a device for each absent switch.
        design: What was meant.
        absent: Switches that are not found, in the order of their devices, which are the last.
    """
    out: list[AuditFinding] = []
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


def end_of(found: NetworkTable, cable: int, device: int) -> str:
    """The end of a cable at one of its devices."""
    return found.end_words(device, found.port(cable, device))


class _Cabling:
    """Cables too few and too many of one block, joined to swaps and moves where that explains two at once."""

    def __init__(self, found: NetworkTable, block: ClosBlock, ports: PortMap, number: int) -> None:
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

    def faults(self) -> list[AuditFinding]:
        swaps = self._swaps()
        moves = self._moves()
        extra = [self._extra(pair, cable) for pair, cable in self.many]
        return [*swaps, *moves, *extra, *self._missing()]

    def _change(self, pair: _Pair, cables: int) -> CableChange:
        return CableChange(self.row[pair[0]], self.column[pair[1]], cables)

    def _ends(self, pair: _Pair, cable: int) -> tuple[str, str]:
        return end_of(self.found, cable, pair[0]), end_of(self.found, cable, pair[1])

    def _swaps(self) -> list[AuditFinding]:
        out: list[AuditFinding] = []
        for first, one in list(self.many):
            for second, other in list(self.many):
                straight = ((first[0], second[1]), (second[0], first[1]))
                if one < other and all(self.few[pair] > 0 for pair in straight) and (first, one) in self.many:
                    out.append(self._swap((first, one), (second, other), straight))
                    break
        return out

    def _swap(self, one: tuple[_Pair, int], other: tuple[_Pair, int], straight: tuple[_Pair, _Pair]) -> AuditFinding:
        self.many.remove(one)
        self.many.remove(other)
        self.few.subtract(straight)
        a, b = self._ends(*one)
        far = self._ends(*other)
        changes = [self._change(pair, 1) for pair in (one[0], other[0])]
        changes += [self._change(pair, -1) for pair in straight]
        words = f"swap the plugs in {b} and {far[1]}: then each cable ends where the other ends now"
        return AuditFinding("swapped", a, b, words, far, self.number, tuple(changes))

    def _moves(self) -> list[AuditFinding]:
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
            out.append(AuditFinding("misplaced", a, b, words, None, self.number, changes))
        return out

    def _extra(self, pair: _Pair, cable: int) -> AuditFinding:
        words = f"{self.block.meant[self.row[pair[0]], self.column[pair[1]]]} between these two are usual"
        return AuditFinding("extra", *self._ends(pair, cable), words, None, self.number, (self._change(pair, 1),))

    def _missing(self) -> list[AuditFinding]:
        out = []
        for pair, count in sorted((+self.few).items()):
            if {*pair} & {*self.block.absent}:
                continue
            there = int(self.block.found[self.row[pair[0]], self.column[pair[1]]])
            words = f"{there} of {there + count} cables found"
            for low, high in self.ports.free(self.found, *pair, count):
                ends = self.found.end_words(pair[0], low), self.found.end_words(pair[1], high)
                out.append(AuditFinding("missing", *ends, words, None, self.number, (self._change(pair, -1),)))
        return out


def _switches(found: NetworkTable, block: ClosBlock, number: int, absent: Sequence[Absent]) -> list[AuditFinding]:
    """A finding for each switch of a block that is missing completely."""
    out = []
    for device in block.absent:
        one = absent[device - len(found.switch)]
        row, column = np.flatnonzero(block.low == device), np.flatnonzero(block.high == device)
        ends = [(int(row[0]), at) for at in range(len(block.high))] if len(row) else []
        ends += [(at, int(column[0])) for at in range(len(block.low))] if len(column) else []
        changes = tuple(CableChange(low, high, -int(block.meant[low, high])) for low, high in ends)
        hosts = float(one.hosts)
        out.append(AuditFinding("missing-switch", one.name, UNKNOWN, one.words, None, number, changes, idle=hosts))
    return out


def _slow_uplinks(found: NetworkTable, block: ClosBlock, ports: PortMap, number: int) -> list[AuditFinding]:
    out = []
    row = {device: at for at, device in enumerate(block.low.tolist())}
    column = {device: at for at, device in enumerate(block.high.tolist())}
    for (low, high), cables in ports.cables.items():
        for cable in cables:
            rate = int(found.rate_bps[cable])
            if low in row and high in column and 0 < rate < block.rate_bps:
                change = CableChange(row[low], column[high], 0, rate / block.rate_bps)
                ends = end_of(found, cable, low), end_of(found, cable, high)
                words = f"{_speed(found, cable)}; similar cables have {_gigabit(block.rate_bps)}"
                out.append(AuditFinding("degraded", *ends, words, None, number, (change,)))
    return out


def _speed(found: NetworkTable, cable: int) -> str:
    lanes = int(found.lanes[cable])
    return _gigabit(int(found.rate_bps[cable])) + (
        f" on {lanes} of {PORT_LANES} lanes" if 0 < lanes < PORT_LANES else ""
    )


def _gigabit(rate: int) -> str:
    return f"{rate / 1e9:g} Gb/s"


def _loops(found: NetworkTable) -> list[AuditFinding]:
    same = np.flatnonzero(found.ends[:, 0] == found.ends[:, 1])
    words = "both ends are in this switch"
    cables = same[found.switch[found.ends[same, 0]]].tolist()
    return [AuditFinding("extra", *found.both_ends(cable), words) for cable in cables]


def _narrow(found: NetworkTable, named: list[AuditFinding]) -> list[AuditFinding]:
    """Cables on one lane among wider ones that nothing above names: ports are split in halves, never in quarters."""
    known = {frozenset((one.a, one.b)) for one in named if one.kind == "degraded"}
    out = []
    for number in np.flatnonzero(found.lanes == 1).tolist() if found.lanes.max(initial=0) > 1 else []:
        a, b = found.both_ends(number)
        if frozenset((a, b)) not in known:
            unpriced = "its traffic is unknown: it lies outside the regular part of the design"
            out.append(AuditFinding("degraded", a, b, _speed(found, number), unpriced=unpriced))
    return out


def _stray(found: NetworkTable, cable: int) -> AuditFinding:
    one, other = found.ends[cable].tolist()
    words = "the design has no cable between these two switches"
    return AuditFinding("extra", end_of(found, cable, one), end_of(found, cable, other), words)


def _hosts(found: NetworkTable, design: InferredDesign, holes: dict[int, list[str]]) -> list[AuditFinding]:
    """Ports of hosts that are on another leaf than those of similar hosts, and those that are missing.

    A port that is not there takes one of the holes of its leaf.
    """
    out: list[AuditFinding] = []
    places = BlockPlaces(design)
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


def _crossed(
    found: NetworkTable, places: BlockPlaces, wrong: list[HostPort], meant_leaf: Mapping[int, int]
) -> list[AuditFinding]:
    out = []
    left = list(wrong)
    while left:
        port = left.pop(0)
        meant = meant_leaf[port.cable]
        partner = next((one for one in left if one.leaf == meant and meant_leaf[one.cable] == port.leaf), None)
        a, b = end_of(found, port.cable, port.host), end_of(found, port.cable, port.leaf)
        like = f"its peers connect to {found.name[meant]}"
        moves = [places.move(port.host, meant, port.leaf)]
        if partner is None:
            kind, words, far = "misplaced", f"move the plug from {b} to {found.name[meant]}: {like}", None
        else:
            left.remove(partner)
            far = end_of(found, partner.cable, partner.host), end_of(found, partner.cable, partner.leaf)
            kind, words = "swapped", f"swap the plugs in {b} and {far[1]}: {like}"
            moves.append(places.move(partner.host, port.leaf, meant))
        block = next((move[0] for move in moves if move is not None), -1)
        out.append(AuditFinding(kind, a, b, words, far, block, tuple(move[1] for move in moves if move is not None)))
    return out


def _lack(groups: Sequence[HostGroup]) -> dict[str, tuple[int, int]]:
    """For each part, how many hosts lack it and have fewer ports than usual; and the number of hosts."""
    every = [ports for group in groups for ports in group.hosts.values()]
    usual = Counter(len(ports) for ports in every).most_common(1)
    parts = {part for ports in every for part in ports}
    return {
        part: (sum(part not in ports and len(ports) < usual[0][0] for ports in every), len(every)) for part in parts
    }


def _absent(
    found: NetworkTable,
    group: HostGroup,
    lack: Mapping[str, tuple[int, int]],
    about: tuple[frozenset[int], dict[int, list[str]]],
) -> list[AuditFinding]:
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
            words = f"{hosts - few} of {hosts} similar hosts have it"
            a = f"{name} {part}[1]" if found.part[next(iter(ports.values())).host] else f"{name}[{part}]"
            slower = usual / max(len(ports), 1)
            port = holes[leaf].pop(0) if holes.get(leaf) else UNKNOWN
            out.append(AuditFinding("missing", a, found.end_words(leaf, port), words, slower=slower))
    return out


def _holes(found: NetworkTable, design: InferredDesign) -> dict[int, list[str]]:
    """Ports of leafs without a host where most leafs have one, and all of those that are as full as most."""
    absent = [device for block in design.blocks for device in block.absent]
    leafs = np.setdiff1d(np.flatnonzero(design.level == 1), absent)
    count = found.hosts_of[leafs]
    usual = int(np.bincount(count).argmax()) if len(count) else 0
    short = leafs[count < usual]
    if len(leafs) < GROUP_OF_LEAFS or (count > usual).any() or 2 * len(short) >= len(leafs):
        return {}
    used = _host_ports(found, leafs.tolist())
    out: dict[int, list[str]] = {}
    for leaf in short.tolist():
        others = Counter(port for other, ports in used.items() if other not in short for port in ports)
        gone = sorted((port for port, times in others.items() if times == len(leafs) - len(short)), key=natural)
        out[leaf] = [port for port in gone if port not in found.cables_of[leaf]]
    return out


def _hole(found: NetworkTable, leaf: int, port: str) -> AuditFinding:
    words = "every other leaf has a host on this port"
    return AuditFinding("missing", found.end_words(leaf, port), UNKNOWN, words, idle=1.0)


GROUP_OF_LEAFS = 3
"""Leafs that must be alike before a free port on one of them says anything."""


def _host_ports(found: NetworkTable, leafs: list[int]) -> dict[int, set[str]]:
    return {leaf: {port for port, _, far, _ in found.far_ends[leaf] if found.host[far]} for leaf in leafs}


def _slow_hosts(found: NetworkTable) -> list[AuditFinding]:
    rate = found.rate_bps[found.access]
    usual = usual_rate(rate)
    slow = np.flatnonzero((rate > 0) & (rate < usual))
    if len(slow) > RARE * len(rate):
        return []
    out = []
    for at in slow.tolist():
        cable, (leaf, host) = int(found.access[at]), found.access_ends[at].tolist()
        words = f"{_speed(found, cable)}; similar cables have {_gigabit(usual)}"
        ends = end_of(found, cable, host), end_of(found, cable, leaf)
        out.append(AuditFinding("degraded", *ends, words, slower=usual / int(rate[at])))
    return out
