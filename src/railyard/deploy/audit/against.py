"""A network as found against its plan, cable by cable."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railyard.cluster.asbuilt.port_names import same_port
from railyard.deploy.audit.finding import Finding

if TYPE_CHECKING:
    from railyard.cluster.asbuilt.discovery import Discovery

LENGTH = 0.1
"""A cable is of another length when it differs by more than this share, and half a metre."""

FRAME_HEADER = 18
"""Bytes by which some programs count a frame larger than what it carries: Ethernet's header and check."""

PATH_MTU = (256, 512, 1024, 2048, 4096)
"""Payloads of a packet that InfiniBand and RoCE know."""

ROCE_HEADERS = 96
"""Of an interface's frames, what is kept for headers when RoCE's payload is chosen (Linux, ib_addr.h: iboe_get_mtu)."""

WIRE_HEADER = 82
"""Bytes around a payload on the wire: the fabric `roce`'s."""

_End = tuple[str, str]


@dataclass(frozen=True)
class Difference:
    """A finding with the planned cables that it takes away or slows.

    Attributes:
        finding: What is wrong.
        lost: Cables of the plan, by number, that do not carry what they should.
        slow: Cables of the plan that are there, by number, and what they have of their rate.
        added: Pairs of names of devices that are joined by a cable more than planned.
    """

    finding: Finding
    lost: tuple[int, ...] = ()
    slow: tuple[tuple[int, float], ...] = ()
    added: tuple[tuple[str, str], ...] = ()


@dataclass
class _Side:
    """Cables of one discovery by their ends."""

    discovery: Discovery
    ends: list[tuple[_End, _End]] = field(default_factory=list)
    at: dict[_End, int] = field(default_factory=dict)

    @classmethod
    def of(cls, discovery: Discovery) -> _Side:
        side = cls(discovery)
        side.ends = ends_of(discovery)
        for number, ends in enumerate(side.ends):
            for end in ends:
                side.at.setdefault(end, number)
        return side

    def far(self, end: _End) -> _End | None:
        number = self.at.get(end)
        if number is None:
            return None
        one, other = self.ends[number]
        return other if one == end else one


def ends_of(discovery: Discovery) -> list[tuple[_End, _End]]:
    """Device and port at both ends of each cable, in one spelling."""
    names = [device.described for device in discovery.devices]
    return [
        ((names[cable.a], same_port(cable.a_port)), (names[cable.b], same_port(cable.b_port)))
        for cable in discovery.cables
    ]


def text(end: _End) -> str:
    """`leaf1[5]`."""
    return f"{end[0]}[{end[1]}]"


def matched(planned: Discovery, found: Discovery) -> float:
    """Share of a plan's ends that a discovery has, by name."""
    plan, there = _Side.of(planned), _Side.of(found)
    return sum(end in there.at for end in plan.at) / max(len(plan.at), 1)


def compare(planned: Discovery, found: Discovery) -> list[Difference]:
    """All differences; ends are those of the file where it has them, else of the plan."""
    return _Comparison(_Side.of(planned), _Side.of(found)).differences()


