"""The same change in the words of every operating system: what the walk of FRR's twin finds, the others must show.

A change is drawn once, by switches, tables, prefixes and neighbours, and written into the files of each system by
patterns of its own. FRR's twin is then judged by `walked`, which shares no code with what reads the others.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .leaky import in_bgp

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Names:
    """How a system calls ports: by switch and neighbour, and of servers by their address."""

    uplink: Mapping[tuple[str, str], str]
    server: Mapping[str, str]


class Frr:
    """Two files a switch."""

    system = "frr"

    def __init__(self, texts, names):
        self.texts, self.names = dict(texts), names

    def edit(self, switch, change, ending=".frr.conf"):
        self.texts[switch + ending] = change(self.texts[switch + ending])

    def member(self, switch, port, vrf, other):
        self.edit(switch, lambda text: text.replace(f"interface {port} vrf {vrf}\n", f"interface {port} vrf {other}\n"))
        swap = (f"iface {port}\n    vrf {vrf}\n", f"iface {port}\n    vrf {other}\n")
        self.edit(switch, lambda text: text.replace(*swap), ".interfaces")

    def announce(self, switch, vrf, prefix):
        family = " address-family ipv4 unicast\n"
        self.edit(switch, lambda text: in_bgp(text, vrf, family, f"  network {prefix}\n"))

    def unannounce(self, switch, vrf, prefix):
        self.edit(switch, lambda text: text.replace(f"  network {prefix}\n", ""))

    def target(self, switch, vrf, way, value):
        after = re.search(rf" vrf {vrf}\n bgp router-id.*?(  rd \S+\n)", self.texts[switch + ".frr.conf"], re.S)[1]
        self.edit(switch, lambda text: in_bgp(text, vrf, after, f"  route-target {way} {value}\n"))

    def untarget(self, switch, vrf, way, value):
        self.edit(switch, lambda text: text.replace(f"  route-target {way} {value}\n", ""))

    def vni(self, switch, vrf, old, new):
        self.edit(switch, lambda text: text.replace(f"vrf {vrf}\n vni {old}\n", f"vrf {vrf}\n vni {new}\n"))
        self.edit(switch, lambda text: text.replace(f"vxlan-id {old}\n", f"vxlan-id {new}\n"), ".interfaces")

    def static(self, switch, vrf, prefix, other):
        row = f"vrf {vrf}\n ip route {prefix} lo nexthop-vrf {other}\n"
        self.edit(switch, lambda text: text.replace(f"vrf {vrf}\n", row, 1))

    def session(self, switch, lane, vrf, other):
        line = f" neighbor {lane} interface peer-group fabric\n"
        self.edit(switch, lambda text: in_bgp(text.replace(line, ""), other, " neighbor fabric bfd\n", line))


class Eos:
    """One file of indented lines."""

    system = "eos"

    def __init__(self, texts, names):
        self.texts, self.names = dict(texts), names

    def edit(self, switch, pattern, by):
        file = f"{switch}.eos.cfg"
        self.texts[file], count = re.subn(pattern, by, self.texts[file], count=1, flags=re.S)
        assert count == 1, (switch, pattern)

    def section(self, switch, vrf, after, more):
        """Put lines behind one of a table's part of BGP."""
        self.edit(switch, rf"(\n   vrf {vrf}\n      router-id \S+\n(?:(?!\n   vrf ).)*?{after})", rf"\g<1>{more}")

    def member(self, switch, port, vrf, other):
        self.edit(switch, rf"(\ninterface {port}\n(?:(?!\n!).)*?\n   vrf ){vrf}\n", rf"\g<1>{other}\n")

    def announce(self, switch, vrf, prefix):
        self.section(switch, vrf, "address-family ipv4\n", f"         network {prefix}\n")

    def unannounce(self, switch, vrf, prefix):
        self.edit(switch, rf"         network {re.escape(prefix)}\n", "")

    def target(self, switch, vrf, way, value):
        self.section(switch, vrf, r"rd \S+\n", f"      route-target {way} evpn {value}\n")

    def untarget(self, switch, vrf, way, value):
        self.texts[f"{switch}.eos.cfg"] = self.texts[f"{switch}.eos.cfg"].replace(
            f"      route-target {way} evpn {value}\n", ""
        )

    def vni(self, switch, vrf, old, new):
        self.edit(switch, f"vxlan vrf {vrf} vni {old}\n", f"vxlan vrf {vrf} vni {new}\n")

    def static(self, switch, vrf, prefix, other):
        self.edit(
            switch, f"vrf instance {vrf}\n", f"vrf instance {vrf}\nip route vrf {vrf} {prefix} egress-vrf {other}\n"
        )

    def session(self, switch, lane, vrf, other):
        line = f"      neighbor interface {lane} peer-group FABRIC remote-as external\n"
        self.edit(switch, line, "")
        self.section(switch, other, "", line)


