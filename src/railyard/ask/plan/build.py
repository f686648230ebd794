"""Clusters and jobs of the points of a space; what points have in common is made once."""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from railyard.catalog.grids import grid
from railyard.cluster import bill_of
from railyard.cluster.fault.recovery import Recovery
from railyard.kit.errors import InputError
from railyard.measure.cost.assumptions import Assumptions
from railyard.measure.cost.capital import parts_of_rows
from railyard.work.scenario.load import blaming
from railyard.work.scenario.section import build
from railyard.work.study import compose
from railyard.work.study.provenance import Memo
from railyard.work.training.designs import DesignSite
from railyard.work.training.fastest import ClosedFaults, closed_faults
from railyard.work.training.prepare import faults_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from railyard.ask.plan.outcome import DesignOutcome
    from railyard.ask.plan.space import DesignSpace
    from railyard.catalog import Catalog
    from railyard.cluster import Cluster
    from railyard.cluster.bill import BillOfMaterials
    from railyard.measure.cost.capital import CostPart
    from railyard.work.scenario.load import Draft
    from railyard.work.training.spec import Layout, Training


T = TypeVar("T")

_CLUSTER = frozenset({"cluster", "catalog"})
_FAULTS = frozenset({"faults", "recovery"})
_WORK = frozenset({"workload", "catalog"})
_MONEY = frozenset({"economics", "catalog"})

_RATIO = re.compile(r"oversubscription=[^,)]+")


@dataclass(frozen=True, eq=False)
class PlannedHardware:
    """A cluster as a plan sees it.

    Attributes:
        faulty: The same under the scenario's faults, as closed forms see it.
        site: That for closed forms of the network; None where its topology has none.
        names: Catalogue names and makers of everything in it.
        lead_s: By catalogue name, from the order until it is there, where the catalogue has that.
    """

    cluster: Cluster
    faulty: ClosedFaults
    site: DesignSite | None
    parts: tuple[CostPart, ...]
    names: frozenset[str]
    lead_s: Mapping[str, float]

    @property
    def bound(self) -> bool:
        """Whether no product can be as good: its network is a crossbar that blocks nothing."""
        return self.cluster.is_bound

    @cached_property
    def digest(self) -> str:
        """Digest of its bill, its links and the request without oversubscription: equal where the same is built."""
        links = self.cluster.links
        asked = _RATIO.sub("", repr((self.cluster.spec, self.cluster.placement, self.parts, links.tiers)))
        found = hashlib.blake2b(asked.encode(), digest_size=16)
        for item in fields(links):
            if item.name != "tiers":
                found.update(getattr(links, item.name).tobytes())
        return found.hexdigest()

    def marked(self, outcome: DesignOutcome, exclude: frozenset[str]) -> DesignOutcome:
        """An outcome with what is built of it, and which of some makers and parts that has."""
        excluded = tuple(sorted(exclude & self.names))
        return replace(outcome, excluded=excluded, bound=self.bound, cluster=self.digest)

    @classmethod
    def of(
        cls, cluster: Cluster, faulty: ClosedFaults | None = None, parts: Sequence[CostPart] | None = None
    ) -> PlannedHardware:
        """The same of any cluster.

        Args:
            cluster: The machine.
            faulty: Under faults, where there are any.
            parts: What is bought where some servers are not the cluster's own; then there is no closed form of steps.
        """
        faulty, site = faulty or ClosedFaults(cluster), None
        if parts is None:
            with suppress(InputError):
                site = DesignSite.of(faulty.cluster)
        bill = bill_of(cluster)
        bought = tuple(parts_of_rows(bill) if parts is None else parts)
        switches = [box for plan in cluster.plans.values() for box in plan.switches.values()]
        makers = {cluster.accelerator.vendor, cluster.nic.vendor, *(switch.vendor for switch in switches)}
        names = frozenset(makers | {part.name for part in bought if part.count})
        return cls(cluster, faulty, site, bought, names, _leads(cluster, bill))


@dataclass(frozen=True, eq=False)
class CandidateDesign:
    """A point under a demand, ready to be looked at.

    Attributes:
        jobs: The job under every layout that it may have.
    """

    point: int
    demand: int
    hardware: PlannedHardware
    jobs: tuple[Training, ...]
    assumptions: Assumptions


