"""What tenants take of the tables of switches: routes, neighbours, VRFs, VNIs, rows of access lists, partition keys."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.deploy.plan.shared import shared_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.ask.deploy.plan.cabling import Plan
    from railyard.ask.deploy.plan.shared import Shared

TABLES = ("routes", "neighbours", "vrfs", "vnis", "rules", "partition_keys")


@dataclass(frozen=True)
class Demand:
    """The fullest table of its kind among switches of a role.

    Attributes:
        role: `leaf`, `spine`, ...
        box: Catalogue name of the switch.
        table: One of `TABLES`.
        rows: Needed, IPv4.
        switch: Where.
        most: That the box has; None: none is published.
        source: Of that.
    """

    role: str
    box: str
    table: str
    rows: int
    switch: str
    most: int | None
    source: str

    @property
    def fits(self) -> bool:
        """Whether there are so many, as far as is known."""
        return self.most is None or self.rows <= self.most

    def plain(self) -> dict[str, object]:
        """As JSON has it."""
        return {
            "role": self.role, "box": self.box, "table": self.table, "rows": self.rows, "switch": self.switch,
            "most": self.most, "source": self.source,
        }  # fmt: skip


def demands(plan: Plan, key: str = "back_end") -> list[Demand]:
    """The fullest tables by role of a network; nothing where nobody shares it."""
    number = list(plan.cluster.plans).index(key)
    shared, network = shared_of(plan, number), plan.cluster.plans[key]
    if shared.tenancy is None:
        return []
    found: dict[tuple[str, str], Demand] = {}
    for device, rows in _rows(plan, number, shared):
        role, box = str(plan.devices.role[device]), network.switches[str(plan.devices.box[device])]
        for table, count in rows.items():
            old = found.get((role, table))
            if count and (old is None or count > old.rows):
                origin = box.provenance.get("tables") or box.provenance.get(f"tables.{table}")
                source = "" if origin is None else origin.source
                found[role, table] = Demand(
                    role, box.name, table, count, plan.devices.name[device], box.tables.get(table), source
                )
    return list(found.values())


def _rows(plan: Plan, number: int, shared: Shared) -> Iterator[tuple[int, dict[str, int]]]:
    """Rows of every table, switch by switch."""
    cables, devices = plan.cables, plan.devices
    mine = cables.network == number
    switches = np.flatnonzero((devices.level > 0) & (devices.network == plan.networks[number]))
    access = mine & (devices.level[cables.a] == 0)
    ports = Counter(cables.b[access & (shared.owner >= 0)].tolist())
    lanes: Counter[int] = Counter()
    for row in np.flatnonzero(mine & (devices.level[cables.a] > 0)).tolist():
        ways = 1 + len(shared.between(row))
        lanes.update({int(cables.a[row]): ways, int(cables.b[row]): ways})
    tenants = 0 if shared.tenancy is None else len(shared.tenancy.tenants)
    prefixes = np.bincount(shared.owner[shared.owner >= 0], minlength=tenants)
    leafs = shared.carried[devices.level == 1].sum(axis=0) if tenants else np.zeros(0, np.int64)
    for device in switches.tolist():
        yield device, _of_switch(shared, device, (len(switches), prefixes.tolist(), leafs.tolist()), ports, lanes)


def _of_switch(
    shared: Shared,
    device: int,
    totals: tuple[int, list[int], list[int]],
    ports: Counter[int],
    lanes: Counter[int],
) -> dict[str, int]:
    switches, prefixes, leafs = totals
    here, leaf = [vrf.row for vrf in shared.vrfs(device)], shared.plan.devices.level[device] == 1
    if shared.by == "pkey":
        return {"partition_keys": 2 if leaf else 1}
    evpn = shared.by == "evpn"
    routed = sum(prefixes[row] for row in here) if shared.vrfs(device) or evpn else sum(prefixes)
    own = np.flatnonzero(shared.carried[device]).tolist() if shared.by == "acl" and leaf else []
    return {
        "routes": switches + routed,
        "neighbours": ports[device] + lanes[device] + (sum(leafs[row] - 1 for row in here) if evpn else 0),
        "vrfs": len(here),
        "vnis": len(here) if evpn else 0,
        "rules": sum(len(shared.prefixes[row]) + 1 for row in own),
    }
