r"""What a cluster needs as well as networks of jobs: management networks, fabric managers, racks and their power.

        site
        |  |                                      in-band: two cores above pairs of leafs; every device has a cable to
      core core        (with one pair of leafs    both leafs of a pair
       |  X  |          there are no cores)
    leaf = leaf  ...                              out-of-band: one cable to the management port of every box; each
       \  /   \                                   switch has two cables in-band
      server    out-of-band switch - - - every management port

NVIDIA's DGX SuperPOD H100 reference (RA-11333-001 V11, 2023) is built so, and its counts of cables between leafs (2 a
pair), to cores (2 to each) and to the site (2 of each core) are the defaults.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.cluster.hall.devices import devices_of, rack_limit_w, servers_per_rack, switch_units
from railyard.cluster.hall.racks import purchased
from railyard.cluster.modules import TWIN, free_halves
from railyard.cluster.names import ports_of
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from railyard.catalog import Appliance, Cable, Catalog, Entry, Switch
    from railyard.cluster.hall.devices import Devices
    from railyard.cluster.machine import Cluster
    from railyard.cluster.plan import NetworkPlan
    from railyard.cluster.spec import ManagementSpec

IN_BAND, OUT_OF_BAND = "in-band", "out-of-band"
MANAGER = "manager"
"""Tier of the cables of fabric managers."""
UPLINKS = 2
"""Uplinks of an out-of-band switch, to both leafs of an in-band pair."""


@dataclass(frozen=True)
class Item:
    """A number of pieces of one catalog entry.

    Attributes:
        network: `in-band`, `out-of-band`, the network of a fabric manager, or empty.
    """

    kind: str
    part: Switch | Cable | Appliance
    count: int
    network: str = ""
    tier: str = ""


@dataclass(frozen=True)
class Management:
    """The management networks, fabric managers, racks and power distribution."""

    items: tuple[Item, ...]
    racks: tuple[int, int]
    missing: tuple[str, ...]


def management_of(cluster: Cluster) -> Management | None:
    """The management side of a cluster; None if not requested.

    Raises:
        InputError: A name is unknown, or a box has another role; keys are relative to the cluster.
    """
    spec = cluster.spec.management
    if spec is None:
        return None
    plans = purchased(cluster)
    return _Design(cluster, plans, devices_of(cluster, plans), spec, _Parts.of(spec, cluster.catalog)).made()


def check(spec: ManagementSpec, catalog: Catalog) -> None:
    """Rejects names that the catalog does not have in that role.

    Raises:
        InputError: See `management_of`.
    """
    _Parts.of(spec, catalog)


@dataclass(frozen=True)
class _Parts:
    server: Appliance
    fabric_manager: Appliance
    pdu: Appliance
    rack: Appliance
    in_band: Switch
    out_of_band: Switch
    in_band_cable: Cable
    out_of_band_cable: Cable

    @classmethod
    def of(cls, spec: ManagementSpec, catalog: Catalog) -> _Parts:
        roles = {"server": "management-server", "fabric_manager": "fabric-manager", "pdu": "pdu", "rack": "rack"}
        kinds = {"in_band": "switch", "out_of_band": "switch", "in_band_cable": "cable", "out_of_band_cable": "cable"}
        found: dict[str, Entry] = {}
        for name in (*roles, *kinds):
            asked = getattr(spec, name)
            try:
                found[name] = catalog.entry(kinds.get(name, "appliance"), asked)
            except InputError as error:
                raise error.located(key=f"management.{name}") from None
            role = getattr(found[name], "role", None)
            if name in roles and role != roles[name]:
                others = (one for one in catalog.names("appliance") if catalog.appliance(one).role == roles[name])
                raise InputError(
                    f"`{asked}` is a {role}, no {roles[name]}",
                    key=f"management.{name}",
                    found=asked,
                    allowed=", ".join(others),
                )
        return cls(**found)  # type: ignore[arg-type]


@dataclass(frozen=True)
class _Design:
    cluster: Cluster
    plans: Mapping[str, NetworkPlan]
    devices: Devices
    spec: ManagementSpec
    parts: _Parts

    def made(self) -> Management:
        servers = -(-self.cluster.servers // servers_per_rack(self.cluster, self.devices.server_w))
        managers, links = self._fabric_managers()
        pairs, out = self._settled(2 * len(managers), servers)
        rest = self._rest(2 * len(managers), pairs, out)
        ports = self._ports(2 * len(managers), pairs, self._pdus(servers, rest))
        items = [
            Item("management-server", self.parts.server, self.spec.servers),
            *managers,
            *links,
            Item("switch", self.parts.in_band, 2 * pairs, IN_BAND, "leaf"),
            Item("switch", self.parts.in_band, _cores(pairs), IN_BAND, "core"),
            Item("switch", self.parts.out_of_band, out, OUT_OF_BAND, "leaf"),
            *self._in_band_cables(pairs, out),
            *self._out_of_band_cables(ports),
            Item("pdu", self.parts.pdu, self._pdus(servers, rest), tier="rack"),
            Item("rack", self.parts.rack, servers + rest.racks),
        ]
        kept = tuple(item for item in items if item.count)
        return Management(kept, (servers, rest.racks), tuple(self._missing()))

    def _settled(self, managers: int, servers: int) -> tuple[int, int]:
        """Number of pairs of in-band leafs, and of out-of-band switches.

        More switches need more racks, which need more power distribution, and each of these has a management port. None
        of these numbers falls when another rises, so the iteration ends at the smallest solution.
        """
        pairs, out = 1, 1
        while True:
            pdus = self._pdus(servers, self._rest(managers, pairs, out))
            wanted = -(-sum(self._ports(managers, pairs, pdus).values()) // self.parts.out_of_band.ports)
            found = self._leaf_pairs(self.cluster.servers + self.spec.servers + self.spec.file_servers + wanted)
            if found <= pairs and wanted <= out:
                return pairs, out
            pairs, out = max(found, pairs), max(wanted, out)

    def _leaf_pairs(self, devices: int) -> int:
        """Pairs of in-band leafs for devices that have a cable to both of a pair."""
        ports = self.parts.in_band.ports
        alone = ports - self.spec.peer_links - self.spec.core_links
        if devices <= alone:
            return 1
        room = ports - self.spec.peer_links - 2 * self.spec.core_links
        if room < 1:
            raise InputError(
                f"{self.parts.in_band.name} has no port left for a server",
                key="management.core_links",
                found=self.spec.core_links,
                allowed="fewer cables to cores and peers, or a larger switch",
            )
        return math.ceil(devices / room)

    def _ports(self, managers: int, pairs: int, pdus: int) -> dict[str, int]:
        switches = sum(group.count for plan in self.cluster.plans.values() for group in plan.wiring.groups)
        stored = self.cluster.storage_servers
        return {
            "servers": self.cluster.servers,
            "network switches": switches,
            "management servers": self.spec.servers + managers,
            "in-band switches": 2 * pairs + _cores(pairs),
            "power distribution": pdus,
            "storage": 0 if stored is None or stored.local else stored.count,
        }

    def _fabric_managers(self) -> tuple[list[Item], list[Item]]:
        """A pair per InfiniBand network, with their cables to its leafs."""
        found, links = [], []
        for plan in self._infiniband():
            part = self.parts.fabric_manager
            run = plan.runs[0]
            found.append(Item("fabric-manager", part, 2, plan.name))
            if run.cable is None:
                continue
            count = 2 * part.fabric_ports
            optic = run.cable.kind == "optic"
            each = 1 + (optic and run.twin is None)
            links.append(Item("optic" if optic else "cable", run.cable, count * each, plan.name, MANAGER))
            more = 0 if run.twin is None else math.ceil(max(count - free_halves(plan), 0) / TWIN)
            if run.twin is not None and more:
                links.append(Item("optic", run.twin, more, plan.name, MANAGER))
            if run.fibre is not None:
                links.append(Item("fibre", run.fibre, count, plan.name, MANAGER))
        pairs = len(found)
        if pairs:
            links.append(Item("cable", self.parts.out_of_band_cable, pairs, OUT_OF_BAND, "manager pair"))
        return found, links

    def _infiniband(self) -> list[NetworkPlan]:
        return [plan for plan in self.plans.values() if "infiniband" in plan.fabric.families]

    def _missing(self) -> Iterator[str]:
        wanted = 2 * self.parts.fabric_manager.fabric_ports
        for plan in self._infiniband():
            free = sum(row.free for row in ports_of(plan) if row.role == "leaf")
            if free < wanted:
                yield (
                    f"{wanted} ports for fabric managers on the {plan.name}'s leafs, which have {free} free: leave a"
                    " server out, as NVIDIA's reference design does (127 of 128), or `servers_per_leaf` one lower"
                )

    def _in_band_cables(self, pairs: int, out: int) -> list[Item]:
        cable, spec = self.parts.in_band_cable, self.spec
        counts = {
            "servers": 2 * self.cluster.servers,
            "management servers": 2 * spec.servers,
            "file servers": 2 * spec.file_servers,
            "out-of-band switches": UPLINKS * out,
            "leaf-core": 2 * pairs * _cores(pairs) * spec.core_links,
            "peer": pairs * spec.peer_links,
            "site": 2 * spec.core_links,
        }
        return [Item("cable", cable, count, IN_BAND, tier) for tier, count in counts.items()]

    def _out_of_band_cables(self, ports: dict[str, int]) -> list[Item]:
        cable = self.parts.out_of_band_cable
        return [Item("cable", cable, count, OUT_OF_BAND, tier) for tier, count in ports.items()]

    def _rest(self, managers: int, pairs: int, out: int) -> _OtherRacks:
        parts, cabled, own = self.parts, self.devices, self.devices.servers
        boxes = [
            (switch_units(parts.in_band), parts.in_band.power_w.high, 2 * pairs + _cores(pairs)),
            (switch_units(parts.out_of_band), parts.out_of_band.power_w.high, out),
            (parts.server.height_u, parts.server.power_w.high, self.spec.servers + self.spec.file_servers),
            (parts.fabric_manager.height_u, parts.fabric_manager.power_w.high, managers),
        ]
        units = int(cabled.height_u[own:].sum()) + sum(units * count for units, _, count in boxes)
        drawn = float(cabled.power_w[own:].sum()) + sum(most * count for _, most, count in boxes)
        racks = max(
            math.ceil(units / self.cluster.spec.hall.network_units), math.ceil(drawn / rack_limit_w(self.cluster))
        )
        return _OtherRacks(racks, drawn)

    def _pdus(self, servers: int, rest: _OtherRacks) -> int:
        rating = self.parts.pdu.rating_w
        full = servers_per_rack(self.cluster, self.devices.server_w) * self.devices.server_w
        of_others = math.ceil(rest.watts / rest.racks / rating) + 1
        return servers * (math.ceil(full / rating) + 1) + rest.racks * of_others


@dataclass(frozen=True)
class _OtherRacks:
    """Racks without accelerator servers, and the maximum power that all of them draw, W."""

    racks: int
    watts: float


def _cores(pairs: int) -> int:
    return 2 if pairs > 1 else 0
