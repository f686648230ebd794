"""The audit of a network against a scenario's plan."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.cluster.asbuilt.discovery import Discovery, FoundCable, FoundDevice
from railyard.deploy.audit.against import Difference, matched
from railyard.deploy.audit.loads import Change
from railyard.deploy.audit.reference import Pricing, price_of
from railyard.deploy.audit.step_price import StepPricing
from railyard.deploy.design.infer import infer
from railyard.deploy.network import Found
from railyard.deploy.plan.cabling import plan_of
from railyard.deploy.plan.drawn import dialects, drawn
from railyard.errors import InputError, SimulationError
from railyard.study import compose
from railyard.study.study import prepare

if TYPE_CHECKING:
    from railyard.deploy.audit.finding import Finding
    from railyard.deploy.design.infer import Design
    from railyard.deploy.plan.cabling import Plan
    from railyard.scenario.load import Draft

KNOWN = 0.3
"""Share of a network's planned ends that a file must have by name for the network to be the one that was found."""

MOST_RANKS = 16_384
"""Accelerators up to which faults are priced by the step of the scenario."""

RANK_RUNS = 200_000
"""Accelerators of all simulated steps together; faults beyond it cost what their like cost."""

LEFT = 24
"""Findings up to which what is left after each repair is simulated."""


@dataclass(frozen=True, eq=False)
class Expected:
    """What of a plan was looked at.

    Attributes:
        plan: The plan.
        discovery: Its networks that are in the file, as found.
        rows: int64[cables of the discovery], rows of the plan's cables.
        networks: Which they are, and in what dialect.
    """

    plan: Plan
    discovery: Discovery
    rows: np.ndarray[Any, np.dtype[np.int64]]
    networks: dict[str, str]


def expected(draft: Draft, found: Discovery) -> Expected | None:
    """The plan of a scenario in the words of a file; None where the file calls everything otherwise."""
    plan = plan_of(compose.cluster_of(draft, compose.catalog_of(draft)))
    parts: list[tuple[int, Discovery, str]] = []
    for number in range(len(plan.networks)):
        choices = [(matched(one, found), dialect.name, one) for dialect, one in _drawings(plan, number)]
        share, name, best = max(choices, key=lambda choice: choice[0])
        if share >= KNOWN:
            parts.append((number, best, name))
    if not parts:
        return None
    rows = np.concatenate([plan.of_network(plan.networks[number]) for number, _, _ in parts])
    names = {plan.networks[number]: name for number, _, name in parts}
    return Expected(plan, _joined([one for _, one, _ in parts]), rows, names)


def _drawings(plan: Plan, number: int) -> list[tuple[Any, Discovery]]:
    return [(dialect, drawn(plan, number, dialect)) for dialect in dialects(plan, number)]


def _joined(parts: list[Discovery]) -> Discovery:
    """Several networks as one: a server that is in both is one device."""
    number: dict[str, int] = {}
    devices: list[FoundDevice] = []
    cables: list[FoundCable] = []
    for part in parts:
        for device in part.devices:
            if device.key not in number:
                number[device.key] = len(devices)
                devices.append(device)
        place = [number[device.key] for device in part.devices]
        cables += (
            [replace(cable, a=place[cable.a], b=place[cable.b]) for cable in part.cables] if len(parts) > 1 else []
        )
    return Discovery("the plan", tuple(devices), tuple(cables)) if len(parts) > 1 else parts[0]


