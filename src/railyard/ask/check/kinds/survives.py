"""`survives any one spine`: no one part of the back-end cuts a server off when it is lost, or slows the step too much.

A server is cut off when a NIC of it has no link left, or when routing, once converged, leads no more from one of its
NICs to one of another server that it led to before: work that waits for it does not end.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

import numpy as np

from railyard.ask.audit.price import Wrong
from railyard.ask.check.assertion import AssertionOutcome, assertions
from railyard.ask.check.kinds.no import cuts
from railyard.cluster.names import link_name, node_name
from railyard.cluster.steering import lost
from railyard.kit import quantities
from railyard.kit.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from railyard.ask.check.assertion import CheckSubject
    from railyard.cluster import Cluster
    from railyard.cluster.topology.wiring import Wiring

PARTS = ("part", "switch", "link", "uplink")
"""What may be lost, as well as the switches of one role: any switch or cable, any switch, any cable, any cable between
switches."""

_SEVERAL = re.compile(r"survives (?:any |the loss of )*(two|three|four|[2-9]|\d\d+) ([\w-]+)", re.IGNORECASE)

MOST_STEPS = 24
"""Losses without which the step is simulated: all up to this number, else evenly spread ones, as the remark reports."""

PLURAL = {"switch": "switches"}

_FORM = re.compile(r"survives any one ([\w-]+)(?: with step < ?(.+?) ?x)?", re.IGNORECASE)


class PartLoss(NamedTuple):
    """One part that is lost.

    Attributes:
        links: int64[], the links in the network's numbers.
        node: The switch; -1 of a cable.
    """

    name: str
    links: NDArray[np.int64]
    node: int = -1


@dataclass(frozen=True)
class Survives:
    """The cluster survives the loss of any one part.

    Attributes:
        part: One of `PARTS`, or the role of switches.
        slower: Bound of the step with the part lost, over the planned one; None: the step is not asked about.
    """

    forms: ClassVar[tuple[str, ...]] = ("survives any one spine", "survives any one leaf with step < 1.2 x")

    part: str
    slower: float | None = None

    @classmethod
    def read(cls, text: str) -> Self:
        """See `Assertion`."""
        found = _FORM.fullmatch(text)
        if found is None:
            allowed = [f"`{form}`" for form in cls.forms]
            several = _SEVERAL.match(text)
            if several is not None:
                message = f"`{text}`: only one part may be lost at a time"
                one = {"leaves": "leaf"}.get(several[2].lower(), several[2].lower().removesuffix("s"))
                raise InputError(message, found=text, allowed=allowed, hint=f"the nearest is `survives any one {one}`")
            raise InputError(f"`{text}` does not say what may be lost", found=text, allowed=allowed)
        return cls(found[1].lower(), None if found[2] is None else quantities.ratio(found[2]))

    def check(self, subject: CheckSubject) -> None:
        """See `Assertion`."""
        kind, cluster = subject.draft.kind, subject.cluster
        if self.slower is not None and kind != "training":
            message = f"the scenario's work is `{kind}`, which has no step"
            raise InputError(message, allowed=f"`survives any one {self.part}`")
        _refuse_unrouted(cluster)
        if next(_losses(cluster, self.part), None) is None:
            there = [part for part in PARTS if next(_losses(cluster, part), None) is not None]
            parts = list(dict.fromkeys([*(group.role for group in cluster.back_end.wiring.groups), *there]))
            hint = did_you_mean(self.part, parts)
            raise InputError(f"the back-end has no {self.part}", found=self.part, allowed=parts, hint=hint)

    def judge(self, subject: CheckSubject) -> AssertionOutcome:
        """See `Assertion`."""
        cluster = subject.cluster
        losses = list(_losses(cluster, self.part))
        cutting = [(one, cut) for one, cut in _judged(cluster, losses) if cut]
        what = f"{len(losses):,} {self.part if len(losses) == 1 else PLURAL.get(self.part, f'{self.part}s')}"
        if cutting:
            first, cut = cutting[0]
            found = f"{len(cutting):,} of {what} would cut servers off if lost: {first.name} {cut}"
            return AssertionOutcome(found, holds=False)
        alone = f"each of {what} can be lost"
        return AssertionOutcome(alone, holds=True) if self.slower is None else self._steps(subject, losses)

    def _steps(self, subject: CheckSubject, losses: list[PartLoss]) -> AssertionOutcome:
        pricing, offset = subject.pricing, subject.cluster.back_end.link_offset
        worst, name = 0.0, ""
        chosen = losses[:: -(-len(losses) // MOST_STEPS)]
        for number, one in enumerate(chosen):
            subject.progress(f"the step without {one.name}", number / len(chosen))
            step_s = pricing.cost(Wrong(np.sort(one.links) + offset, {}, {})).step_s
            if step_s is None:
                return AssertionOutcome(f"the job hangs without {one.name}", holds=False)
            ratio = step_s / pricing.step_s
            worst, name = max((worst, name), (ratio, one.name), key=lambda pair: pair[0])
        holds = worst < (self.slower or 0.0)
        some = len(chosen) < len(losses)
        remark = f"{len(chosen):,} of {len(losses):,} were simulated, evenly spread" if some else ""
        return AssertionOutcome(f"the step is at most {worst:.4g} x the planned one: without {name}", holds, remark)


def _refuse_unrouted(cluster: Cluster) -> None:
    """Networks whose tables do not say all ways that their traffic takes."""
    network = cluster.back_end
    if network.fabric.load_balancing == "ideal":
        raise InputError(f"the fabric `{network.fabric.name}` is a crossbar that loses nothing", found="fabric: ideal")
    if network.wiring.detour is not None or network.wiring.routes_through_ports:
        message = f"`{network.topology}` reroutes around lost parts over paths outside its routing tables"
        raise InputError(message, found=network.topology)


def _losses(cluster: Cluster, part: str) -> Iterator[PartLoss]:
    network = cluster.back_end
    wiring = network.wiring
    if part in ("part", "link", "uplink"):
        between = (wiring.source[0::2] >= wiring.ports) & (wiring.target[0::2] >= wiring.ports)
        for cable in np.flatnonzero(between | (part != "uplink")).tolist():
            name = link_name(cluster, network.link_offset + 2 * cable).replace("->", "-")
            yield PartLoss(name, np.array([2 * cable, 2 * cable + 1]))
    for group in network.wiring.groups:
        if part in ("part", "switch", group.role):
            for node in range(group.first, group.first + group.count):
                around = np.flatnonzero((wiring.source == node) | (wiring.target == node))
                yield PartLoss(node_name(cluster, network.node_offset + node), around, node)


def _judged(cluster: Cluster, losses: list[PartLoss]) -> Iterator[tuple[PartLoss, str]]:
    """Each loss, and words about what it cuts off; empty if nothing."""
    wiring = cluster.back_end.wiring
    ports, server = wiring.used, _servers(cluster)
    links_of = np.bincount(wiring.source[wiring.source < wiring.ports], minlength=wiring.ports)
    used = np.zeros(wiring.ports, np.bool_)
    used[ports] = True
    parting = _Parting(wiring, server)
    for one in losses:
        source = wiring.source[one.links]
        mine = source[source < wiring.ports]
        near, count = np.unique(mine, return_counts=True)
        gone = near[(links_of[near] == count) & used[near]]
        if len(gone):
            yield one, f"is the only way to {_named(cluster, gone)}"
            continue
        parted = parting.parted(one)
        yield one, "" if parted is None else f"is the only way between {_named(cluster, np.array(parted))}"


class _Parting:
    """Ports that a lost part separates: for all parts at once, or one by one if that is not conclusive."""

    def __init__(self, wiring: Wiring, server: NDArray[np.int64]) -> None:
        self.wiring, self.server = wiring, server
        self.cuts = cuts(wiring, server)
        self.known: dict[tuple[int, ...], tuple[int, int] | None] = {}

    def parted(self, loss: PartLoss) -> tuple[int, int] | None:
        """Two ports of different servers that the loss parts; None where there are none."""
        if loss.node >= 0:
            return self.cuts.switches.get(loss.node)
        ends = self.wiring.source[loss.links]
        if (ends < self.wiring.ports).any() or int(loss.links[0]) // 2 in self.cuts.turned:
            return self._alone(loss)
        found = [self.cuts.links[link] for link in loss.links.tolist() if link in self.cuts.links]
        return min(found, default=None)

    def _alone(self, loss: PartLoss) -> tuple[int, int] | None:
        """Separated ports found by routing again; once for the links of ports on the same switches."""
        port = int(self.wiring.source[loss.links].min())
        key = (-1, int(loss.links[0]))
        if port < self.wiring.ports:
            own = self.wiring.target[self.wiring.source == port]
            key = (*own.tolist(), int(self.wiring.target[loss.links[self.wiring.source[loss.links] == port]][0]))
        if key not in self.known:
            gone = lost(self.wiring, loss.links)
            self.known[key] = _parted(gone, self.wiring.used, self.server)
        return self.known[key]


def _servers(cluster: Cluster) -> NDArray[np.int64]:
    """int64[ports], the place of the server of every port; of further ports a number of their own."""
    wiring = cluster.back_end.wiring
    server = len(wiring.port_of) + np.arange(wiring.ports, dtype=np.int64)
    server[wiring.port_of] = np.arange(len(wiring.port_of))[:, None]
    return server


def _parted(
    unreached: dict[int, tuple[tuple[int, int], ...]], ports: NDArray[np.int32], server: NDArray[np.int64]
) -> tuple[int, int] | None:
    """Two ports in use, of different servers, of which one does not reach the other any more."""
    for node in sorted(set(unreached) & set(ports.tolist())):
        for lo, hi in unreached[node]:
            far = ports[(ports >= lo) & (ports < hi) & (server[ports] != server[node])]
            if len(far):
                return node, int(far[0])
    return None


def _named(cluster: Cluster, ports: NDArray[np.integer]) -> str:
    names = [node_name(cluster, cluster.back_end.node_offset + int(port)) for port in ports[:2]]
    more = f" and {len(ports) - 2:,} more" if len(ports) > 2 else ""
    return " and ".join(names) + more if not more else ", ".join(names) + more


assertions.add("survives", Survives)
