"""Change from one cluster to the next: parts that stay, are bought or left over; cables that stay, move or are new."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.ask.plan.objectives import excess
from railyard.cluster import bill_of
from railyard.measure.cost.assumptions import HOURS_PER_YEAR
from railyard.measure.cost.capital import NETWORK_COMPONENTS, component_of
from railyard.measure.cost.cost import usd_per_h

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from railyard.ask.plan.price import TrainingPrice
    from railyard.catalog import Range
    from railyard.cluster import Cluster
    from railyard.cluster.plan import NetworkPlan

    Ends = tuple[str, int, str, int]


@dataclass(frozen=True, eq=False)
class GrowthStage:
    """The cluster from a time on.

    Attributes:
        layout: Of the job in closed form, in words.
    """

    name: str
    at_s: float
    until_s: float
    cluster: Cluster
    layout: str
    priced: TrainingPrice
    batch: int


@dataclass(frozen=True)
class SizeRegret:
    """One size that may be built."""

    built: str
    usd_per_year: tuple[float, ...]
    regret_usd: tuple[float, ...]

    @property
    def bound_usd(self) -> float:
        """The largest regret."""
        return max(self.regret_usd)


def provisions(stages: Sequence[GrowthStage]) -> tuple[SizeRegret, ...]:
    """Every size under every demand, the least of the largest regrets first.

    Args:
        stages: Sizes; what each makes is a demand.
    """
    costs = [[_cost(built, wanted) for wanted in stages] for built in stages]
    found = [
        SizeRegret(stage.name, tuple(row), tuple(late))
        for stage, row, late in zip(stages, costs, excess(costs).tolist(), strict=True)
    ]
    return tuple(sorted(found, key=lambda one: one.bound_usd))


def _cost(built: GrowthStage, wanted: GrowthStage) -> float:
    hourly = usd_per_h(built.priced.typical)
    have, want = built.priced.tokens_per_s, wanted.priced.tokens_per_s
    own = hourly["capital"] + hourly["space"] + hourly["operations"] + hourly["energy"] * min(1.0, want / have)
    each = want / wanted.cluster.ranks
    rented = max(0.0, want - have) / each * wanted.cluster.accelerator.rental_usd_per_h.typical
    return (own + rented) * HOURS_PER_YEAR


@dataclass(frozen=True)
class Lot:
    """Pieces of one catalogue entry."""

    name: str
    component: str
    count: float
    price_usd: Range

    @property
    def network(self) -> bool:
        """Whether it belongs to the network."""
        return self.component in NETWORK_COMPONENTS


def lots(cluster: Cluster) -> dict[str, Lot]:
    """Parts of a cluster, by catalogue name."""
    found: dict[str, Lot] = {}
    for row in bill_of(cluster):
        before = found.get(row.name)
        count = row.count + (0.0 if before is None else before.count)
        found[row.name] = Lot(row.name, component_of(row.kind), count, row.price_usd)
    return found


def cables(cluster: Cluster) -> Counter[Ends]:
    """Every cable of the networks by its ends: `server` with number, or a role with number, of a network."""
    found: Counter[Ends] = Counter()
    for plan in cluster.plans.values():
        names = _names(plan)
        wiring = plan.wiring
        for source, target in zip(wiring.source[::2].tolist(), wiring.target[::2].tolist(), strict=True):
            one, other = sorted((names[source], names[target]))
            found[(*one, *other)] += 1
    return found


def _names(plan: NetworkPlan) -> dict[int, tuple[str, int]]:
    """Nodes of a network as they are called at any size: a server's NIC, the n-th switch of a role."""
    wiring = plan.wiring
    names = {
        int(port): (f"{plan.name} NIC {nic}", server)
        for server, ports in enumerate(wiring.port_of.tolist())
        for nic, port in enumerate(ports)
    }
    names |= {int(port): (f"{plan.name} port", at) for at, port in enumerate(wiring.extra.tolist())}
    count: Counter[str] = Counter()
    node = wiring.ports
    for group in wiring.groups:
        for _ in range(group.count):
            names[node] = (f"{plan.name} {group.role}", count[group.role])
            count[group.role] += 1
            node += 1
    return {at: names.get(at, (f"{plan.name} free", at)) for at in range(wiring.nodes)}


@dataclass(frozen=True)
class GrowthChange:
    """Purchases and moves of a step of growth.

    Attributes:
        stranded: Pieces that were paid for and are of no use any more, by name.
        moved: Cables that were there and are pulled, while the cluster is in use.
    """

    bought: Mapping[str, Lot]
    stranded: Mapping[str, Lot]
    kept: int
    moved: int
    laid: int

    def usd(self, lots: Iterable[Lot], *, network: bool | None = None) -> float:
        """Typical price of some lots, of the network alone where that is asked for."""
        chosen = [lot for lot in lots if network is None or lot.network is network]
        return sum(lot.count * lot.price_usd.typical for lot in chosen)


def change(before: Cluster | None, after: Cluster, *, rebuilt: bool) -> GrowthChange:
    """The change from one cluster to another.

    Args:
        before: None: there is nothing yet.
        after: The next.
        rebuilt: Whether the network is bought again, rather than what is missing of it.
    """
    old, new = ({} if before is None else lots(before)), lots(after)
    bought, stranded = {}, {}
    for name in sorted({*old, *new}):
        one, other = old.get(name), new.get(name)
        had = 0.0 if one is None else one.count
        wanted = 0.0 if other is None else other.count
        lot = other or one
        if lot is None:
            continue
        kept = 0.0 if rebuilt and lot.network and lot.component != "NICs" else min(had, wanted)
        if wanted > kept:
            bought[name] = Lot(name, lot.component, wanted - kept, lot.price_usd)
        if had > kept:
            stranded[name] = Lot(name, lot.component, had - kept, lot.price_usd)
    mine, theirs = (Counter() if before is None else cables(before)), cables(after)
    same = 0 if rebuilt else (mine & theirs).total()
    return GrowthChange(bought, stranded, same, mine.total() - same, theirs.total() - same)