@dataclass
class DesignBench:
    """Builds the designs of a space."""

    space: DesignSpace
    keep: int = 96
    _made: dict[object, Any] = field(default_factory=dict)
    _memo: Memo = field(default_factory=Memo)
    _services: int = 0

    def design(self, point: int, demand: int = 0) -> CandidateDesign:
        """A point under a demand.

        Raises:
            InputError: It cannot be built, or no layout fits.
        """
        hardware = self.hardware(point, demand)
        rest = self.space.part(point, demand, _everything(self.space) - _CLUSTER - _WORK - _MONEY)
        self.once(("rest", rest), lambda: self.space.draft(point, demand))
        assumptions = self.assumptions(point, demand)
        work = ("work", self.space.part(point, demand, _WORK), _signature(hardware.cluster))
        jobs = self.once(work, lambda: self._jobs(self.space.draft(point, demand), hardware.cluster))
        return CandidateDesign(point, demand, hardware, jobs, assumptions)

    def assumptions(self, point: int, demand: int = 0) -> Assumptions:
        """Prices and rates of a point."""
        key = ("money", self.space.part(point, demand, _MONEY))
        return self.once(key, lambda: self._assumptions(self.space.draft(point, demand)))

    def memo(self) -> Memo:
        """Shared parts of services of points; emptied now and then."""
        self._services += 1
        if self._services % self.keep == 0:
            self._memo = Memo()
        return self._memo

    def hardware(self, point: int, demand: int = 0, use: int | None = None) -> PlannedHardware:
        """The cluster of a point.

        Raises:
            InputError: It cannot be built.
        """
        key = ("cluster", self.space.part(point, demand, _CLUSTER | _FAULTS), use)

        def make() -> PlannedHardware:
            draft = self.space.draft(point, demand)
            catalog = self._catalog(draft)
            cluster = compose.cluster_of(draft, catalog)
            seated = cluster if use is None else compose.placed(draft, cluster, catalog, use)
            return PlannedHardware.of(seated, _under_faults(draft, seated))

        return self.once(key, make)

    def seated(self, point: int, demand: int, layout: Layout) -> PlannedHardware:
        """The cluster of a point, its scale-up domains used as a layout wants them."""
        hardware = self.hardware(point, demand)
        use = compose.domain_use_of(hardware.cluster, layout)
        if use is None or hardware.cluster.spec.ranks_per_domain is not None:
            return hardware
        return self.hardware(point, demand, use)

    def delivery_s(self, hardware: PlannedHardware) -> float:
        """Seconds from the order to the delivery of the last part."""
        return self.space.delivery_s(hardware.names, hardware.lead_s)

    def catalog(self, point: int, demand: int = 0) -> Catalog:
        """Catalogue of the parts of a point."""
        return self._catalog(self.space.draft(point, demand))

    def _catalog(self, draft: Draft) -> Catalog:
        return self.once(("catalog", draft.scenario.catalog), lambda: compose.catalog_of(draft))

    def _assumptions(self, draft: Draft) -> Assumptions:
        section = draft.scenario.economics
        named = section.at_site("grid")
        with blaming(draft, "economics"):
            found = Assumptions.from_catalog(self._catalog(draft), section.given())
            return replace(found, site=section.site or "", grid=None if named is None else grid(named, "grid"))

    def _jobs(self, draft: Draft, cluster: Cluster) -> tuple[Training, ...]:
        found: list[Training] = []

        def choose(jobs: Sequence[Training]) -> Training:
            found.extend(jobs)
            return jobs[0]

        compose.need_storage(draft)
        with blaming(draft, "workload", "training", "model"):
            model = compose.model_of(draft.folder, draft.scenario.training.model, self._catalog(draft))
        only = compose.training_of(draft, cluster, model, choose)
        return tuple(found) or (only,)

    def once(self, key: object, make: Callable[[], T]) -> T:
        """The object that was made before under a key, or its error."""
        if key not in self._made:
            if len(self._made) > 50 * self.keep:
                self._made.clear()
            try:
                self._made[key] = make()
            except InputError as error:
                self._made[key] = error
        found = self._made[key]
        if isinstance(found, InputError):
            raise found
        made: T = found
        return made


_CABLES = frozenset({"optic", "fibre", "trunk", "panel", "terminal", "amplifier", "route"})
_APPLIANCES = frozenset({"management-server", "fabric-manager", "pdu", "rack"})


def _leads(cluster: Cluster, bill: BillOfMaterials) -> dict[str, float]:
    """Lead times of the parts of a bill that have one; those that the scenario overrides as it says."""
    own = (cluster.accelerator, cluster.server, cluster.nic)
    switches = [box for plan in cluster.plans.values() for box in plan.switches.values()]
    found = {entry.name: entry.lead_s for entry in (*own, *switches)}
    for row in bill:
        if row.name not in found:
            kind = "cable" if row.kind in _CABLES else "appliance" if row.kind in _APPLIANCES else row.kind
            found[row.name] = getattr(cluster.catalog.entry(kind, row.name), "lead_s", None)
    bought = {row.name for row in bill}
    return {name: lead_s for name, lead_s in found.items() if lead_s is not None and name in bought}


def _under_faults(draft: Draft, cluster: Cluster) -> ClosedFaults | None:
    """The cluster under the scenario's faults; None where it has none."""
    if not draft.scenario.faults:
        return None
    with blaming(draft, "recovery"):
        recovery: Recovery = build(draft.scenario.recovery, Recovery)
    with blaming(draft, "faults"):
        return closed_faults(cluster, faults_of(draft), recovery)


def _everything(space: DesignSpace) -> frozenset[str]:
    from railyard.work.scenario.model import Scenario

    del space
    return frozenset(Scenario.model_fields)


def _signature(cluster: Cluster) -> tuple[object, ...]:
    """Clusters with the same have the same jobs: what layouts may be and which fit does not ask for the network."""
    return (
        id(cluster.accelerator),
        cluster.server.name,
        cluster.ranks,
        cluster.scale_up_domain,
        cluster.spec.memory_pool,
        cluster.storage is None,
        str(cluster.spec.overrides),
    )
