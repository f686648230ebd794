"""SONiC's `config_db.json`, and FRR's own file where that routes."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from ipaddress import IPv4Interface, ip_interface
from typing import Any

from railyard.ask.check.isolation.configured import ALL, Configured, Leak, Line, Rule, indented, network

_ROUTES = {
    family: re.compile(rf"{word} route (\S+) (?:\S+ )?nexthop-vrf (\S+)") for family, word in ((4, "ip"), (6, "ipv6"))
}
"""Static routes into another table, by family."""
_WORD = {4: "ip", 6: "ipv6"}


def read_frr_config(
    name: str, file: str, text: str, devices: tuple[str, str] = ("", ""), family: int = 4
) -> Configured:
    """A switch.

    Args:
        name: Of the device.
        file: Where the text stands.
        text: Of `frr.conf`.
        devices: File and text of the devices; empty where it needs none.
        family: 4 or 6: whose addresses, prefixes and routes; tables, tunnels and neighbours are of both.
    """
    found = Configured(name)
    kernel = _Devices()
    for above, line in indented(*devices):
        kernel.take(found, above, line)
    kernel.tunnels(found)
    frr_routing(found, file, text, family)
    return found


def frr_routing(found: Configured, file: str, text: str, family: int = 4) -> None:
    """Takes what FRR's own file says into a switch whose devices are known."""
    for above, line in indented(file, text):
        head = above[0].split() if above else line.text.split()
        if head[:2] == ["router", "bgp"]:
            _bgp(found, head, above, line, family)
        elif head[0] == "interface":
            _interface(found, head, line, family)
        elif head[0] == "vrf":
            _vrf(found, head[1], line, family)
        elif (match := _ROUTES[family].match(line.text)) is not None:
            found.table(ALL).leaks.append(Leak(network(match[1]), _read_frr_named(match[2]), line))
    for table in found.tables.values():  # FRR exports no routes of a table whose tunnel is not there
        if table.lines.get("vni") is None:
            table.lines.pop("overlay", None)


def _read_frr_named(vrf: str) -> str:
    return ALL if vrf == "default" else vrf


class _Devices:
    """Tunnels, their VLANs and the tables of these: what a VNI leads to is the kernel's matter, not FRR's."""

    def __init__(self) -> None:
        self.vni: dict[str, tuple[int, Line]] = {}
        self.vlan_of: dict[str, str] = {}
        self.table_of: dict[str, str] = {}
        self.vlan: dict[str, str] = {}

    def take(self, found: Configured, above: tuple[str, ...], line: Line) -> None:
        if not above or not above[0].startswith("iface "):
            return
        device, words = above[0].split()[1], line.text.split()
        if words[0] == "vrf":
            port = found.port(device)
            port.vrf, port.lines["vrf"] = words[1], line
            self.table_of[device] = words[1]
        elif words[0] == "vxlan-id":
            self.vni[device] = int(words[1]), line
        elif words[0] == "bridge-access":
            self.vlan_of[device] = words[1]
        elif words[0] == "vlan-id":
            self.vlan[words[1]] = device

    def tunnels(self, found: Configured) -> None:
        for device, (number, line) in self.vni.items():
            svi = self.vlan.get(self.vlan_of.get(device, ""), "")
            if svi in self.table_of:
                table = found.table(self.table_of[svi])
                table.vni, table.lines["tunnel"] = number, line


def _interface(found: Configured, head: list[str], line: Line, family: int) -> None:
    name = head[1]
    of = head[3] if len(head) > 3 and head[2] == "vrf" else None
    words = line.text.split()
    if words[1:2] != ["address"] or words[0] not in ("ip", "ipv6"):
        return
    if name == "lo" and words[0] == "ip":
        found.loopback = words[2].split("/")[0]
        return
    port = found.port(name)
    if words[0] != _WORD[family]:
        return
    if of is None or of == port.vrf:  # else it is about a device of the same name in another table
        port.address, port.lines["address"] = ip_interface(words[2]), line


def _vrf(found: Configured, name: str, line: Line, family: int) -> None:
    table, words = found.table(name), line.text.split()
    if words[0] == "vni" and int(words[1]) == table.vni:
        table.lines["vni"] = line
    match = _ROUTES[family].match(line.text)
    if match is not None:
        table.leaks.append(Leak(network(match[1]), _read_frr_named(match[2]), line))


