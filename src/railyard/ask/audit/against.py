"""A network as found against its plan, cable by cable."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.audit.symptom import AuditFinding
from railyard.cluster.network_table import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from numpy.typing import NDArray

    from railyard.cluster.network_table import End, NetworkTable

LENGTH = 0.1
"""A cable is of another length when it differs by more than this share, and half a metre."""

FRAME_HEADER = 18
"""Bytes by which some programs count a frame larger than what it carries: Ethernet's header and check."""

PATH_MTU = (256, 512, 1024, 2048, 4096)
"""Payloads of a packet that InfiniBand and RoCE know."""

ROCE_HEADERS = 96
"""Bytes of an interface's frames kept for headers when RoCE's payload is chosen (Linux, ib_addr.h: iboe_get_mtu)."""

WIRE_HEADER = 82
"""Bytes around a payload on the wire: the fabric `roce`'s."""


@dataclass(frozen=True)
class MovedCable:
    """A cable of a host that is in another switch than planned, and works there.

    Attributes:
        place: The planned cable whose port it has there; None: a port that the plan leaves free.
    """

    cable: int
    switch: str
    place: int | None


@dataclass(frozen=True)
class PlanDifference:
    """A finding with the planned cables that it takes away or slows.

    Attributes:
        lost: Cables of the plan, by number, that do not carry what they should.
        slow: Cables of the plan that are there, by number, and what they have of their rate.
        added: Pairs of names of devices that are joined by a cable more than planned.
    """

    finding: AuditFinding
    lost: tuple[int, ...] = ()
    slow: tuple[tuple[int, float], ...] = ()
    added: tuple[tuple[str, str], ...] = ()
    moved: tuple[MovedCable, ...] = ()


def text(end: End) -> str:
    """`leaf1[5]`."""
    return f"{end[0]}[{end[1]}]"


def matched(planned: NetworkTable, found: NetworkTable) -> float:
    """Share of a plan's ends that a discovery has, by name."""
    return sum(end in found.cable_at for end in planned.cable_at) / max(len(planned.cable_at), 1)


def compare(planned: NetworkTable, found: NetworkTable, addressed: Collection[int] = ()) -> list[PlanDifference]:
    """All differences; ends are those of the file where it has them, else of the plan.

    Args:
        planned: The plan.
        found: The network as found.
        addressed: Cables of the plan whose ends have addresses of their own: in another port nothing answers.
    """
    return _Comparison(planned, found, addressed).differences()


def silent(planned: NetworkTable, found: NetworkTable) -> dict[str, list[int]]:
    """Planned cables of which nobody can know, by the switch that sent no report though others see it."""
    seen = {found.label[device] for device in np.unique(found.ends).tolist()}
    mute = {label for label, kind in zip(planned.label, planned.kind, strict=True) if kind == "switch"} & seen
    mute -= found.reporters or mute
    out: dict[str, list[int]] = {}
    for number, ends in enumerate(planned.named_ends):
        devices = {device for device, _ in ends}
        if devices & mute and not devices & found.reporters and not any(end in found.cable_at for end in ends):
            out.setdefault(min(devices & mute), []).append(number)
    return out


