"""A plan for PTM (the prescriptive topology manager of Cumulus): a graph whose edges are cables between named ports."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.deploy.cabling import drawn, is_infiniband
from railyard.ask.deploy.emit import tables
from railyard.ask.deploy.emit.intent import hosts
from railyard.cluster.asbuilt.ibnetdiscover import LANE_BPS, PORT_LANES
from railyard.cluster.hall.devices import NETWORKS
from railyard.cluster.network_table import dialect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.ask.deploy.cabling import CablingPlan
    from railyard.cluster.network_table import NetworkTable


NAME = re.compile(r"[^A-Za-z0-9_-]+")
"""What its names may not hold: dots and brackets are its syntax of endpoints."""

PORT, ASIC, CIRCUIT = "port", "asic", "circuit"
XPU, CPU, SWITCH, PCIE, SCALE_UP = "xpu", "cpu", "scale-up-switch", "pcie", "scale-up"


@dataclass(frozen=True)
class InstanceGroup:
    """Devices of one kind in a row of numbers.

    Attributes:
        level: Tier; 0 of servers.
    """

    name: str
    box: str
    first: int
    count: int
    level: int


def infragraph(plan: CablingPlan, title: str) -> str:
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


def groups_of(plan: CablingPlan) -> Iterator[InstanceGroup]:
    """Consecutive devices whose names differ by their number only."""
    devices = plan.devices
    stems = [name.rstrip("0123456789") for name in devices.name]
    first = 0
    for at in range(1, len(stems) + 1):
        if at == len(stems) or stems[at] != stems[first] or devices.box[at] != devices.box[first]:
            name = NAME.sub("_", stems[first].rstrip("-")) or "device"
            yield InstanceGroup(name, str(devices.box[first]), first, at - first, int(devices.level[first]))
            first = at


def _device_names(groups: list[InstanceGroup]) -> list[str]:
    """One name a group: ports of a box are counted by what the group uses."""
    return [NAME.sub("_", f"{group.box}-{group.name}") for group in groups]


def _link(plan: CablingPlan, number: int) -> dict[str, Any]:
    tier, rows = plan.tiers[number], plan.cables
    rate = float(rows.rate_bps[rows.tier == number].max())
    physical = {"bandwidth": {"choice": "gigabits_per_second", "gigabits_per_second": rate / 1e9}}
    return {"name": _tier(plan, number), "description": tier.medium or "no part fits", "physical": physical}


def _tier(plan: CablingPlan, number: int) -> str:
    tier = plan.tiers[number]
    return NAME.sub("_", f"{NETWORKS[tier.network]}-{tier.name}")


def _component(name: str, count: int, choice: str, words: str) -> dict[str, Any]:
    return {"name": name, "description": words, "count": count, "choice": choice, choice: {}}


def _inside(one: str, other: str, link: str, scheme: str = "many2many") -> dict[str, Any]:
    return {"ep1": {"component": one}, "ep2": {"component": other}, "scheme": scheme, "link": link}


def _device(plan: CablingPlan, group: InstanceGroup, name: str) -> dict[str, Any]:
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


def _used(plan: CablingPlan, group: InstanceGroup) -> int:
    return int(plan.cables.port[_ends_in(plan, group)].max(initial=1))


def _ends_in(plan: CablingPlan, group: InstanceGroup) -> np.ndarray[Any, np.dtype[np.bool_]]:
    ends = plan.cables.ends
    return (ends >= group.first) & (ends < group.first + group.count)


def _server(plan: CablingPlan, group: InstanceGroup, name: str) -> dict[str, Any]:
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


def _nics(plan: CablingPlan, group: InstanceGroup) -> Iterator[tuple[str, int]]:
    mine = _ends_in(plan, group)
    for number, network in enumerate(plan.networks):
        ports = int(plan.cables.port[mine & (plan.cables.network == number)[:, None]].max(initial=0))
        if ports:
            yield network, ports


def _nic(network: str) -> str:
    return f"{NETWORKS[network]}-nic"


def _edges(plan: CablingPlan, groups: list[InstanceGroup]) -> Iterator[dict[str, Any]]:
    """Cables, runs of them as one edge: one more port at one end or one more device, and one more port at the other."""
    rows = plan.cables
    first = np.array([group.first for group in groups])
    ends = []
    for device, port in zip(rows.ends.T, rows.port.T, strict=True):
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
"""For each cable of a run: device and port at the lower end, device and port at the upper one."""


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


def _end(group: InstanceGroup, network: str, columns: np.ndarray[Any, np.dtype[np.int64]]) -> dict[str, str]:
    component = PORT if group.level else _nic(network)
    device, port = ((int(column[0]), int(column[-1]) + 1) for column in columns)
    return {"instance": f"{group.name}{_slice(*device)}", "component": f"{component}{_slice(*port)}"}


def _slice(first: int, end: int) -> str:
    return f"[{first}]" if end == first + 1 else f"[{first}:{end}]"


MOST = 200
"""Devices that are worth a lab on one machine."""

FRR, HOST = "quay.io/frrouting/frr:10.2.1", "alpine:3.20"
"""Images."""


def lab(plan: CablingPlan, name: str) -> str | None:
    """The file; None of what is too large, or has a network of InfiniBand, which no container plays."""
    networks = range(len(plan.networks))
    if len(plan.devices) > MOST or any(is_infiniband(plan, number) for number in networks):
        return None
    address = {host.name: host.interfaces for host in hosts(plan)}
    lines = [f"name: {name}", "topology:", "  nodes:"]
    for number, device in enumerate(plan.devices.name):
        if number < plan.devices.servers:
            lines += [*_host(device), "      exec:"]
            lines += [f"        - ip address add {own}/31 dev {port}" for port, own, _, _ in address[device]]
        elif plan.devices.level[number]:
            lines += _switch(device)
        else:
            lines += _host(device)
    lines += ["  links:", *_links(plan)]
    return "\n".join([*lines, ""])


def _host(name: str) -> list[str]:
    return [f"    {name}:", "      kind: linux", f'      image: "{HOST}"', "      network-mode: none"]


def _switch(name: str) -> list[str]:
    return [
        f"    {name}:",
        "      kind: linux",
        f'      image: "{FRR}"',
        "      network-mode: none",
        "      binds:",
        f"        - switches/{name}.frr.conf:/etc/frr/frr.conf",
    ]


def _links(plan: CablingPlan) -> Iterator[str]:
    for number in range(len(plan.networks)):
        found = drawn(plan, number, dialect("frr"))
        for (a, b), (port, far) in zip(found.ends.tolist(), found.ports, strict=True):
            yield f'    - endpoints: ["{found.name[a]}:{port}", "{found.name[b]}:{far}"]'


def dot(found: NetworkTable) -> str:
    """The graph; names hold no quotation marks, since plans make them of letters, digits and hyphens."""
    name, cables = found.name, zip(found.ends.tolist(), found.ports, strict=True)
    lines = [f'  "{name[a]}":"{port}" -- "{name[b]}":"{far}";' for (a, b), (port, far) in cables]
    return "\n".join(["graph railyard {", *lines, "}", ""])


_HOST_GUID, _SWITCH_GUID = 0x0010_0000_0000, 0x0020_0000_0000


def netlist(found: NetworkTable) -> str:
    """The network; a device is called by a made-up address and its description, as real ones are."""
    guid = [_guid(kind, number) for number, kind in enumerate(found.kind)]
    key = [f"{'S' if kind == 'switch' else 'H'}-{one:016x}" for kind, one in zip(found.kind, guid, strict=True)]
    lines: list[str] = []
    for number, ends in enumerate(found.far_ends):
        mine = sorted((int(port), far, int(far_port), cable) for port, cable, far, far_port in ends)
        switch = found.kind[number] == "switch"
        lines.append(f"{'switchguid' if switch else 'caguid'}=0x{guid[number]:x}({guid[number]:x})")
        most = max((port for port, *_ in mine), default=1)
        words = "base port 0 lid 0 lmc 0" if switch else ""
        lines.append(
            f'{"Switch" if switch else "Ca"}\t{most} "{key[number]}"\t\t# "{found.label[number]}" {words}'.rstrip()
        )
        for port, far, far_port, cable in mine:
            own = "" if switch else f"({guid[number] + port:x})"
            end = f"({guid[far] + far_port:x})" if found.kind[far] != "switch" else ""
            begin = "" if switch else "lid 0 lmc 0 "
            words = f'{begin}"{found.label[far]}" lid 0 {_rate(int(found.rate_bps[cable]))}'
            lines.append(f'[{port}]{own}\t"{key[far]}"[{far_port}]{end}\t\t# {words}')
        lines.append("")
    return "\n".join(lines)


def port_guids(found: NetworkTable) -> dict[str, int]:
    """Made-up addresses of the ports of hosts, by what the port is called."""
    hosts = np.flatnonzero(~found.switch).tolist()
    return {found.label[number]: _guid(found.kind[number], number) + 1 for number in hosts}


def _guid(kind: str, number: int) -> int:
    return (_SWITCH_GUID if kind == "switch" else _HOST_GUID) + 2 * number


def _rate(rate_bps: int) -> str:
    """`4xNDR`: the generation whose four lanes carry at least the rate."""
    for name, lane in LANE_BPS.items():
        if PORT_LANES * lane >= rate_bps * (1 - 1e-9):
            return f"{PORT_LANES}x{name}"
    return f"{PORT_LANES}xXDR"


ZONE = "cluster.internal."
"""Domain of names: one that the root never delegates (ICANN, 2024); the file can be put under any other."""

BACKWARDS = "10.in-addr.arpa."
"""Reverse zone of a plan's addresses, all in 10.0.0.0/8."""

