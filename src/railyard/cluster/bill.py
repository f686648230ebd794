"""Bill of materials: what has to be bought, and its power, item by item."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.catalog.types import Range
from railyard.cluster.hall.patching import PANEL, trunk_of
from railyard.cluster.hall.racks import hall_of, purchased
from railyard.cluster.management import IN_BAND, MANAGER, OUT_OF_BAND, management_of
from railyard.cluster.modules import plugs
from railyard.cluster.ocs import FIBRE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from railyard.catalog import Cable, Catalog
    from railyard.cluster.boxes import CableRun
    from railyard.cluster.hall.patching import Patching
    from railyard.cluster.machine import Cluster
    from railyard.cluster.plan import NetworkPlan

NOTHING = Range(0.0, 0.0, 0.0)

LINE = ("line-terminal", "line-amplifier", "dark-fibre-route")
"""Catalog parts of a line between sites."""

COHERENT_M = 80_000.0
"""Wavelengths of modules with this reach share a fiber pair; others need a pair each."""

MANAGEMENT_KINDS = ("management-server", "fabric-manager", "pdu", "rack")

UNAMPLIFIED_M = 40_000.0
"""Spans up to this length need no amplifier (400ZR without amplifiers: 11 dB)."""


@dataclass(frozen=True)
class BillRow:
    """One item.

    Attributes:
        kind: `accelerator`, `server`, `scale-up` (switches of a domain), `nic`, `switch`, `cable` (copper, active
            optical), `optic`, `laser`, `fibre`, `trunk`, `panel` (patch panels), `optical-switch`, `terminal`,
            `amplifier`, `route` (lines between sites), `storage`, `memory-pool`, `management-server`, `fabric-manager`,
            `pdu` or `rack`.
        network: `back-end`, `front-end`, `storage`, `in-band`, `out-of-band`, or empty.
        tier: Tier of links, role of switches, `idle` for what the job leaves unused, or empty.
    """

    kind: str
    name: str
    count: int
    price_usd: Range
    power_w: Range
    network: str = ""
    tier: str = ""

    @property
    def total_usd(self) -> Range:
        """Price of all pieces."""
        return self.price_usd.scaled(self.count)

    @property
    def total_w(self) -> Range:
        """Power of all pieces."""
        return self.power_w.scaled(self.count)


@dataclass(frozen=True)
class BillOfMaterials:
    """Everything in a cluster that has a catalog entry.

    Attributes:
        unpriced: Parts missing from the catalog: links longer than any module reaches.
    """

    rows: tuple[BillRow, ...]
    unpriced: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[BillRow]:
        return iter(self.rows)

    def of(self, kind: str) -> tuple[BillRow, ...]:
        """The items of a kind."""
        return tuple(row for row in self.rows if row.kind == kind)

    def count(self, kind: str) -> int:
        """Number of pieces of a kind."""
        return sum(row.count for row in self.of(kind))

    @property
    def total_usd(self) -> Range:
        """Price of everything."""
        return sum((row.total_usd for row in self.rows), NOTHING)

    @property
    def total_w(self) -> Range:
        """Power of everything."""
        return sum((row.total_w for row in self.rows), NOTHING)


def outside_racks(rows: Iterable[BillRow]) -> dict[str, Range]:
    """Power of what draws some and has no place in the racks of the plan, by what it is, W."""
    found: dict[str, Range] = {}
    for row in rows:
        if (words := _outside(row)) and row.total_w.high > 0:
            found[words] = found.get(words, NOTHING) + row.total_w
    return found


def _outside(row: BillRow) -> str:
    """What an item without a place in the racks is; empty: it has one."""
    if row.tier == "idle":
        return "idle servers"
    if row.kind in MANAGEMENT_KINDS or row.network in (IN_BAND, OUT_OF_BAND) or row.tier == MANAGER:
        return "management"
    if row.kind == "optical-switch" or row.tier == "scale-up":
        return "optical circuit switches and their modules"
    if row.kind == "memory-pool" and not row.network:
        return "memory pools"
    return {"scale-up": "scale-up switches", "terminal": "lines between sites", "amplifier": "lines between sites"}.get(
        row.kind, ""
    )


def bill_of(cluster: Cluster) -> BillOfMaterials:
    """The bill of a cluster; what-if factors do not change it."""
    hardware = cluster.hardware
    accelerator, server = hardware.accelerator, hardware.server
    rows = [
        BillRow("accelerator", accelerator.name, cluster.ranks, accelerator.price_usd, accelerator.power_w),
        BillRow("server", server.name, cluster.servers, server.price_usd, server.host_power_w),
    ]
    rows += _idle_rows(cluster)
    rows += _scale_up_rows(cluster)
    unpriced: list[str] = []
    patching = _patching(cluster)
    first = 0
    for plan in purchased(cluster).values():
        rows.append(
            BillRow("nic", plan.nic.name, cluster.servers * plan.nics, plan.nic.price_usd, plan.nic.power_w, plan.name)
        )
        rows += _switch_rows(plan)
        rows += _circuit_rows(plan, cluster.catalog)
        bought = plugs(plan)
        for index, run in enumerate(plan.runs):
            through, trunks = _patched(cluster, patching, first + index)
            rows += _cable_rows(plan, index, bought[index], through, unpriced)
            rows += _line_rows(cluster, plan, index, run)
            if trunks and run.fibre is not None:
                trunk = cluster.catalog.cable(trunk_of(run.fibre.name))
                name = plan.wiring.tiers[index].name
                rows.append(BillRow("trunk", trunk.name, trunks, trunk.price_usd, NOTHING, plan.name, name))
        first += len(plan.runs)
    if patching is not None:
        panel = cluster.catalog.cable(PANEL)
        rows.append(BillRow("panel", panel.name, len(patching.panel_rack), panel.price_usd, NOTHING))
    if cluster.storage_servers is not None:
        entry = cluster.storage_servers.entry
        price = entry.price_usd_per_tb.scaled(entry.capacity_bytes / 1e12)
        network = "" if cluster.storage is None else cluster.storage.name
        rows.append(BillRow("storage", entry.name, cluster.storage_servers.count, price, entry.power_w, network))
    rows += _pool_rows(cluster)
    rows += _cube_rows(cluster)
    rows += _management_rows(cluster)
    return BillOfMaterials(tuple(row for row in rows if row.count), tuple(unpriced))


def _scale_up_rows(cluster: Cluster) -> list[BillRow]:
    """Switches and cables of each domain where its fabric is not the one in the server's price."""
    hardware = cluster.hardware
    joined = hardware.joined
    if joined is None or not joined.bought_tbps:
        return []
    fabric, tbps = joined.fabric, joined.bought_tbps
    price, power = fabric.price_usd_per_tbps.scaled(tbps), fabric.power_w_per_tbps.scaled(tbps)
    return [BillRow("scale-up", fabric.name, hardware.scale_up.domains, price, power)]


