"""The audit of a network against a scenario's plan."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

import railyard.catalog as catalogs
from railyard.ask.audit.against import PlanDifference, matched
from railyard.ask.audit.infer import infer
from railyard.ask.audit.price import StepPricing, Wrong
from railyard.ask.audit.price import priced as settings_price
from railyard.ask.audit.reference import Pricing, price_of
from railyard.ask.audit.symptom import BlockPlaces
from railyard.ask.deploy.cabling import as_set, dialects, drawn, is_infiniband, plan_of
from railyard.cluster.network_table import NetworkTable, same_port
from railyard.kit.errors import InputError, SimulationError
from railyard.work.study import compose
from railyard.work.study.study import prepare

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railyard.ask.audit.against import MovedCable
    from railyard.ask.audit.symptom import AuditFinding, CableChange, HostMove, Setting, Symptom
    from railyard.ask.deploy.cabling import CablingPlan
    from railyard.work.scenario.load import Draft

KNOWN = 0.3
"""Share of a network's planned ends that a file must have by name for the network to be the one that was found."""

MOST_RANKS = 16_384
"""Accelerators up to which faults are priced by the step of the scenario."""

RANK_RUNS = 200_000
"""Accelerators of all simulated steps together; faults beyond it cost what their like cost."""

LEFT = 24
"""Findings up to which what is left after each repair is simulated."""


@dataclass(frozen=True, eq=False)
class PlannedNetwork:
    """The examined parts of a plan.

    Attributes:
        plan: The plan; None where papers are all that there is.
        rows: int64[cables of the discovery], rows of the plan's cables.
    """

    plan: CablingPlan | None
    discovery: NetworkTable
    rows: np.ndarray[Any, np.dtype[np.int64]]
    networks: dict[str, str]

    @cached_property
    def addressed(self) -> frozenset[int]:
        """Cables of hosts on Ethernet: each is a network of its own (`addresses_of`), so no other port answers it."""
        if self.plan is None:
            return frozenset()
        ethernet = [not is_infiniband(self.plan, number) for number in range(len(self.plan.networks))]
        routed = np.array(ethernet)[self.plan.cables.network[self.rows]]
        return frozenset(np.flatnonzero(routed & self.discovery.host[self.discovery.ends].any(axis=1)).tolist())


def expected(draft: Draft, found: NetworkTable) -> PlannedNetwork | None:
    """The plan of a scenario in the words of a file; None where the file calls everything otherwise."""
    plan = plan_of(as_set(compose.cluster_of(draft, compose.catalog_of(draft)), draft))
    parts: list[tuple[int, NetworkTable, str]] = []
    for number in range(len(plan.networks)):
        drawings = [(dialect, drawn(plan, number, dialect)) for dialect in dialects(plan, number)]
        choices = [(matched(one, found), dialect.name, one) for dialect, one in drawings]
        share, name, best = max(choices, key=lambda choice: choice[0])
        if share >= KNOWN:
            parts.append((number, best, name))
    if not parts:
        return None
    rows = np.concatenate([plan.of_network(plan.networks[number]) for number, _, _ in parts])
    names = {plan.networks[number]: name for number, _, name in parts}
    return PlannedNetwork(plan, _joined([one for _, one, _ in parts]), rows, names)


def _joined(parts: list[NetworkTable]) -> NetworkTable:
    """Several networks as one: a server that is in both is one device."""
    first: dict[str, tuple[NetworkTable, int]] = {}
    for part in parts:
        for row, key in enumerate(part.key):
            first.setdefault(key, (part, row))
    number = {key: at for at, key in enumerate(first)}
    by_device = ("name", "kind", "key", "label", "part", "chassis", "sockets")
    by_cable = ("rate_bps", "mtu", "length_m", "lanes")
    cables = [
        (number[part.key[a]], port, number[part.key[b]], far)
        for part in parts
        for (a, b), (port, far) in zip(part.ends.tolist(), part.ports, strict=True)
    ]
    columns: dict[str, Any] = {
        **{column: [getattr(part, column)[row] for part, row in first.values()] for column in by_device},
        **{column: np.concatenate([getattr(part, column) for part in parts]) for column in by_cable},
    }
    return NetworkTable.of("the plan", cables=cables, **columns)