class PlanPricing:
    """Prices differences: loads from the plan's own blocks, time and money from the scenario's job where it trains."""

    def __init__(self, draft: Draft, there: Expected) -> None:
        self.there = there
        planned = Found.of(there.discovery)
        self.design = infer(planned)
        self.reference = Pricing(planned, self.design, price_of(planned, compose.catalog_of(draft)))
        self.place = {device.described: number for number, device in enumerate(there.discovery.devices)}
        self.block_of = _block_of(self.design)
        self.step, self.words = _step_pricing(draft, there.plan)
        self.runs = 0
        self.like: dict[tuple[Any, ...], list[Finding]] = defaultdict(list)

    def priced(self, difference: Difference) -> Finding:
        """A finding with its figures."""
        finding = self.reference.priced(replace(difference.finding, **self._changes(difference)))
        if self.step is None:
            return finding
        dead, slow = self._links([difference])
        if not len(dead) and not slow:
            return replace(finding, loss=0.0, usd_per_month=0.0, step_s=self.step.step_s)
        kind = (finding.kind, tuple(self.there.plan.cables.tier[self._rows(difference)].tolist()), difference.slow[:1])
        if self.runs * self.step.job.cluster.ranks >= RANK_RUNS and self.like[kind]:
            return _as_its_like(finding, self.like[kind])
        self.runs += 1
        cost = self.step.cost(dead, slow)
        detail = finding.detail if cost.step_s is not None else f"{finding.detail}; the job hangs: some have no path"
        out = replace(finding, detail=detail, loss=cost.loss, usd_per_month=cost.usd_per_month, step_s=cost.step_s)
        self.like[kind].append(out)
        return out

    def together(self, differences: list[Difference]) -> tuple[float, float]:
        """Loss and dollars a month of all of them at once."""
        if self.step is not None:
            dead, slow = self._links(differences)
            cost = self.step.cost(dead, slow)
            return cost.loss, cost.usd_per_month
        findings = [replace(one.finding, **self._changes(one)) for one in differences]
        loss = self.reference.left(findings)[0]
        return loss, self.reference.price.usd(loss)

    def _rows(self, difference: Difference) -> np.ndarray[Any, np.dtype[np.int64]]:
        return self.there.rows[[*difference.lost, *(number for number, _ in difference.slow)]]

    def _links(self, differences: list[Difference]) -> tuple[np.ndarray[Any, np.dtype[np.int64]], dict[int, float]]:
        link = self.there.plan.cables.link
        lost = [number for one in differences for number in one.lost]
        dead = link[self.there.rows[lost]] if lost else np.empty(0, np.int64)
        slow: dict[int, float] = {}
        for number, share in (pair for one in differences for pair in one.slow):
            first = int(link[self.there.rows[number]])
            slow |= {first: share, first + 1: share}
        return np.sort(np.concatenate([dead, dead + 1])), slow

    def _changes(self, difference: Difference) -> dict[str, Any]:
        """What it changes in the tables of a block; a cable of a server makes it wait, or idle."""
        cables = self.there.discovery.cables
        changes: dict[int, list[Change]] = defaultdict(list)
        figures: dict[str, Any] = {}
        for number in difference.lost:
            one = cables[number]
            self._change(changes, one.a, one.b, -1, 1.0)
            if self.there.discovery.devices[one.a].kind == "host" and difference.finding.kind != "swapped":
                figures["idle"] = figures.get("idle", 0.0) + 1.0
        for number, share in difference.slow:
            one = cables[number]
            self._change(changes, one.a, one.b, 0, share)
            if self.there.discovery.devices[one.a].kind == "host":
                figures["slower"] = 1.0 / share
        for near, far in difference.added:
            if near in self.place and far in self.place:
                self._change(changes, self.place[near], self.place[far], 1, 1.0)
        if changes:
            block = next(iter(changes))
            figures |= {"block": block, "changes": tuple(changes[block])}
        return figures

    def _change(self, changes: dict[int, list[Change]], one: int, other: int, count: int, speed: float) -> None:
        for low, high in ((one, other), (other, one)):
            block = self.block_of.get((low, "low"), {}).keys() & self.block_of.get((high, "high"), {}).keys()
            if block:
                number = min(block)
                row, column = self.block_of[low, "low"][number], self.block_of[high, "high"][number]
                changes[number].append(Change(row, column, count, speed))
                return


def _block_of(design: Design) -> dict[tuple[int, str], dict[int, int]]:
    """Rows and columns of devices by the blocks that they are in."""
    out: dict[tuple[int, str], dict[int, int]] = defaultdict(dict)
    for number, block in enumerate(design.blocks):
        for side, listed in (("low", block.low), ("high", block.high)):
            for at, device in enumerate(listed.tolist()):
                out[device, side][number] = at
    return out


def _as_its_like(finding: Finding, like: list[Finding]) -> Finding:
    count = len(like)
    loss, usd = sum(one.loss for one in like) / count, sum(one.usd_per_month for one in like) / count
    step = sum(one.step_s or 0.0 for one in like) / count
    return replace(finding, loss=loss, usd_per_month=usd, step_s=step, detail=f"{finding.detail}; priced as its like")


def _step_pricing(draft: Draft, plan: Plan) -> tuple[StepPricing | None, str]:
    if draft.kind != "training":
        return None, f"the scenario's work is {draft.kind}, no training: "
    if plan.cluster.ranks > MOST_RANKS:
        return None, f"more than {MOST_RANKS:,} accelerators: "
    try:
        pricing = StepPricing(prepare(draft)[0])
    except (InputError, SimulationError) as error:
        return None, f"the job cannot be run ({str(error).splitlines()[0]}): "
    words = (
        f"the scenario's own step, {pricing.step_s:.4g} s as planned, with each fault alone; the cluster costs"
        f" ${pricing.usd_per_month:,.0f} a month; cables that are exchanged count as not there"
    )
    return pricing, words