class Junos:
    """One file of `set` lines, in any order."""

    system = "junos"

    def __init__(self, texts, names):
        self.texts, self.names = dict(texts), names

    def swap(self, switch, old, new):
        file = f"{switch}.junos.set"
        assert old in self.texts[file], (switch, old)
        self.texts[file] = self.texts[file].replace(old, new)

    def more(self, switch, line):
        self.texts[f"{switch}.junos.set"] += line + "\n"

    def unit(self, port):
        return port if "." in port else f"{port}.0"

    def member(self, switch, port, vrf, other):
        old = f"set routing-instances {vrf} interface {self.unit(port)}\n"
        self.swap(switch, old, old.replace(f" {vrf} ", f" {other} "))

    def announce(self, switch, vrf, prefix):
        self.more(
            switch, f"set policy-options policy-statement announce-{vrf} term own from route-filter {prefix} exact"
        )

    def unannounce(self, switch, vrf, prefix):
        line = f"set policy-options policy-statement announce-{vrf} term own from route-filter {prefix} exact\n"
        self.swap(switch, line, "")

    def target(self, switch, vrf, way, value):
        self.more(switch, f"set routing-instances {vrf} vrf-target {way} target:{value}")

    def untarget(self, switch, vrf, way, value):
        self.swap(switch, f"set routing-instances {vrf} vrf-target {way} target:{value}\n", "")

    def vni(self, switch, vrf, old, new):
        line = f"set routing-instances {vrf} protocols evpn ip-prefix-routes vni "
        self.swap(switch, f"{line}{old}\n", f"{line}{new}\n")

    def static(self, switch, vrf, prefix, other):
        self.more(
            switch, f"set routing-instances {vrf} routing-options static route {prefix} next-table {other}.inet.0"
        )

    def session(self, switch, lane, vrf, other):
        head, tail = "set routing-instances", "protocols bgp group fabric dynamic-neighbor peers peer-auto-discovery"
        line = f" {tail} family inet6 ipv6-nd interface {lane}\n"
        self.swap(switch, f"{head} {vrf}{line}", f"{head} {other}{line}")


class Sonic:
    """A JSON file of tables, and FRR's own text of routing with SONiC's names."""

    system = "sonic"

    def __init__(self, texts, names):
        self.tables = {name: json.loads(text) for name, text in texts.items() if name.endswith(".json")}
        self.routing = Frr({name: text for name, text in texts.items() if name.endswith(".conf")}, names)
        self.names = names

    @property
    def texts(self):
        return {name: json.dumps(tables, indent=1) for name, tables in self.tables.items()} | self.routing.texts

    def table(self, switch, name):
        return self.tables[f"{switch}.config_db.json"].setdefault(name, {})

    def member(self, switch, port, vrf, other):
        self.table(switch, "VLAN_SUB_INTERFACE" if "." in port else "INTERFACE")[port]["vrf_name"] = f"Vrf{other}"

    def announce(self, switch, vrf, prefix):
        self.routing.announce(switch, f"Vrf{vrf}", prefix)

    def unannounce(self, switch, vrf, prefix):
        self.routing.unannounce(switch, vrf, prefix)

    def target(self, switch, vrf, way, value):
        self.routing.target(switch, f"Vrf{vrf}", way, value)

    def untarget(self, switch, vrf, way, value):
        self.routing.untarget(switch, vrf, way, value)

    def vni(self, switch, vrf, old, new):
        assert self.table(switch, "VRF")[f"Vrf{vrf}"]["vni"] == old
        self.table(switch, "VRF")[f"Vrf{vrf}"]["vni"] = new
        head = f"vrf Vrf{vrf}\n vni "
        self.routing.edit(switch, lambda text: text.replace(f"{head}{old}\n", f"{head}{new}\n"))

    def static(self, switch, vrf, prefix, other):
        head = f"vrf Vrf{vrf}\n"
        row = f"{head} ip route {prefix} Loopback0 nexthop-vrf Vrf{other}\n"
        self.routing.edit(switch, lambda text: text.replace(head, row, 1))

    def session(self, switch, lane, vrf, other):
        self.routing.session(switch, lane, f"Vrf{vrf}", f"Vrf{other}")