class PlanPricing:
    """Prices differences: loads from the plan's own blocks, time and money from the scenario's job where it trains."""

    def __init__(self, draft: Draft | None, there: PlannedNetwork) -> None:
        self.there = there
        planned = there.discovery
        self.design = infer(planned)
        catalog = catalogs.load() if draft is None else compose.catalog_of(draft)
        fabric = None if there.plan is None else next(iter(there.plan.cluster.plans.values())).fabric
        self.reference = Pricing(planned, self.design, price_of(planned, catalog), fabric)
        self.place = {label: number for number, label in enumerate(planned.label)}
        self.places = BlockPlaces(self.design)
        self.step: StepPricing | None = None
        self.words = ""
        if draft is not None and there.plan is not None:
            self.step, self.words = _step_pricing(draft, there.plan)
        self.runs = 0
        self.like: dict[tuple[Any, ...], list[AuditFinding]] = defaultdict(list)

    def priced(self, difference: PlanDifference) -> AuditFinding:
        """A finding with its figures."""
        finding = self.reference.priced(replace(difference.finding, **self._changes(difference)))
        if self.step is None or finding.unpriced:
            return finding
        if finding.settings:
            return self._set(finding)
        wrong, lost = self._wrong([difference]), self._parts_usd(difference)
        if not wrong and not lost:
            waits = finding.slower > 1 or finding.idle > 0
            return finding if waits else replace(finding, loss=0.0, usd_per_month=0.0, step_s=self.step.step_s)
        kind = (finding.kind, self._tiers(difference), difference.slow[:1])
        if self.runs * self.step.job.cluster.ranks >= RANK_RUNS and self.like[kind]:
            return _as_its_like(finding, self.like[kind])
        self.runs += 1
        cost = self.step.cost(wrong)
        out = replace(
            finding, loss=cost.loss * finding.part, usd_per_month=cost.usd_per_month * finding.part, step_s=cost.step_s
        )
        if cost.step_s is None:
            out = replace(out, detail=f"{finding.detail}; the job hangs: some ranks have no path")
        elif out.usd_per_month < lost:
            words = "the scenario's step does not wait for it; its price is the monthly cost of the absent parts"
            out = replace(out, loss=lost / self.step.usd_per_month, usd_per_month=lost, priced_by=words)
        self.like[kind].append(out)
        return out

    def _parts_usd(self, difference: PlanDifference) -> float:
        """What the parts of a difference that are not there cost a month: cables, and a whole switch."""
        if self.step is None or not difference.finding.kind.startswith("missing"):
            return 0.0
        assert self.there.plan is not None
        plan, usd = self.there.plan, 0.0
        rows = self.there.rows[list(difference.lost)]
        tiers = Counter((plan.tiers[tier].network, plan.tiers[tier].name) for tier in plan.cables.tier[rows].tolist())
        for (network, name), count in tiers.items():
            usd += self.step.parts_usd(network, {name: count})
        if difference.finding.kind == "missing-switch" and difference.finding.a in plan.devices.name:
            device = plan.devices.name.index(difference.finding.a)
            usd += self.step.parts_usd(str(plan.devices.network[device]), {str(plan.devices.role[device]): 1})
        return usd

    def _set(self, finding: AuditFinding) -> AuditFinding:
        """Prices wrong settings: the scenario's step with the wrong ports' cables at the lower rate."""
        assert self.step is not None
        step, rack = self.step, self.reference.rack
        assert rack is not None
        links = self._cables_of(finding.settings)

        def loss(slower: float) -> float:
            late = Wrong(np.empty(0, np.int64), dict.fromkeys(links, 1.0 / slower), {})
            return step.cost(late).loss if slower > 1 else 0.0

        load = "flow: the scenario's step, with slower cables"
        found = settings_price(rack, finding, loss, lambda lost: lost * step.usd_per_month, load)
        return replace(found, step_s=step.step_s / max(1.0 - found.loss, 1e-9))

    def _cables_of(self, settings: tuple[Setting, ...]) -> list[int]:
        assert self.there.plan is not None
        wanted = {(one.device, same_port(port)) for one in settings for port in one.ports}
        every = {one.device for one in settings if not one.ports}
        rows = [
            self.there.rows[number]
            for end, number in self.there.discovery.cable_at.items()
            if end in wanted or end[0] in every
        ]
        first = self.there.plan.cables.link[np.unique(rows)]
        links: list[int] = np.concatenate([first, first + 1]).tolist()
        return links

    def together(self, differences: list[PlanDifference]) -> tuple[float, float]:
        """Loss and dollars a month of all of them at once."""
        if self.step is not None:
            time = self.step.cost(self._wrong([one for one in differences if one.finding.part >= 1])).loss
            parts = sum(self._parts_usd(one) for one in differences) / self.step.usd_per_month
            loss = min(max(time, parts) + self._apart(differences), 1.0)
            return loss, loss * self.step.usd_per_month
        findings = [self.reference.priced(replace(one.finding, **self._changes(one))) for one in differences]
        loss = self.reference.left(findings)[0]
        return loss, self.reference.price.usd(loss)

    def _apart(self, differences: list[PlanDifference]) -> float:
        """Loss of what the step does not show: part of the traffic, and tables of routes."""
        listed = [self.priced(one) for one in differences]
        return sum(
            one.loss for one in listed if one.part < 1 or one.settings or (one.step_s is None and one.slower > 1)
        )

    def _tiers(self, difference: PlanDifference) -> tuple[int, ...]:
        assert self.there.plan is not None
        rows = self.there.rows[[*difference.lost, *(number for number, _ in difference.slow)]]
        return tuple(self.there.plan.cables.tier[rows].tolist())

    def _wrong(self, differences: list[PlanDifference]) -> Wrong:
        """What is otherwise than planned, in links and ports of the scenario's cluster."""
        assert self.there.plan is not None
        link = self.there.plan.cables.link
        lost = [number for one in differences for number in one.lost]
        ports: dict[int, int] = {}
        for one in (moved for difference in differences for moved in difference.moved):
            there = self._port_there(one, ports)
            if there is None:
                lost.append(one.cable)
            else:
                ports[self._port(one.cable)] = there
        for port in set(ports.values()) - set(ports):  # whose place was taken gets what is left: each port is one's
            ports[port] = next(mine for mine in ports if mine not in ports.values())
        dead = link[self.there.rows[lost]] if lost else np.empty(0, np.int64)
        slow: dict[int, float] = {}
        for number, share in (pair for one in differences for pair in one.slow):
            first = int(link[self.there.rows[number]])
            slow |= {first: share, first + 1: share}
        return Wrong(np.sort(np.concatenate([dead, dead + 1])), slow, ports)

    def _port(self, cable: int) -> int:
        """The back-end's port of a planned cable of a host; -1 where it is on another network."""
        assert self.there.plan is not None
        cluster = self.there.plan.cluster
        port = int(cluster.links.source[self.there.plan.cables.link[self.there.rows[cable]]])
        port -= cluster.back_end.node_offset
        return port if 0 <= port < cluster.back_end.ports else -1

    def _port_there(self, moved: MovedCable, taken: Mapping[int, int]) -> int | None:
        """The port whose place in a switch a cable has: that of the plan, else one that is free; None: none is."""
        assert self.there.plan is not None
        if self._port(moved.cable) < 0:
            return None
        if moved.place is not None:
            port = self._port(moved.place)
            return port if port >= 0 else None
        network = self.there.plan.cluster.back_end
        wiring = network.wiring
        here = next(
            (self._port(n) for n, ends in enumerate(self.there.discovery.named_ends) if moved.switch == ends[1][0]), -1
        )
        if here < 0:
            return None
        access = wiring.source < wiring.ports
        leaf = wiring.target[access & (wiring.source == here)]
        free = np.setdiff1d(wiring.source[access & np.isin(wiring.target, leaf)], [*wiring.used, *taken.values()])
        return int(free[0]) if len(free) else None

    def _changes(self, difference: PlanDifference) -> dict[str, Any]:
        """What it changes in the tables of a block; a cable of a server makes it wait, or idle."""
        planned = self.there.discovery
        changes: dict[int, list[CableChange | HostMove]] = defaultdict(list)
        figures: dict[str, Any] = {}
        for number in difference.lost:
            a, b = planned.ends[number].tolist()
            self._change(changes, a, b, -1, 1.0)
            if planned.host[a]:
                figures["idle"] = figures.get("idle", 0.0) + 1.0
        for number, share in difference.slow:
            a, b = planned.ends[number].tolist()
            self._change(changes, a, b, 0, share)
            if planned.host[a]:
                figures["slower"] = 1.0 / share
        for moved in difference.moved:
            host, leaf = planned.ends[moved.cable].tolist()
            move = self.places.move(host, leaf, self.place[moved.switch])
            if move is not None:
                changes[move[0]].append(move[1])
        for near, far in difference.added:
            if near in self.place and far in self.place:
                self._change(changes, self.place[near], self.place[far], 1, 1.0)
        if changes:
            block = next(iter(changes))
            figures |= {"block": block, "changes": tuple(changes[block])}
        return figures

    def _change(
        self, changes: dict[int, list[CableChange | HostMove]], one: int, other: int, count: int, speed: float
    ) -> None:
        placed = self.places.change(one, other, count, speed)
        if placed is not None:
            changes[placed[0]].append(placed[1])

    def difference(self, found: NetworkTable, symptom: Symptom) -> PlanDifference:
        """A symptom with the planned cables that it takes away or slows; cables that were not planned cost nothing."""
        lost, slow, cable_at = [], [], self.there.discovery.cable_at
        for number, share in symptom.cables:
            planned = next((cable_at[end] for end in found.named_ends[number] if end in cable_at), None)
            if planned is not None and share > 0:
                slow.append((planned, share))
            elif planned is not None:
                lost.append(planned)
        return PlanDifference(replace(symptom.finding, part=symptom.part), tuple(lost), tuple(slow))