class _Comparison:
    def __init__(self, plan: _Side, found: _Side) -> None:
        self.plan, self.found = plan, found
        self.known = {device.described for device in plan.discovery.devices}
        self.right: list[tuple[int, int]] = []
        self.wrong: dict[int, None] = {}
        self.gone: dict[int, None] = {}

    def differences(self) -> list[Difference]:
        kept = {}
        for number, (one, other) in enumerate(self.found.ends):
            planned = self.plan.at.get(one)
            if planned is not None and self.plan.far(one) == other:
                kept[planned] = number
            else:
                self.wrong[number] = None
        self.right = sorted(kept.items())
        self.gone = dict.fromkeys(number for number in range(len(self.plan.ends)) if number not in kept)
        out = [*self._swaps(), *self._relabelled(), *self._moves(), *self._renumbered()]
        out += [self._left(number) for number in list(self.wrong)]
        out += [self._missing(number) for number in self.gone]
        return out + [one for planned, number in self.right for one in self._properties(planned, number)]

    def _relabelled(self) -> list[Difference]:
        """One end where it belongs, the other in another port of the right device."""
        out = []
        for number in list(self.wrong):
            for one, other in (self.found.ends[number], self.found.ends[number][::-1]):
                meant, planned = self.plan.far(one), self.plan.at.get(one)
                if meant is not None and planned in self.gone and meant[0] == other[0]:
                    out.append(self._mislabelled(number, planned))
                    break
        return out

    def _renumbered(self) -> list[Difference]:
        """The right two devices by other ports at both ends; one planned cable of theirs is then not missing."""
        out = []
        pairs: dict[frozenset[str], list[int]] = defaultdict(list)
        for planned in self.gone:
            one, other = self.plan.ends[planned]
            pairs[frozenset((one[0], other[0]))].append(planned)
        for number in list(self.wrong):
            one, other = self.found.ends[number]
            open_ = pairs.get(frozenset((one[0], other[0])))
            if open_:
                out.append(self._mislabelled(number, open_.pop(0)))
        return out

    def _mislabelled(self, number: int, planned: int) -> Difference:
        one, other = self.found.ends[number]
        meant = self.plan.ends[planned]
        del self.wrong[number], self.gone[planned]
        words = f"planned: {text(meant[0])} to {text(meant[1])}; the same two devices, so that only papers are wrong"
        return Difference(Finding("mislabelled", text(one), text(other), words))

    def _swaps(self) -> list[Difference]:
        out = []
        for number in list(self.wrong):
            if number not in self.wrong:
                continue
            partner = self._partner(number)
            if partner is None:
                continue
            other, lost = partner
            (a, b), far = self.found.ends[number], self.found.ends[other]
            plugs = f"exchange the plugs in {text(b)} and {text(far[1])}"
            ends = text(far[0]), text(far[1])
            pairs = ((a[0], b[0]), (far[0][0], far[1][0]))
            out.append(Difference(Finding("swapped", text(a), text(b), plugs, ends), lost, (), pairs))
            del self.wrong[number], self.wrong[other]
            for planned in lost:
                del self.gone[planned]
        return out

    def _partner(self, number: int) -> tuple[int, tuple[int, int]] | None:
        """Another wrong cable with which this one makes two right ones, and those two of the plan."""
        for one in self.found.ends[number]:
            meant = self.plan.far(one)
            other = None if meant is None else self.found.at.get(meant)
            if other is None or other == number or other not in self.wrong:
                continue
            third = self.found.far(meant) if meant is not None else None
            fourth = self.found.far(one)
            if third is None or fourth is None or meant is None or meant[0] == fourth[0]:
                continue  # of the same devices: only papers are wrong
            if self.plan.far(third) == fourth:
                lost = self.plan.at[one], self.plan.at[third]
                if all(planned in self.gone for planned in lost):
                    return other, lost
        return None

    def _moves(self) -> list[Difference]:
        """One end where it belongs, the other in a port that is not its own while that is free."""
        out = []
        for number in list(self.wrong):
            for one, other in (self.found.ends[number], self.found.ends[number][::-1]):
                meant = self.plan.far(one)
                planned = self.plan.at.get(one)
                if meant is None or planned not in self.gone or meant in self.found.at or other[0] not in self.known:
                    continue
                del self.wrong[number], self.gone[planned]
                words = f"move the plug from {text(other)} to {text(meant)}"
                near, far = map(text, self.found.ends[number])
                finding = Finding("misplaced", near, far, words)
                out.append(Difference(finding, (planned,), (), ((one[0], other[0]),)))
                break
        return out

    def _left(self, number: int) -> Difference:
        one, other = self.found.ends[number]
        stranger = next((end for end in (one, other) if end[0] not in self.known), None)
        if stranger is not None:
            words = f"the plan has no {stranger[0]}"
            lost = tuple(self.plan.at[end] for end in (one, other) if self.plan.at.get(end) in self.gone)
            for planned in lost:
                del self.gone[planned]
            return Difference(Finding("unknown-neighbour", text(one), text(other), words), lost)
        words = "the plan has no cable between these ports"
        return Difference(Finding("extra", text(one), text(other), words), (), (), ((one[0], other[0]),))

    def _missing(self, number: int) -> Difference:
        one, other = self.plan.ends[number]
        return Difference(Finding("missing", text(one), text(other), "planned, and not found"), (number,))

    def _properties(self, planned: int, number: int) -> list[Difference]:
        """What is otherwise than planned of a cable in its place."""
        meant, there = self.plan.discovery.cables[planned], self.found.discovery.cables[number]
        near, far = map(text, self.plan.ends[planned])
        out = []
        if there.rate_bps and meant.rate_bps and there.rate_bps != meant.rate_bps:
            share = there.rate_bps / meant.rate_bps
            few = 0 < there.lanes < meant.lanes and there.rate_bps * meant.lanes == meant.rate_bps * there.lanes
            lanes = f" on {there.lanes} of {meant.lanes} lanes" if few else ""
            words = f"{there.rate_bps / 1e9:g} Gb/s{lanes}, planned {meant.rate_bps / 1e9:g} Gb/s"
            slow = ((planned, share),) if share < 1 else ()
            out.append(Difference(Finding("degraded" if few else "wrong-speed", near, far, words), (), slow))
        if (
            there.length_m
            and meant.length_m
            and abs(there.length_m - meant.length_m) > max(LENGTH * meant.length_m, 0.5)
        ):
            words = f"{there.length_m:g} m, planned {meant.length_m:g} m"
            out.append(Difference(Finding("wrong-length", near, far, words)))
        return [*out, *self._frames(planned, number)]

    def _frames(self, planned: int, number: int) -> list[Difference]:
        """Ends that take smaller or larger frames; what is sent across a switch that takes less is dropped."""
        meant, there = self.plan.discovery.cables[planned], self.found.discovery.cables[number]
        devices = self.plan.discovery.devices
        turned = self.found.ends[number][0] != self.plan.ends[planned][0]
        found = (there.b_mtu, there.a_mtu) if turned else (there.a_mtu, there.b_mtu)
        words, share = [], 1.0
        for end, device, mine, wanted in zip(
            self.plan.ends[planned], (meant.a, meant.b), found, (meant.a_mtu, meant.b_mtu), strict=True
        ):
            if mine and wanted and mine not in (wanted, wanted + FRAME_HEADER):
                words.append(f"{text(end)} takes frames of {mine} bytes, planned {wanted}")
                share = min(share, frames_share(mine, wanted, host=devices[device].kind == "host"))
        if not words:
            return []
        near, far = map(text, self.plan.ends[planned])
        words += ["full packets are dropped there"] if share == 0 else []
        lost, slow = ((planned,), ()) if share == 0 else ((), ((planned, share),) if share < 1 else ())
        return [Difference(Finding("wrong-mtu", near, far, "; ".join(words)), lost, slow)]


def frames_share(found: int, wanted: int, *, host: bool) -> float:
    """What a cable keeps of its rate when one end takes other frames than planned.

    A host with smaller frames agrees with its peers on smaller payloads; a switch drops what is larger than its frames.

    Args:
        found: Largest frame that the end takes, bytes.
        wanted: The planned one.
        host: Whether it is a host's end.
    """

    def payload(frame: int) -> int:
        return max((one for one in PATH_MTU if one + ROCE_HEADERS <= frame), default=0)

    mine, planned = payload(found), payload(wanted)
    if mine >= planned:
        return 1.0
    if not host or not mine:
        return 0.0
    return mine / (mine + WIRE_HEADER) * (planned + WIRE_HEADER) / planned
