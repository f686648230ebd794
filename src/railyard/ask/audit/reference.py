"""What a fault costs where nothing is known but the network: a job of reference on all of its hosts.

Each group of hosts under one switch spends `SHARE` of its time on communication that goes through all shift
permutations of the ports below a block, in the order of their names, each as long as the fullest cable that the group
uses needs (`loads`): jobs as large as a rack. A fault is priced by itself, against the design without faults. What a
host's own cable lacks makes its group wait.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.audit.infer import by_name
from railyard.ask.audit.price import priced as settings_price
from railyard.ask.audit.price import rack_of
from railyard.ask.audit.symptom import CableChange, HostMove, Tables, shifts_of
from railyard.measure.cost.assumptions import HOURS_PER_MONTH

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.ask.audit.blocks import ClosBlock
    from railyard.ask.audit.infer import InferredDesign
    from railyard.ask.audit.symptom import AuditFinding
    from railyard.catalog import Catalog
    from railyard.cluster.fabric import Fabric
    from railyard.cluster.network_table import NetworkTable

NO_PAUSES = "the packet model of this fabric has no pauses, marks or headroom by port: their effect is not simulated"

SHARE = 0.2
"""Share of a step that waits for the network if the job is unknown: an assumption, given with every price."""

RENTED = ((200e9, "a100-sxm-80gb"), (400e9, "h100-sxm"), (float("inf"), "b200-sxm"))
"""Accelerator that hosts with ports up to this rate usually have, one a port, by whose rent an hour is priced."""

MOST = 60_000_000
"""Entries of the tables of a block (destinations times switches) beyond which shifts are not played."""


@dataclass(frozen=True, eq=False)
class ShiftLoads:
    """A block under one state.

    Attributes:
        worst: float64[shifts], flows on the fullest cable.
        groups: float64[shifts], flows on the fullest cable that a switch's ports use, in the mean over ports.
        shifts: int64[shifts].
    """

    worst: NDArray[np.float64]
    groups: NDArray[np.float64]
    shifts: NDArray[np.int64]

    @classmethod
    def of(cls, tables: Tables) -> ShiftLoads:
        """Loads under some tables."""
        worst, groups = tables.loads().T
        return cls(worst, groups, shifts_of(len(tables.low_of)))

    @property
    def time(self) -> float:
        """Time of all shifts in turn, in units of one without contention."""
        return float(self.groups.mean()) if len(self.groups) else 1.0

    @property
    def all_reduce(self) -> float:
        """Time of recursive halving and doubling: half of the bytes to the neighbour, a quarter two further, etc."""
        power = np.flatnonzero((self.shifts & (self.shifts - 1)) == 0)
        weight = 0.5 ** np.arange(1, len(power) + 1)
        return float((self.worst[power] * weight).sum() / weight.sum()) if len(power) else 1.0


class PlayedBlock:
    """One block with its destinations, played once as designed and then fault by fault."""

    def __init__(self, found: NetworkTable, block: ClosBlock, meant: Mapping[int, int]) -> None:
        self.block = block
        below = _below(found, block, meant)
        self.place: dict[tuple[int, int], list[int]] = defaultdict(list)
        for at, end in enumerate(below):
            self.place[end].append(at)
        low_of = np.array([low for _, low in below], np.int64)
        self.ports = len(low_of)
        self.played_whole = self.ports * sum(block.meant.shape) <= MOST and self.ports > 1
        self._low_of = low_of

    @cached_property
    def tables(self) -> Tables:
        """Tables as designed."""
        return Tables(self._low_of, np.arange(self.ports), self.block.meant, spare=2)

    @cached_property
    def designed(self) -> ShiftLoads:
        """Loads without faults."""
        return self.play(())

    def play(self, changes: Iterable[CableChange | HostMove]) -> ShiftLoads:
        """Loads with some faults."""
        return ShiftLoads.of(self.changed(self.tables, changes))

    def changed(self, tables: Tables, changes: Iterable[CableChange | HostMove]) -> Tables:
        """Tables with changes; ports of hosts that this block does not have stay where they are."""
        changes, taken = tuple(changes), Counter[tuple[int, int]]()
        moves = []
        for one in changes:
            if isinstance(one, HostMove) and taken[one.host, one.low] < len(self.place.get((one.host, one.low), ())):
                moves.append((self.place[one.host, one.low][taken[one.host, one.low]], one.to))
                taken[one.host, one.low] += 1
        tables = tables.moved(moves) if moves else tables
        cables = [one for one in changes if isinstance(one, CableChange)]
        return tables.changed(cables) if cables else tables

    def found(self, changes: Sequence[CableChange | HostMove]) -> ShiftLoads:
        """Loads on new tables for the present cables, with the changes that only move cables or hosts."""
        tables = Tables(self._low_of, np.arange(self.ports), self.block.found)
        return ShiftLoads.of(
            self.changed(tables, [one for one in changes if isinstance(one, HostMove) or not one.cables])
        )

    def slower(self, changes: Sequence[CableChange | HostMove]) -> tuple[float, ShiftLoads | None]:
        """Time of communication with some faults over that without."""
        if not changes:
            return 1.0, None
        if not self.played_whole:
            return self._counted(changes), None
        played = self.play(changes)
        return max(played.time / self.designed.time, 1.0), played

    def _counted(self, changes: Sequence[CableChange | HostMove]) -> float:
        """For tables that are too large: the most cables of a lower switch over those that it has left."""
        up = self.block.meant.sum(axis=1).astype(float)
        left = up.copy()
        for change in changes:
            if isinstance(change, HostMove):
                continue
            left[change.low] += change.cables if change.cables else change.speed - 1.0
        return float((up / np.maximum(left, 1.0)).max())


def _below(found: NetworkTable, block: ClosBlock, meant: Mapping[int, int]) -> list[tuple[int, int]]:
    """Each port below a block with its lower switch: of hosts by name, or of cables of the tier below, by switch.

    Returns:
        The host, -1 where it is a cable of the tier below, and the row of the lower switch.
    """
    row = {device: at for at, device in enumerate(block.low.tolist())}
    if block.tier == 1:
        ends = zip(found.access.tolist(), found.access_ends.tolist(), strict=True)
        listed = [(host, meant.get(cable, leaf)) for cable, (leaf, host) in ends]
        below = [(host, row[leaf]) for host, leaf in listed if leaf in row]
        order = {host: at for at, host in enumerate(by_name(found, [host for host, _ in below]))}
        return sorted(below, key=lambda one: order[one[0]])
    above = set(block.high.tolist())
    ends = found.ends[found.between].tolist()
    count = np.zeros(len(row), np.int64)
    for one, other in ends:
        for mine, far in ((one, other), (other, one)):
            if mine in row and far not in above:
                count[row[mine]] += 1
    return [(-1, low) for low in np.repeat(np.arange(len(row)), count).tolist()]


@dataclass(frozen=True)
class AuditPrice:
    """Price of an hour."""

    accelerators: int
    usd_per_hour: float
    share: float
    words: str

    def loss(self, slower: float, idle: float) -> float:
        """Share of all accelerators' time that communication slower by a factor, and idle accelerators, cost."""
        late = self.share * (slower - 1.0)
        return 1.0 - (1.0 - min(idle / max(self.accelerators, 1), 1.0)) / (1.0 + late)

    def usd(self, loss: float) -> float:
        """A month of such a loss."""
        return loss * self.accelerators * self.usd_per_hour * HOURS_PER_MONTH


