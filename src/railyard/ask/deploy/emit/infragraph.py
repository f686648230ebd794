"""A plan as InfraGraph (Keysight's open schema, version 3, of MLCommons Chakra): devices, instances, links, edges.

Each kind of box is a device with its components, each group of switches and the servers an instance with a count;
cables between consecutive ports or devices are one edge with slices. Scale-up domains that span servers have no device
in the schema: only what is inside a server is said.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.cluster.hall.devices import NETWORKS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.ask.deploy.cabling import Plan

NAME = re.compile(r"[^A-Za-z0-9_-]+")
"""What its names may not hold: dots and brackets are its syntax of endpoints."""

PORT, ASIC, CIRCUIT = "port", "asic", "circuit"
XPU, CPU, SWITCH, PCIE, SCALE_UP = "xpu", "cpu", "scale-up-switch", "pcie", "scale-up"


@dataclass(frozen=True)
class Group:
    """Devices of one kind in a row of numbers.

    Attributes:
        level: Tier; 0 of servers.
    """

    name: str
    box: str
    first: int
    count: int
    level: int


def infragraph(plan: Plan, title: str) -> str:
    """The document, as JSON."""
    groups = list(groups_of(plan))
    named = _device_names(groups)
    rows = plan.cables
    devices = [_device(plan, group, name) for group, name in zip(groups, named, strict=True)]
    instances = [
        {"name": group.name, "device": name, "count": group.count} for group, name in zip(groups, named, strict=True)
    ]
    links = [_link(plan, number) for number in range(len(plan.tiers)) if (rows.tier == number).any()]
    document = {
        "name": NAME.sub("_", title) or "plan",
        "description": f"{len(plan.devices)} devices, {len(rows)} links",
        "devices": devices,
        "links": links,
        "instances": instances,
    }
    head = json.dumps(document, ensure_ascii=True, indent=1)
    edges = ",\n".join(json.dumps(edge, separators=(",", ":")) for edge in _edges(plan, groups))
    return f'{head[:-2]},\n "edges": [\n{edges}\n]\n}}\n'


def groups_of(plan: Plan) -> Iterator[Group]:
    """Consecutive devices whose names differ by their number only."""
    devices = plan.devices
    stems = [name.rstrip("0123456789") for name in devices.name]
    first = 0
    for at in range(1, len(stems) + 1):
        if at == len(stems) or stems[at] != stems[first] or devices.box[at] != devices.box[first]:
            name = NAME.sub("_", stems[first].rstrip("-")) or "device"
            yield Group(name, str(devices.box[first]), first, at - first, int(devices.level[first]))
            first = at


def _device_names(groups: list[Group]) -> list[str]:
    """One name a group: ports of a box are counted by what the group uses."""
    return [NAME.sub("_", f"{group.box}-{group.name}") for group in groups]


def _link(plan: Plan, number: int) -> dict[str, Any]:
    tier, rows = plan.tiers[number], plan.cables
    rate = float(rows.rate_bps[rows.tier == number].max())
    physical = {"bandwidth": {"choice": "gigabits_per_second", "gigabits_per_second": rate / 1e9}}
    return {"name": _tier(plan, number), "description": tier.medium or "no part fits", "physical": physical}


def _tier(plan: Plan, number: int) -> str:
    tier = plan.tiers[number]
    return NAME.sub("_", f"{NETWORKS[tier.network]}-{tier.name}")


def _component(name: str, count: int, choice: str, words: str) -> dict[str, Any]:
    return {"name": name, "description": words, "count": count, "choice": choice, choice: {}}


def _inside(one: str, other: str, link: str, scheme: str = "many2many") -> dict[str, Any]:
    return {"ep1": {"component": one}, "ep2": {"component": other}, "scheme": scheme, "link": link}


def _device(plan: Plan, group: Group, name: str) -> dict[str, Any]:
    if group.level:
        ports = _used(plan, group)
        return {
            "name": name,
            "description": group.box,
            "components": [
                _component(ASIC, 1, "switch", group.box),
                _component(PORT, ports, "port", "ports with cables, broken out"),
            ],
            "links": [{"name": CIRCUIT, "description": "inside the switch"}],
            "edges": [_inside(ASIC, PORT, CIRCUIT)],
        }
    return _server(plan, group, name)


def _used(plan: Plan, group: Group) -> int:
    rows, end = plan.cables, group.first + group.count
    mine = (rows.a >= group.first) & (rows.a < end), (rows.b >= group.first) & (rows.b < end)
    return max(int(rows.a_port[mine[0]].max(initial=1)), int(rows.b_port[mine[1]].max(initial=1)))


def _server(plan: Plan, group: Group, name: str) -> dict[str, Any]:
    """A server with its accelerators, or a node of storage with a processor and its NICs."""
    compute = group.first < plan.devices.servers
    cluster = plan.cluster
    components = [_component(CPU, 1, "cpu", "processors")]
    edges: list[dict[str, Any]] = []
    links: list[dict[str, Any]] = [{"name": PCIE, "description": "from processors, to NICs and accelerators"}]
    if compute:
        accelerators, unit = cluster.ranks_per_server, cluster.accelerator
        components.append(_component(XPU, accelerators, "xpu", unit.name))
        edges.append(_inside(CPU, XPU, PCIE))
        inside = cluster.scale_up.kind == "switched" and cluster.scale_up_domain <= accelerators
        if accelerators > 1 and inside:
            components.append(_component(SWITCH, 1, "switch", "scale-up within the server"))
            rate = {"choice": "gigabits_per_second", "gigabits_per_second": cluster.scale_up.rate_bps / 1e9}
            links.append({"name": SCALE_UP, "description": "one way", "physical": {"bandwidth": rate}})
            edges.append(_inside(XPU, SWITCH, SCALE_UP))
    for network, nics in _nics(plan, group):
        components.append(_component(_nic(network), nics, "nic", network))
        edges.append(_inside(CPU, _nic(network), PCIE))
        if compute and network == plan.networks[0]:
            same = "one2one" if nics == cluster.ranks_per_server else "many2many"
            edges.append(_inside(XPU, _nic(network), PCIE, same))
    return {"name": name, "description": group.box, "components": components, "links": links, "edges": edges}


def _nics(plan: Plan, group: Group) -> Iterator[tuple[str, int]]:
    rows, end = plan.cables, group.first + group.count
    near, far = (rows.a >= group.first) & (rows.a < end), (rows.b >= group.first) & (rows.b < end)
    for number, network in enumerate(plan.networks):
        here = rows.network == number
        ports = max(int(rows.a_port[near & here].max(initial=0)), int(rows.b_port[far & here].max(initial=0)))
        if ports:
            yield network, ports


def _nic(network: str) -> str:
    return f"{NETWORKS[network]}-nic"


def _edges(plan: Plan, groups: list[Group]) -> Iterator[dict[str, Any]]:
    """Cables, runs of them as one edge: one more port at one end or one more device, and one more port at the other."""
    rows = plan.cables
    first = np.array([group.first for group in groups])
    ends = []
    for device, port in ((rows.a, rows.a_port), (rows.b, rows.b_port)):
        group = np.searchsorted(first, device, side="right") - 1
        ends.append((group, device - first[group], port - 1))
    (a_group, a, a_port), (b_group, b, b_port) = ends
    order = np.lexsort((b_port, b, b_group, a_group, rows.network, rows.tier))
    columns = np.stack([rows.tier, rows.network, a_group, b_group, a, a_port, b, b_port])[:, order].astype(np.int64)
    for begin, end in _runs(columns):
        tier, network, one, other = (int(value) for value in columns[:4, begin])
        yield {
            "ep1": _end(groups[one], plan.networks[network], columns[4:6, begin:end]),
            "ep2": _end(groups[other], plan.networks[network], columns[6:8, begin:end]),
            "scheme": "one2one",
            "link": _tier(plan, tier),
        }


_STEPS = ((0, 1, 0, 1), (1, 0, 0, 1))
"""From one cable to the next of a run: device and port at the lower end, device and port at the upper one."""


def _runs(columns: np.ndarray[Any, np.dtype[np.int64]]) -> Iterator[tuple[int, int]]:
    """Begin and end of runs of cables that follow one another in one of the ways."""
    count = columns.shape[1]
    step = np.diff(columns, axis=1)
    same = (step[:4] == 0).all(axis=0)
    way = np.full(max(count - 1, 0), -1)
    for number, want in enumerate(_STEPS):
        way[same & (step[4:] == np.array(want)[:, None]).all(axis=0)] = number
    begin = 0
    while begin < count:
        end, mine = begin + 1, way[begin] if begin < count - 1 else -1
        while end < count and mine >= 0 and way[end - 1] == mine:
            end += 1
        yield begin, end
        begin = end


def _end(group: Group, network: str, columns: np.ndarray[Any, np.dtype[np.int64]]) -> dict[str, str]:
    component = PORT if group.level else _nic(network)
    device, port = ((int(column[0]), int(column[-1]) + 1) for column in columns)
    return {"instance": f"{group.name}{_slice(*device)}", "component": f"{component}{_slice(*port)}"}


def _slice(first: int, end: int) -> str:
    return f"[{first}]" if end == first + 1 else f"[{first}:{end}]"