class _Comparison:
    def __init__(self, plan: NetworkTable, found: NetworkTable, addressed: Collection[int]) -> None:
        self.plan, self.found, self.addressed = plan, found, addressed
        self.known = dict(zip(plan.label, plan.kind, strict=True))
        self.right: list[tuple[int, int]] = []
        self.wrong: dict[int, None] = {}
        self.gone: dict[int, None] = {}

    def differences(self) -> list[PlanDifference]:
        kept = {}
        for number, (one, other) in enumerate(self.found.named_ends):
            planned = self.plan.cable_at.get(one)
            if planned is not None and self.plan.far_end(one) == other:
                kept[planned] = number
            else:
                self.wrong[number] = None
        self.right = sorted(kept.items())
        self.gone = dict.fromkeys(number for number in range(len(self.plan.named_ends)) if number not in kept)
        for number in (one for numbers in silent(self.plan, self.found).values() for one in numbers):
            self.gone.pop(number, None)
        out = [*self._swaps(), *self._turns(), *self._relabelled(), *self._moves(), *self._renumbered()]
        out += [self._left(number) for number in list(self.wrong)]
        out += self._absent()
        out += [self._missing(number) for number in self.gone]
        return [*out, *self._properties()]

    def _relabelled(self) -> list[PlanDifference]:
        """One end where it belongs, the other in another port of the right device."""
        out = []
        for number in list(self.wrong):
            for one, other in (self.found.named_ends[number], self.found.named_ends[number][::-1]):
                meant, planned = self.plan.far_end(one), self.plan.cable_at.get(one)
                if meant is not None and planned in self.gone and meant[0] == other[0]:
                    out.append(self._mislabelled(number, planned))
                    break
        return out

    def _renumbered(self) -> list[PlanDifference]:
        """The right two devices by other ports at both ends; one planned cable of theirs is then not missing."""
        out = []
        pairs: dict[frozenset[str], list[int]] = defaultdict(list)
        for planned in self.gone:
            one, other = self.plan.named_ends[planned]
            pairs[frozenset((one[0], other[0]))].append(planned)
        for number in list(self.wrong):
            one, other = self.found.named_ends[number]
            open_ = pairs.get(frozenset((one[0], other[0])))
            if open_:
                out.append(self._mislabelled(number, open_.pop(0)))
        return out

    def _mislabelled(self, number: int, planned: int) -> PlanDifference:
        one, other = self.found.named_ends[number]
        meant = self.plan.named_ends[planned]
        del self.wrong[number], self.gone[planned]
        lost = (planned,) if planned in self.addressed else ()
        same = self._silent(lost) or "so only the documentation is wrong"
        words = f"planned: {text(meant[0])} to {text(meant[1])}: the same two devices, {same}"
        return PlanDifference(AuditFinding("mislabelled", text(one), text(other), words), lost)

    def _silent(self, lost: Collection[int]) -> str:
        """What ports of hosts lack whose cables are in ports with other addresses."""
        hosts = [end for n in lost for end in self.plan.named_ends[n] if self.known[end[0]] == "host"]
        return f"no gateway answers {' and '.join(text(end) for end in hosts)}: addresses are by port" if hosts else ""

    def _swaps(self) -> list[PlanDifference]:
        out = []
        for number in list(self.wrong):
            if number not in self.wrong:
                continue
            partner = self._partner(number)
            if partner is None:
                continue
            out.append(self._exchanged(partner[0], partner[1]))
        return out

    def _turns(self) -> list[PlanDifference]:
        """Cables of hosts that each sit in the next one's place: an exchange of more than two."""
        out = []
        moved = {number: one for number in self.wrong if (one := self._moved(number)) and one.place in self.gone}
        at = {one.cable: number for number, one in moved.items() if one.cable in self.gone}
        while at:
            turn = [at.pop(next(iter(at)))]
            while (place := moved[turn[-1]].place) in at:
                turn.append(at.pop(place))
            if moved[turn[-1]].place == moved[turn[0]].cable:
                cables = tuple(moved[number].cable for number in turn)
                host = [
                    next(end for end in self.plan.named_ends[one] if self.known[end[0]] == "host") for one in cables
                ]
                out.append(self._exchanged(dict(zip(turn, host, strict=True)), cables))
        return out

    def _exchanged(self, kept: dict[int, End], planned: tuple[int, ...]) -> PlanDifference:
        """Cables that have one another's ends; of hosts they carry what their new places let them.

        Args:
            kept: Cables as found, each with the end that stays in its port; the plugs at the other ends go round.
            planned: Cables of the plan in these ports.
        """
        plugs = [next(end for end in self.found.named_ends[number] if end != one) for number, one in kept.items()]
        ends = list(zip(kept.values(), plugs, strict=True))
        moved = [one for number in kept if (one := self._moved(number)) is not None]
        for number in kept:
            del self.wrong[number]
        for number in planned:
            del self.gone[number]
        if len(ends) > 2:
            ways = [f"{text(plug)} to {text(self.plan.far_end(one) or plug)}" for one, plug in ends]
            words = f"move the plugs from {' and '.join(ways)}"
        else:
            words = f"swap the plugs in {' and '.join(map(text, plugs))}"
        finding = AuditFinding(
            "swapped", text(ends[0][0]), text(ends[0][1]), words, (text(ends[1][0]), text(ends[1][1]))
        )
        if len(moved) < len(kept):
            return PlanDifference(finding, planned, (), tuple((one[0], other[0]) for one, other in ends))
        lost = tuple(one.cable for one in moved if one.cable in self.addressed)
        away = tuple(one for one in moved if one.cable not in lost and self._leaves(one))
        if not away and not lost:
            why = f"all are in {moved[0].switch}: no path changes, so correcting the documentation is enough"
            finding = replace(finding, detail=f"{words}; {why}")
        if lost:
            finding = replace(finding, detail=f"{words}; {self._silent(lost)}")
        slow = tuple(pair for number, one in zip(kept, moved, strict=True) for pair in self._slowed(number, one))
        return PlanDifference(finding, lost, slow, (), away)

    def _moved(self, number: int) -> MovedCable | None:
        """Place of a wrong cable of a host; None if it is no host's, or its switch is not in the plan."""
        for one, other in (self.found.named_ends[number], self.found.named_ends[number][::-1]):
            cable = self.plan.cable_at.get(one)
            if cable is not None and self.known[one[0]] == "host" and self.known.get(other[0]) == "switch":
                return MovedCable(cable, other[0], self.plan.cable_at.get(other))
        return None

    def _leaves(self, moved: MovedCable) -> bool:
        """Whether a cable is in another switch than planned, or in a port of another rate."""
        rate, ends = self.plan.rate_bps, self.plan.named_ends[moved.cable]
        same = moved.switch in (ends[0][0], ends[1][0])
        return not same or (moved.place is not None and bool(rate[moved.place] != rate[moved.cable]))

    def _slowed(self, number: int, moved: MovedCable) -> list[tuple[int, float]]:
        """Share of its planned rate that a cable has in its new place, if that is less."""
        there, meant = int(self.found.rate_bps[number]), int(self.plan.rate_bps[moved.cable])
        return [(moved.cable, there / meant)] if 0 < there < meant else []

    def _partner(self, number: int) -> tuple[dict[int, End], tuple[int, int]] | None:
        """Two wrong cables with the ends that stay, and the two of the plan that they are after a swap of the others.

        The ends that stay are of hosts where there are any.
        """
        for one in sorted(self.found.named_ends[number], key=lambda end: self.known.get(end[0]) != "host"):
            meant = self.plan.far_end(one)
            other = None if meant is None else self.found.cable_at.get(meant)
            if other is None or other == number or other not in self.wrong:
                continue
            third = self.found.far_end(meant) if meant is not None else None
            fourth = self.found.far_end(one)
            if third is None or fourth is None or meant is None:
                continue
            if meant[0] == fourth[0] and one[0] == third[0]:
                continue  # of the same devices: only papers are wrong
            if self.plan.far_end(third) == fourth:
                lost = self.plan.cable_at[one], self.plan.cable_at[third]
                if all(planned in self.gone for planned in lost):
                    return {number: one, other: third}, lost
        return None

    def _moves(self) -> list[PlanDifference]:
        """One end where it belongs, the other in a port that is not its own while that is free."""
        out = []
        for number in list(self.wrong):
            for one, other in (self.found.named_ends[number], self.found.named_ends[number][::-1]):
                meant = self.plan.far_end(one)
                planned = self.plan.cable_at.get(one)
                if (
                    meant is None
                    or planned not in self.gone
                    or meant in self.found.cable_at
                    or other[0] not in self.known
                ):
                    continue
                del self.wrong[number], self.gone[planned]
                words = f"move the plug from {text(other)} to {text(meant)}"
                near, far = map(text, self.found.named_ends[number])
                finding, moved = AuditFinding("misplaced", near, far, words), self._moved(number)
                if moved is None or moved.cable != planned:
                    out.append(PlanDifference(finding, (planned,), (), ((one[0], other[0]),)))
                elif planned in self.addressed:
                    finding = replace(finding, detail=f"{words}; {self._silent([planned])}")
                    out.append(PlanDifference(finding, (planned,)))
                else:
                    out.append(PlanDifference(finding, (), tuple(self._slowed(number, moved)), (), (moved,)))
                break
        return out

    def _left(self, number: int) -> PlanDifference:
        one, other = self.found.named_ends[number]
        stranger = next((end for end in (one, other) if end[0] not in self.known), None)
        if stranger is not None:
            words = f"the plan has no {stranger[0]}"
            lost = tuple(self.plan.cable_at[end] for end in (one, other) if self.plan.cable_at.get(end) in self.gone)
            for planned in lost:
                del self.gone[planned]
            return PlanDifference(AuditFinding("unknown-neighbour", text(one), text(other), words), lost)
        words = "the plan has no cable between these ports"
        return PlanDifference(AuditFinding("extra", text(one), text(other), words), (), (), ((one[0], other[0]),))

    def _absent(self) -> list[PlanDifference]:
        """Switches and hosts with no cable found, where several were planned: each is one finding."""
        there = {self.found.name[one] for one in np.unique(self.found.ends).tolist()}
        out = []
        for kind in ("switch", "host"):
            lost: dict[str, list[int]] = defaultdict(list)
            for number in self.gone:
                for device in self.plan.ends[number].tolist():
                    if self.plan.kind[device] == kind and self.plan.name[device] not in there:
                        lost[self.plan.name[device]].append(number)
            for name, numbers in lost.items():
                left = tuple(number for number in numbers if number in self.gone)
                if len(left) < 2:
                    continue
                for number in left:
                    del self.gone[number]
                words = f"the {kind} is not found, nor any of its {len(left)} planned cables"
                out.append(PlanDifference(AuditFinding(f"missing-{kind}", name, UNKNOWN, words), left))
        return out

    def _missing(self, number: int) -> PlanDifference:
        one, other = self.plan.named_ends[number]
        return PlanDifference(AuditFinding("missing", text(one), text(other), "planned but not found"), (number,))

    def _properties(self) -> Iterator[PlanDifference]:
        """Right cables whose rate, length or largest frame differs from the plan's."""
        meant, there = np.array(self.right, np.int64).reshape(-1, 2).T
        ends = [self.found.named_ends[number][0] != self.plan.named_ends[planned][0] for planned, number in self.right]
        turned = np.array(ends, np.bool_)
        mtu = np.where(turned[:, None], self.found.mtu[there, ::-1], self.found.mtu[there])
        figures = ("rate_bps", "length_m")
        differ = [_differ(getattr(self.found, name)[there], getattr(self.plan, name)[meant]) for name in figures]
        differ += list(_differ(mtu, self.plan.mtu[meant]).T)
        for at in np.flatnonzero(np.any(differ, axis=0)).tolist():
            planned, number = self.right[at]
            yield from self._rate_and_length(planned, number)
            yield from self._frames(planned, mtu[at].tolist())

    def _rate_and_length(self, planned: int, number: int) -> Iterator[PlanDifference]:
        near, far = map(text, self.plan.named_ends[planned])
        meant, there = int(self.plan.rate_bps[planned]), int(self.found.rate_bps[number])
        if there and meant and there != meant:
            share, all_lanes, lanes = there / meant, int(self.plan.lanes[planned]), int(self.found.lanes[number])
            few = 0 < lanes < all_lanes and there * all_lanes == meant * lanes
            on_lanes = f" on {lanes} of {all_lanes} lanes" if few else ""
            words = f"{there / 1e9:g} Gb/s{on_lanes}, planned {meant / 1e9:g} Gb/s"
            slow = ((planned, share),) if share < 1 else ()
            yield PlanDifference(AuditFinding("degraded" if few else "wrong-speed", near, far, words), (), slow)
        wanted, found = float(self.plan.length_m[planned]), float(self.found.length_m[number])
        if found and wanted and abs(found - wanted) > max(LENGTH * wanted, 0.5):
            yield PlanDifference(AuditFinding("wrong-length", near, far, f"{found:g} m, planned {wanted:g} m"))

    def _frames(self, planned: int, found: list[int]) -> Iterator[PlanDifference]:
        """Ends that take smaller or larger frames; what is sent across a switch that takes less is dropped."""
        words, share, ends = [], 1.0, self.plan.named_ends[planned]
        columns = self.plan.ends[planned].tolist(), found, self.plan.mtu[planned].tolist()
        for end, device, mine, wanted in zip(ends, *columns, strict=True):
            if mine and wanted and mine not in (wanted, wanted + FRAME_HEADER):
                words.append(f"{text(end)} takes frames of {mine} bytes, planned {wanted}")
                share = min(share, frames_share(mine, wanted, host=self.plan.kind[device] == "host"))
        if words:
            words += ["full-size packets are dropped there"] if share == 0 else []
            lost, slow = ((planned,), ()) if share == 0 else ((), ((planned, share),) if share < 1 else ())
            finding = AuditFinding("wrong-mtu", text(ends[0]), text(ends[1]), "; ".join(words))
            yield PlanDifference(finding, lost, slow)


def _differ(there: NDArray[Any], meant: NDArray[Any]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (there != meant) & (there > 0) & (meant > 0)
    return found


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