BACKWARDS6 = "0.0.d.f.ip6.arpa."
"""Reverse zone of a plan's IPv6 addresses, all in fd00::/16."""

_HEAD = """$ORIGIN {zone}
$TTL 3600
@ IN SOA ns.{name} hostmaster.{name} 1 3600 600 604800 60
@ IN NS ns.{name}
"""


def files(plan: CablingPlan) -> Iterator[tuple[str, str]]:
    """Names and texts of the zones; a server goes by its first interface, and by each; `ns` is who loads them."""
    hosts, devices = tables.addresses(plan), tables.devices(plan)
    forward = [_HEAD.format(zone=ZONE, name=ZONE), "ns IN A 127.0.0.1\n"]
    backward = [_HEAD.format(zone=BACKWARDS, name=ZONE)]
    backward6 = [_HEAD.format(zone=BACKWARDS6, name=ZONE)]
    seen: set[str] = set()
    rows = hosts.select("device", "name", "ipv4", "ipv6").rows()
    for device, name, ipv4, ipv6 in rows:
        own = [name] if device in seen else [device, name]
        seen.add(device)
        forward += [f"{one} IN A {ipv4}\n{one} IN AAAA {ipv6}\n" for one in own]
        backward.append(f"{_back(ipv4)} IN PTR {name}.{ZONE}\n")
        backward6.append(f"{_back6(ipv6)} IN PTR {name}.{ZONE}\n")
    for device, loopback in devices.select("device", "loopback").rows():
        if loopback is not None:
            forward.append(f"{device} IN A {loopback}\n")
            backward.append(f"{_back(loopback)} IN PTR {device}.{ZONE}\n")
    yield f"dns/{ZONE}zone", "".join(forward)
    yield f"dns/{BACKWARDS}zone", "".join(backward)
    yield f"dns/{BACKWARDS6}zone", "".join(backward6)


def _back(address: str) -> str:
    """`1.0.0` of 10.0.0.1, below `BACKWARDS`."""
    return ".".join(reversed(address.split(".")[1:]))


def _back6(address: str) -> str:
    """The 28 digits of an address below `BACKWARDS6`, the last first."""
    return ".".join(reversed(f"{int(IPv6Address(address)):032x}"[4:]))
