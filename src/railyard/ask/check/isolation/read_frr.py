"""FRR's `frr.conf`, and the devices under it in the words of ifupdown2."""

from __future__ import annotations

import re
from ipaddress import ip_interface

from railyard.ask.check.isolation.configured import ALL, Configured, Leak, Line, indented, network

_ROUTES = {
    family: re.compile(rf"{word} route (\S+) (?:\S+ )?nexthop-vrf (\S+)") for family, word in ((4, "ip"), (6, "ipv6"))
}
"""Static routes into another table, by family."""
_WORD = {4: "ip", 6: "ipv6"}


def read(name: str, file: str, text: str, devices: tuple[str, str] = ("", ""), family: int = 4) -> Configured:
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
    routing(found, file, text, family)
    return found


def routing(found: Configured, file: str, text: str, family: int = 4) -> None:
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
            found.table(ALL).leaks.append(Leak(network(match[1]), _named(match[2]), line))
    for table in found.tables.values():  # FRR exports no routes of a table whose tunnel is not there
        if table.lines.get("vni") is None:
            table.lines.pop("overlay", None)


def _named(vrf: str) -> str:
    return ALL if vrf == "default" else vrf


class _Devices:
    """Tunnels, their VLANs and the tables of these: what a VNI leads to is the kernel's matter, not FRR's."""

    def __init__(self) -> None:
        self.vni: dict[str, tuple[int, Line]] = {}
        self.vlan_of: dict[str, str] = {}
        self.table_of: dict[str, str] = {}
        self.vlan: dict[str, str] = {}

    def take(self, found: Configured, above: tuple[str, ...], line: Line) -> None:
        """One line of the file."""
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
        """The VNI of each table whose VLAN a tunnel carries."""
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
        table.leaks.append(Leak(network(match[1]), _named(match[2]), line))


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
        table.leaks.append(Leak(None, _named(words[2]), line))
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
