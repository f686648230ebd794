"""SONiC's `config_db.json`, and FRR's own file where that routes."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from ipaddress import IPv4Interface
from typing import Any

from railyard.ask.check.isolation import read_frr
from railyard.ask.check.isolation.configured import ALL, Configured, Leak, Line, Rule, network

Tables = dict[str, Any]


_SHORT = re.compile(r"^Eth(?=\d+\.)")
"""How SONiC writes a VLAN of a port whose name would be too long."""


def read(name: str, file: str, text: str, routing: tuple[str, str] = ("", "")) -> Configured:
    """A switch; names of VRFs are without the `Vrf` that SONiC wants.

    Args:
        name: Of the device.
        file: Where the text stands.
        text: Of the tables.
        routing: File and text of what FRR runs; empty where SONiC makes that from its tables.
    """
    found = _Reader(name, file, text, made=not routing[1]).found
    if routing[1]:
        read_frr.routing(found, *routing)
    return _named(found)


def routes_itself(text: str) -> bool:
    """Whether FRR has a file of its own there, so that SONiC makes none from its tables."""
    metadata = json.loads(text).get("DEVICE_METADATA", {}).get("localhost", {})
    return str(metadata.get("docker_routing_config_mode", "")).startswith("split")


class _Reader:
    """Tables, and where their rows stand."""

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
        """The line on which a row of a table begins."""
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