def price_of(found: NetworkTable, catalog: Catalog) -> AuditPrice:
    """An accelerator for each port of a host, at the rent of what has such ports."""
    known = found.rate_bps[found.access]
    rate = float(known.max(initial=0)) or 400e9
    name = next(name for most, name in RENTED if rate <= most)
    rent = catalog.accelerator(name).rental_usd_per_h.typical
    words = (
        f"assumed: one accelerator a host port, rented at ${rent:g}/h ({name}); a job on all of them spends {SHARE:.0%}"
        " of its time on communication, in all shift permutations under static min-hop routing"
    )
    return AuditPrice(len(found.access), rent, SHARE, words)


class Pricing:
    """Prices of faults of one network."""

    def __init__(
        self, found: NetworkTable, design: InferredDesign, price: AuditPrice, fabric: Fabric | None = None
    ) -> None:
        self.price = price
        self.rack = rack_of(found, design, fabric)
        self.sites = [PlayedBlock(found, block, design.meant_leaf) for block in design.blocks]
        ports: Counter[int] = Counter()
        for site in self.sites:
            ports[site.block.tier] += site.ports
        self.weight = [site.ports / max(ports[site.block.tier], 1) for site in self.sites]
        self._known: dict[tuple[int, tuple[CableChange | HostMove, ...]], tuple[float, ShiftLoads | None]] = {}

    def priced(self, finding: AuditFinding) -> AuditFinding:
        """A fault by itself."""
        if finding.settings:
            return self._set(finding)
        slower, played = self._slower(finding.block, finding.changes)
        loss = self.price.loss(slower * finding.slower, finding.idle) * finding.part
        figures: dict[str, Any] = {"loss": loss, "usd_per_month": self.price.usd(loss)}
        if played is not None:
            designed = self.sites[finding.block].designed
            figures |= {
                "worst_load": float(played.worst.max()),
                "all_reduce": played.all_reduce / designed.all_reduce,
            }
        return replace(finding, **figures)

    def _set(self, finding: AuditFinding) -> AuditFinding:
        if self.rack is None:
            return replace(finding, unpriced=NO_PAUSES)
        words = f"that is {self.price.share:.0%} of a step"
        loss = partial(self.price.loss, idle=0.0)
        return settings_price(self.rack, finding, loss, self.price.usd, words)

    def _slower(self, block: int, changes: tuple[CableChange | HostMove, ...]) -> tuple[float, ShiftLoads | None]:
        """Slowdown of all communication: a block counts by its share of the ports of its tier."""
        if block < 0 or not changes:
            return 1.0, None
        key = (block, changes)
        if key not in self._known:
            slower, played = self.sites[block].slower(changes)
            self._known[key] = 1.0 + self.weight[block] * (slower - 1.0), played
        return self._known[key]

    def left(self, order: Sequence[AuditFinding]) -> list[float]:
        """Loss with all faults, and what is left after each repair, in order: one more than there are faults.

        Played from the end: to the design with all repairs made, the last fault is added first.
        """
        tables: dict[int, Tables] = {}
        late = [0.0] * len(self.sites)
        slower, idle, partly, losses = 1.0, 0.0, 0.0, [0.0]
        for finding in reversed(order):
            number = finding.block
            if finding.part < 1 or finding.settings:
                partly += finding.loss
            elif number >= 0 and finding.changes:
                late[number] = self._late(number, finding.changes, tables)
            if finding.part >= 1 and not finding.settings:
                slower, idle = max(slower, finding.slower), idle + finding.idle
            losses.append(min(self.price.loss((1.0 + sum(late)) * slower, idle) + partly, 1.0))
        return losses[::-1]

    def _late(self, number: int, changes: tuple[CableChange | HostMove, ...], tables: dict[int, Tables]) -> float:
        """What a block adds to all communication once these changes have come to those before."""
        site = self.sites[number]
        if not site.played_whole:
            return self.weight[number] * (site.slower(changes)[0] - 1.0)
        tables[number] = site.changed(tables.get(number, site.tables), changes)
        return self.weight[number] * max(ShiftLoads.of(tables[number]).time / site.designed.time - 1.0, 0.0)