def _bgp(found: Configured, head: list[str], above: tuple[str, ...], line: Line, family: int) -> None:
    vrf = head[4] if len(head) > 4 else ALL
    table, words = found.table(vrf), line.text.split()
    if not above:
        found.asn = int(head[2]) if vrf == ALL else found.asn
        return
    within = above[1] if len(above) > 1 else ""
    mine = within.split()[1:2] == [f"ipv{family}"]
    if words[0] == "neighbor" and "interface" in words:
        table.neighbors[words[1]] = line
    elif words[0] == "neighbor" and words[-1] == "activate":
        if within.endswith("l2vpn evpn"):
            found.overlay = line
        elif mine:
            table.lines["active"] = line
    elif words[0] == "network" and mine:
        table.announced[network(words[1])] = line
    elif words[:2] == ["import", "vrf"] and words[2] != "route-map" and mine:
        table.leaks.append(Leak(None, _read_frr_named(words[2]), line))
    elif words[0] == "route-target":
        _target(table.imports, table.exports, words[1], words[2:], line)
    elif line.text == f"advertise ipv{family} unicast":
        table.lines["overlay"] = line


def _target(imports: dict[str, Line], exports: dict[str, Line], which: str, targets: list[str], line: Line) -> None:
    for target in targets:
        if which in ("import", "both"):
            imports[target] = line
        if which in ("export", "both"):
            exports[target] = line


Tables = dict[str, Any]


_SHORT = re.compile(r"^Eth(?=\d+\.)")
"""How SONiC writes a VLAN of a port whose name would be too long."""


def read_sonic_config(name: str, file: str, text: str, routing: tuple[str, str] = ("", "")) -> Configured:
    """A switch; names of VRFs are without the `Vrf` that SONiC wants.

    Args:
        name: Of the device.
        file: Where the text stands.
        text: Of the tables.
        routing: File and text of what FRR runs; empty where SONiC makes that from its tables.
    """
    found = _Reader(name, file, text, made=not routing[1]).found
    if routing[1]:
        frr_routing(found, *routing)
    return _named(found)


def routes_itself(text: str) -> bool:
    """Whether FRR has a file of its own there, so that SONiC makes none from its tables."""
    metadata = json.loads(text).get("DEVICE_METADATA", {}).get("localhost", {})
    return str(metadata.get("docker_routing_config_mode", "")).startswith("split")