DIALECTS = {one.system: one for one in (Frr, Eos, Junos, Sonic)}


@dataclass(frozen=True)
class Fabric:
    """What changes are drawn from.

    Attributes:
        leafs: Tables of each leaf.
        servers: Switch, table and prefix of each.
        lanes: Switch, neighbour, VLAN and table of each VLAN of a cable between switches, by both ends.
        overlay: Whether tables hang together by EVPN.
    """

    leafs: Mapping[str, tuple[str, ...]]
    servers: tuple[tuple[str, str, str], ...]
    lanes: tuple[tuple[str, str, str, str], ...]
    tables: Mapping[str, tuple[str, ...]]
    overlay: bool


def one_of(draw, items):
    items = sorted(items)
    return items[int(draw.integers(len(items)))]


def drawn(fabric, draw):
    """One change, as a name and a function of the files of a system; None where there is nothing to change."""
    kinds = [moved, routed, quiet, *([imported, exported, dropped, tunnelled] if fabric.overlay else [crossed, halved])]
    kind = one_of(draw, [one.__name__ for one in kinds])
    return kind, globals()[kind](fabric, draw)


def moved(fabric, draw):
    """A server's port in another table of its leaf, announced there or not."""
    switch, vrf, prefix = one_of(draw, fabric.servers)
    others = set(fabric.leafs[switch]) - {vrf}
    if not others:
        return None
    other, told = one_of(draw, others), draw.random() < 0.6

    def change(files):
        files.member(switch, files.names.server[prefix], vrf, other)
        if told:
            files.announce(switch, other, prefix)

    return change


def routed(fabric, draw):
    """A static route into another table, announced or not."""
    switch = one_of(draw, [leaf for leaf, tables in fabric.leafs.items() if len(tables) > 1])
    vrf = one_of(draw, fabric.leafs[switch])
    other = one_of(draw, set(fabric.leafs[switch]) - {vrf})
    prefix, told = one_of(draw, fabric.servers)[2], draw.random() < 0.5

    def change(files):
        files.static(switch, vrf, prefix, other)
        if told and files.names.server.get(prefix):
            files.announce(switch, vrf, prefix)

    return change


def quiet(fabric, draw):
    """A prefix that is no longer announced."""
    switch, vrf, prefix = one_of(draw, fabric.servers)
    return lambda files: files.unannounce(switch, vrf, prefix)


def _target(fabric, draw, way):
    switch = one_of(draw, fabric.leafs)
    vrf, value = one_of(draw, fabric.leafs[switch]), one_of(draw, [f"64512:1000{n}" for n in (1, 2, 3, 4)])
    return lambda files: files.target(switch, vrf, way, value)


def imported(fabric, draw):
    """One more import."""
    return _target(fabric, draw, "import")


def exported(fabric, draw):
    """One more export."""
    return _target(fabric, draw, "export")


def dropped(fabric, draw):
    """An import or an export less."""
    switch = one_of(draw, fabric.leafs)
    vrf, way = one_of(draw, fabric.leafs[switch]), one_of(draw, ["import", "export"])
    value = f"64512:{vni_of(vrf)}"
    return lambda files: files.untarget(switch, vrf, way, value)


def tunnelled(fabric, draw):
    """A table with the VNI of another, which is not on this switch."""
    switch = one_of(draw, fabric.leafs)
    vrf = one_of(draw, fabric.leafs[switch])
    used = {vni_of(one) for one in fabric.leafs[switch]}
    new = one_of(draw, {"10001", "10002", "10003", "10777"} - used)
    return lambda files: files.vni(switch, vrf, vni_of(vrf), new)


def _lane(fabric, draw, *, both):
    switch, neighbour, vlan, vrf = one_of(draw, fabric.lanes)
    others = set(fabric.tables[switch]) - {vrf}
    if not others:
        return None
    other = one_of(draw, others)

    def change(files):
        lane = f"{files.names.uplink[switch, neighbour]}.{vlan}"
        files.member(switch, lane, vrf, other)
        if both:
            files.session(switch, lane, vrf, other)

    return change


def crossed(fabric, draw):
    """A VLAN between switches in another table, and its session of BGP there too."""
    return _lane(fabric, draw, both=True)


def halved(fabric, draw):
    """A VLAN between switches in another table, whose session stays where it was."""
    return _lane(fabric, draw, both=False)


def vni_of(vrf):
    return {"blue": "10001", "green": "10002", "red": "10003"}[vrf]