def _as_its_like(finding: AuditFinding, like: list[AuditFinding]) -> AuditFinding:
    count = len(like)
    loss, usd = sum(one.loss for one in like) / count, sum(one.usd_per_month for one in like) / count
    step = sum(one.step_s or 0.0 for one in like) / count
    return replace(finding, loss=loss, usd_per_month=usd, step_s=step, detail=f"{finding.detail}; priced as similar")


def _step_pricing(draft: Draft, plan: CablingPlan) -> tuple[StepPricing | None, str]:
    if draft.kind != "training":
        return None, f"the scenario's work is {draft.kind}, no training: "
    if plan.cluster.ranks > MOST_RANKS:
        return None, f"more than {MOST_RANKS:,} accelerators: "
    try:
        pricing = StepPricing(prepare(draft)[0])
    except (InputError, SimulationError) as error:
        return None, f"the job cannot be run ({str(error).splitlines()[0]}): "
    words = (
        f"the scenario's own step, {pricing.step_s:.4g} s as planned, with one fault at a time; the cluster costs"
        f" ${pricing.usd_per_month:,.0f} a month; swapped host cables run at their new places on InfiniBand and lose"
        " their gateways on Ethernet, swapped switch cables count as missing; an absent part costs at least its own"
        " monthly price"
    )
    return pricing, words