class _Reader:
    def __init__(self, name: str, file: str, text: str, *, made: bool) -> None:
        self.file, self.found, self.made = file, Configured(name), made
        self.tables: Tables = json.loads(text)
        self.rows = text.splitlines()
        self.first = {
            key: number for number, row in enumerate(self.rows) for key in re.findall(r'^\W*"(\w+)": ?\{', row)
        }
        self._switch()
        self._ports()
        self._routing()
        self._tunnels()
        self._filters()

    def line(self, table: str, key: str) -> Line:
        first = self.first.get(table, 0)
        wanted = f'"{key}"'
        at = next((number for number in range(first, len(self.rows)) if wanted in self.rows[number]), first)
        return Line(self.file, at + 1, self.rows[at].strip())

    def _all(self, table: str) -> dict[str, dict[str, Any]]:
        rows: dict[str, dict[str, Any]] = self.tables.get(table, {})
        return rows

    def _switch(self) -> None:
        metadata = self._all("DEVICE_METADATA").get("localhost", {})
        self.found.asn = int(metadata.get("bgp_asn", 0))
        for key in self._all("LOOPBACK_INTERFACE"):
            if "|" in key and ":" not in key:
                self.found.loopback = key.split("|")[1].split("/")[0]
        for vrf in self._all("VRF"):
            self.found.table(_table(vrf))

    def _ports(self) -> None:
        for table in ("INTERFACE", "VLAN_SUB_INTERFACE"):
            for key, row in self._all(table).items():
                name, _, address = key.partition("|")
                port = self.found.port(name)
                if address and ":" not in address:
                    port.address, port.lines["address"] = IPv4Interface(address), self.line(table, key)
                if "vrf_name" in row:
                    port.vrf, port.lines["vrf"] = _table(row["vrf_name"]), self.line(table, key)

    def _routing(self) -> None:
        for key in self._all("BGP_NEIGHBOR"):
            vrf, port = key.split("|")
            self.found.table(_table(vrf)).neighbors[port] = self.line("BGP_NEIGHBOR", key)
        for key, row in self._all("BGP_NEIGHBOR_AF").items():
            vrf, _, family = key.split("|")
            if row.get("admin_status") == "up":
                line = self.line("BGP_NEIGHBOR_AF", key)
                if family == "l2vpn_evpn":
                    self.found.overlay = line
                else:
                    self.found.table(_table(vrf)).lines["active"] = line
        for key in self._all("BGP_GLOBALS_AF_NETWORK"):
            vrf, _, prefix = key.split("|")
            self.found.table(_table(vrf)).announced[network(prefix)] = self.line("BGP_GLOBALS_AF_NETWORK", key)
        for key, row in self._all("BGP_GLOBALS_AF").items():
            if "import_vrf" in row:
                line = self.line("BGP_GLOBALS_AF", key)
                self.found.table(_table(key.split("|")[0])).leaks.append(Leak(None, _table(row["import_vrf"]), line))
        for key, row in self._all("STATIC_ROUTE").items():
            vrf, prefix = key.split("|") if "|" in key else ("default", key)
            if "nexthop-vrf" in row:
                line = self.line("STATIC_ROUTE", key)
                self.found.table(_table(vrf)).leaks.append(Leak(network(prefix), _table(row["nexthop-vrf"]), line))

    def _tunnels(self) -> None:
        for key, row in self._all("VRF").items():
            if "vni" in row:
                table = self.found.table(_table(key))
                table.vni, table.lines["tunnel"] = int(row["vni"]), self.line("VRF", key)
                if self.made:
                    table.lines["vni"] = table.lines["tunnel"]
        for key, row in self._all("BGP_GLOBALS_AF").items():
            if row.get("advertise-ipv4-unicast") == "true":
                self.found.table(_table(key.split("|")[0])).lines["overlay"] = self.line("BGP_GLOBALS_AF", key)
        for key, row in self._all("BGP_GLOBALS_EVPN_RT").items():
            vrf, _, target = key.split("|")
            table, line = self.found.table(_table(vrf)), self.line("BGP_GLOBALS_EVPN_RT", key)
            which = row.get("route-target-type", "both")
            if which in ("both", "import"):
                table.imports[target] = line
            if which in ("both", "export"):
                table.exports[target] = line

    def _filters(self) -> None:
        for name, row in self._all("ACL_TABLE").items():
            if row.get("stage", "ingress") != "ingress":
                continue
            self.found.filters.setdefault(name, [])
            for port in row.get("ports", []):
                one = self.found.port(port)
                one.filter, one.lines["filter"] = name, self.line("ACL_TABLE", name)
        rules = sorted(self._all("ACL_RULE").items(), key=lambda item: -int(item[1].get("PRIORITY", 0)))
        for key, row in rules:
            name = key.split("|")[0]
            if name in self.found.filters:
                target = network(row.get("DST_IP", "0.0.0.0/0"))
                permits = row.get("PACKET_ACTION") == "FORWARD"
                self.found.filters[name].append(Rule(permits, target, self.line("ACL_RULE", key)))


def _table(vrf: str) -> str:
    return ALL if vrf == "default" else vrf


def _named(found: Configured) -> Configured:
    """The same with names of tenants, and long names of VLANs of ports."""
    for table in found.tables.values():
        table.neighbors = {_SHORT.sub("Ethernet", port): line for port, line in table.neighbors.items()}
        table.leaks = [replace(leak, vrf=leak.vrf.removeprefix("Vrf")) for leak in table.leaks]
    found.tables = {name.removeprefix("Vrf"): table for name, table in found.tables.items()}
    found.ports = {_SHORT.sub("Ethernet", name): port for name, port in found.ports.items()}
    for port in found.ports.values():
        port.vrf = port.vrf.removeprefix("Vrf")
    return found