def _patching(cluster: Cluster) -> Patching | None:
    """Patch panels of the hall; None if nothing is patched."""
    if all(plan.spec.patch_panels == "none" for plan in cluster.plans.values()):
        return None
    return hall_of(cluster).racks.patching


def _patched(cluster: Cluster, patching: Patching | None, tier: int) -> tuple[int, int]:
    """Cables of a tier (tiers counted over all networks) that go through panels, and their trunks."""
    if patching is None:
        return 0, 0
    cables = hall_of(cluster).cables
    numbers = cables.number[(cables.tier == tier) & (patching.trunk >= 0)]
    return len(np.unique(numbers)), int(np.count_nonzero(patching.trunk_tier == tier))


def _pool_rows(cluster: Cluster) -> list[BillRow]:
    """Units of the memory pool; the hosts' own memory is part of the servers."""
    pool = cluster.memory_pool
    if pool is None or pool.entry is None:
        return []
    price = pool.entry.price_usd_per_tb.scaled(pool.entry.capacity_bytes / 1e12)
    network = "" if cluster.pool_network is None else cluster.pool_network.name
    return [BillRow("memory-pool", pool.entry.name, pool.units, price, pool.entry.power_w, network)]


def _cube_rows(cluster: Cluster) -> list[BillRow]:
    """Modules and fibres at the faces of cubes, and the optical circuit switches between them.

    A fibre joins a face to a switch, or two faces where there is none.
    """
    cubes = cluster.cubes
    if cubes is None:
        return []
    fibre, tier, ends = cluster.catalog.cable(FIBRE), "scale-up", cubes.count * cubes.fibres
    rows = [
        BillRow("optic", cubes.optic.name, ends, cubes.optic.price_usd, cubes.optic.power_w, tier=tier),
        BillRow("fibre", fibre.name, ends if cubes.switch else ends // 2, fibre.price_usd, NOTHING, tier=tier),
    ]
    if cubes.switch is not None:
        box = cubes.switch
        rows.append(BillRow("optical-switch", box.name, cubes.switches, box.price_usd, box.power_w, tier=tier))
    return rows


def _management_rows(cluster: Cluster) -> list[BillRow]:
    """Management networks, fabric managers, racks and their power distribution, if requested."""
    made = management_of(cluster)
    if made is None:
        return []
    return [
        BillRow(
            item.kind,
            item.part.name,
            item.count,
            item.part.price_usd,
            item.part.power_w.scaled(2.0) if item.kind == "cable" else item.part.power_w,
            item.network,
            item.tier,
        )
        for item in made.items
    ]


def _idle_rows(cluster: Cluster) -> list[BillRow]:
    """Servers that the job leaves unused in its scale-up domains, with their parts; they are not cabled."""
    hardware, tier = cluster.hardware, "idle"
    accelerator, server, count = hardware.accelerator, hardware.server, hardware.idle_servers
    return [
        BillRow(
            "accelerator", accelerator.name, hardware.idle, accelerator.price_usd, accelerator.idle_power_w, tier=tier
        ),
        BillRow("server", server.name, count, server.price_usd, server.host_power_w, tier=tier),
        *(
            BillRow("nic", plan.nic.name, count * plan.nics, plan.nic.price_usd, plan.nic.power_w, plan.name, tier)
            for plan in cluster.plans.values()
        ),
    ]


def _switch_rows(plan: NetworkPlan) -> list[BillRow]:
    """One row for each role and box, over all planes, rails and sites."""
    count: dict[tuple[str, str], int] = {}
    for group in plan.wiring.groups:
        count[group.role, group.box] = count.get((group.role, group.box), 0) + group.count
    return [
        BillRow("switch", box, number, plan.switches[box].price_usd, plan.switches[box].power_w, plan.name, role)
        for (role, box), number in count.items()
    ]


def _circuit_rows(plan: NetworkPlan, catalog: Catalog) -> list[BillRow]:
    """Optical circuit switches between the leafs of a network, and the second fibre of each circuit."""
    circuits = plan.wiring.circuits
    if circuits is None:
        return []
    box, fibre = catalog.optical_switch(circuits.switch), catalog.cable(FIBRE)
    count = math.ceil(circuits.fibres / box.usable_ports)
    return [
        BillRow("optical-switch", box.name, count, box.price_usd, box.power_w, plan.name, "circuit"),
        BillRow("fibre", fibre.name, circuits.fibres // 2, fibre.price_usd, NOTHING, plan.name, "circuit"),
    ]


def _line_rows(cluster: Cluster, plan: NetworkPlan, index: int, run: CableRun) -> list[BillRow]:
    """Fiber between sites and its equipment: pairs between every two sites, shared by wavelengths."""
    wiring = plan.wiring
    tier = wiring.tiers[index]
    links = int(np.count_nonzero(wiring.tier == index)) // 2
    if tier.kind != "long" or not links:
        return []
    terminal, amplifier, route = (cluster.catalog.cable(name) for name in LINE)
    rate = float(wiring.line_bps[wiring.tier == index].max())
    shares = run.cable is None or run.cable.reach_m >= COHERENT_M
    routes = _site_pairs(plan, index)
    each = math.ceil(links / routes * rate / route.rate_bps * (1 - 1e-9)) if shares else math.ceil(links / routes)
    pairs = routes * each
    spans = math.ceil(run.length_m / amplifier.reach_m) if shares and run.length_m > UNAMPLIFIED_M else 0
    lengths = math.ceil(run.length_m / route.reach_m)
    counts = ((terminal, 2 * pairs if shares else 0), (amplifier, pairs * max(spans - 1, 0)), (route, pairs * lengths))
    return [
        BillRow(part.kind, part.name, count, part.price_usd, part.power_w, plan.name, tier.name)
        for part, count in counts
        if count
    ]


def _site_pairs(plan: NetworkPlan, index: int) -> int:
    wiring = plan.wiring
    first, count = next((group.first, group.count) for group in wiring.groups if group.role == "border")
    sites = max(2, round(wiring.ports / max(wiring.pod_ports, 1)))
    border = count // sites
    ends = np.stack([wiring.source, wiring.target])[:, wiring.tier == index]
    site = (ends - first) // border
    return len(np.unique(np.sort(site, axis=0), axis=1).T)


def _cable_rows(
    plan: NetworkPlan, index: int, bought: dict[Cable, NDArray[np.int64]], through: int, unpriced: list[str]
) -> list[BillRow]:
    """Cables of a tier with their modules; those `through` panels need a cord at each end."""
    run = plan.runs[index]
    cables = math.ceil(int(np.count_nonzero(plan.wiring.tier == index)) / 2 / run.lanes)
    tier = plan.wiring.tiers[index].name
    if not cables:
        return []
    if run.cable is None:
        unpriced.append(f"{cables} cables of {run.length_m:g} m in {plan.name} {tier}")
        return []
    cable = run.cable
    if cable.kind != "optic":
        return [BillRow("cable", cable.name, cables, cable.price_usd, cable.power_w.scaled(2.0), plan.name, tier)]
    rows = [
        BillRow(one.kind, one.name, len(nodes), one.price_usd, one.power_w, plan.name, tier)
        for one, nodes in bought.items()
    ]
    if run.fibre is not None:
        rows.append(BillRow("fibre", run.fibre.name, cables + through, run.fibre.price_usd, NOTHING, plan.name, tier))
    return rows
