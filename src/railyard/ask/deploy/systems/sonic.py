"""SONiC's `config_db.json`: ports, BGP unnumbered where no tenant has a VRF, tenants, QoS, buffers."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import replace
from ipaddress import IPv4Interface
from typing import TYPE_CHECKING, Any

from railyard.ask.deploy import system
from railyard.ask.deploy.configured import Configured, FilterRule, Line, network, table_name
from railyard.ask.deploy.emit.intent import CNP, DSCP_CNP, DSCP_ROCE, LOSSLESS, headroom
from railyard.ask.deploy.systems import frr
from railyard.cluster.network_table import SONIC_LANES

if TYPE_CHECKING:
    from railyard.ask.deploy.emit.intent import SwitchIntent, SwitchPort
    from railyard.ask.deploy.tenants import Vrf


TUNNEL, NVO = "vtep", "nvo"

LONGEST = 15
"""Characters of a device's name in Linux."""

FPM = ("no fpm use-next-hop-groups", "fpm address 127.0.0.1")
"""How routes get from FRR to the chip: SONiC appends these where they are missing (its docker_init.sh)."""

HEAD = (
    "! For /etc/sonic/frr/frr.conf, next to config_db.json with `docker_routing_config_mode: split-unified`: tables of",
    "! SONiC that its YANG models accept cannot say this. Look whether it is there still after `config reload`",
    "! (sonic-buildimage issue 27014).",
)

HIGHEST = 9_999
"""Priority of an access list's first row."""


def vrf_name(tenant: str) -> str:
    """SONiC's names of VRFs begin so."""
    return f"Vrf{tenant}"


def lane(port: str, vrf: Vrf) -> str:
    """A tenant's VLAN of a port, by SONiC's short name where Linux would not take the long one."""
    name = f"{port}.{vrf.vlan}"
    return name if len(name) <= LONGEST else name.replace("Ethernet", "Eth", 1)


def routing(intent: SwitchIntent) -> str:
    """What FRR of a switch with VRFs runs, `/etc/sonic/frr/frr.conf`; empty for others.

    SONiC's tables cannot say it: frrcfgd reads `BGP_GLOBALS_EVPN_RT`, `advertise-ipv4-unicast` and
    `route-distinguisher`, but no YANG model has them, and `BGP_NEIGHBOR` takes addresses, ports, port channels and
    VLANs, not VLANs of ports. With `split-unified` FRR's own file counts, and none is made from tables.
    """
    if not intent.vrfs:
        return ""
    of = {vrf: replace(vrf, name=vrf_name(vrf.name)) for vrf in intent.vrfs}
    named = replace(
        intent,
        vrfs=tuple(of.values()),
        sessions=tuple(replace(one, vrfs=tuple(of[vrf] for vrf in one.vrfs)) for one in intent.sessions),
        access=tuple(replace(one, vrf=vrf_name(one.vrf) if one.vrf else "") for one in intent.access),
    )
    head = ["frr defaults datacenter", f"hostname {intent.name}", "service integrated-vtysh-config"]
    return "\n".join([*HEAD, *head, *FPM, "!", *frr.routing(named, lane), ""])


def tenants(intent: SwitchIntent) -> dict[str, Any]:
    """VRFs and what they are carried in; nothing where nobody shares the switch."""
    if not intent.vrfs:
        return {}
    evpn = intent.by == "evpn"
    tables: dict[str, Any] = {
        "VRF": {vrf_name(vrf.name): {"vni": str(vrf.number)} if evpn else {} for vrf in intent.vrfs}
    }
    if evpn:
        return tables | _tunnels(intent)
    lanes = {
        lane(one.port, vrf): {
            "admin_status": "up",
            "vlan": str(vrf.vlan),
            "vrf_name": vrf_name(vrf.name),
            "ipv6_use_link_local_only": "enable",
        }
        for one in intent.sessions
        for vrf in one.vrfs
    }
    return tables | {"VLAN_SUB_INTERFACE": lanes}


def _tunnels(intent: SwitchIntent) -> dict[str, Any]:
    return {
        "VXLAN_TUNNEL": {TUNNEL: {"src_ip": intent.loopback}},
        "VXLAN_EVPN_NVO": {NVO: {"source_vtep": TUNNEL}},
        "VXLAN_TUNNEL_MAP": {
            f"{TUNNEL}|map_{vrf.number}_Vlan{vrf.vlan}": {"vlan": f"Vlan{vrf.vlan}", "vni": str(vrf.number)}
            for vrf in intent.vrfs
        },
        "VLAN": {f"Vlan{vrf.vlan}": {"vlanid": str(vrf.vlan)} for vrf in intent.vrfs},
        "VLAN_INTERFACE": {f"Vlan{vrf.vlan}": {"vrf_name": vrf_name(vrf.name)} for vrf in intent.vrfs},
    }


def filters(intent: SwitchIntent) -> dict[str, Any]:
    """What servers may reach, by tenant; the last row of each list drops the rest."""
    lists = {one.filter: one.permits for one in intent.access if one.permits}
    if not lists:
        return {}
    rules: dict[str, Any] = {}
    for name, permits in sorted(lists.items()):
        for number, prefix in enumerate(permits):
            row = {"PRIORITY": str(HIGHEST - number), "DST_IP": prefix, "PACKET_ACTION": "FORWARD"}
            rules[f"{name}|RULE_{number + 1}"] = row
        rules[f"{name}|LAST"] = {"PRIORITY": "1", "IP_TYPE": "IP", "PACKET_ACTION": "DROP"}
    bound = {
        name: {
            "policy_desc": name,
            "type": "L3",
            "stage": "ingress",
            "ports": sorted(one.port for one in intent.access if one.filter == name),
        }
        for name in sorted(lists)
    }
    return {"ACL_TABLE": bound, "ACL_RULE": rules}


LINES = (",\n  ", ": ")
"""Separators of items, and of a key and its value."""

CLASSES = 8
DSCPS = 64

WATCHDOG_MS = {"detection_time": "200", "restoration_time": "400", "action": "drop"}
"""Watchdog of a queue that is paused forever; SONiC's own defaults are 200 ms and 400 ms on most platforms."""

ANY = "ANY"
"""A policy that lets all routes pass: BGP between systems exchanges none without one (RFC 8212)."""


def render(intent: SwitchIntent) -> str:
    """The file of one switch."""
    tables: dict[str, Any] = {
        "DEVICE_METADATA": {
            "localhost": {
                "hostname": intent.name,
                "bgp_asn": str(intent.asn),
                "type": "LeafRouter",
                "docker_routing_config_mode": "split-unified" if intent.vrfs else "unified",
                "frr_mgmt_framework_config": "true",  # which starts bfdd too
            }
        },
        "LOOPBACK_INTERFACE": {"Loopback0": {}, f"Loopback0|{intent.loopback}/32": {}},
        "PORT": {one.port: _port(one, intent.mtu) for one in intent.ports},
        "INTERFACE": _interfaces(intent),
        **tenants(intent),
        "DEVICE_NEIGHBOR": {one.port: {"name": one.neighbour, "port": one.neighbour_port} for one in intent.ports},
        **({} if intent.vrfs else _bgp(intent)),
        **_qos(intent),
        **filters(intent),
    }
    return _text(tables)


def _text(tables: dict[str, Any]) -> str:
    """JSON with an item a line, so that a changed key is a changed line; `indent` would take json's slow encoder."""
    rows = (f'"{name}": {json.dumps(tables[name], sort_keys=True, separators=LINES)}' for name in sorted(tables))
    return "{" + ",\n".join(rows) + "}\n"


def _port(one: SwitchPort, mtu: int) -> dict[str, str]:
    return {
        "admin_status": "up",
        "alias": one.port.replace("Ethernet", "etp"),
        "description": f"{one.neighbour}[{one.neighbour_port}]",
        "lanes": ",".join(str(lane) for lane in _lanes(one)),
        "mtu": str(mtu),
        "speed": str(one.rate_bps // 1_000_000),
    }


def _lanes(one: SwitchPort) -> range:
    """Lanes of the switch, counted from 1 in the order of its cages, as SONiC's names of ports count them from 0."""
    first = int(one.port.removeprefix("Ethernet")) + 1
    return range(first, first + max(SONIC_LANES // one.split, 1))


def _interfaces(intent: SwitchIntent) -> dict[str, Any]:
    out: dict[str, Any] = {one.port: {"ipv6_use_link_local_only": "enable"} for one in intent.sessions}
    for access in intent.access:
        vrf = {"vrf_name": vrf_name(access.vrf)} if access.vrf else {}
        out |= {access.port: vrf, f"{access.port}|{access.address}/31": {}}
    return out


def _bgp(intent: SwitchIntent) -> dict[str, Any]:
    policy = {"admin_status": "up", "route_map_in": [ANY], "route_map_out": [ANY]}
    session = {"peer_type": "external", "capability_ext_nexthop": "true", "bfd": "true"}
    ports = [one.port for one in intent.sessions]
    families, own = ["ipv4_unicast"], {"default|ipv4_unicast": {"max_ebgp_paths": "128"}}
    if intent.by == "evpn":  # a spine passes its routes on
        families.append("l2vpn_evpn")
        own |= {"default|l2vpn_evpn": {"advertise-all-vni": "true"}} if intent.leaf else {}
    instance = {"local_asn": str(intent.asn), "router_id": intent.loopback, "load_balance_mp_relax": "true"}
    return {
        "BGP_GLOBALS": {"default": instance},
        "BGP_GLOBALS_AF": own,
        "BGP_GLOBALS_AF_NETWORK": {f"default|ipv4_unicast|{prefix}": {} for prefix in intent.announced},
        "BGP_NEIGHBOR": {f"default|{port}": session for port in ports},
        "BGP_NEIGHBOR_AF": {f"default|{port}|{family}": policy for port in ports for family in families},
        "ROUTE_MAP_SET": {ANY: {}},
        "ROUTE_MAP": {f"{ANY}|10": {"route_operation": "permit"}},
    }


def _qos(intent: SwitchIntent) -> dict[str, Any]:
    """Tables that switches act on; a fabric that neither pauses nor marks has the maps only."""
    ports = sorted(one.port for one in intent.ports)
    same = {str(number): str(number) for number in range(CLASSES)}
    dscp = {str(code): "0" for code in range(DSCPS)} | {str(DSCP_ROCE): str(LOSSLESS), str(DSCP_CNP): str(CNP)}
    mapped = {"dscp_to_tc_map": "AZURE", "tc_to_queue_map": "AZURE", "tc_to_pg_map": "AZURE"}
    if intent.pauses:
        mapped |= {"pfc_to_queue_map": "AZURE", "pfc_enable": str(LOSSLESS), "pfcwd_sw_enable": str(LOSSLESS)}
    out: dict[str, Any] = {
        "DSCP_TO_TC_MAP": {"AZURE": dscp},
        "TC_TO_QUEUE_MAP": {"AZURE": same},
        "TC_TO_PRIORITY_GROUP_MAP": {"AZURE": {key: key if key == str(LOSSLESS) else "0" for key in same}},
        "MAP_PFC_PRIORITY_TO_QUEUE": {"AZURE": same},
        "PORT_QOS_MAP": {port: dict(mapped) for port in ports},
    }
    shaped = {one.port: one.shaped_bps // 8 for one in intent.access if one.shaped_bps}
    for port, rate in shaped.items():
        out["PORT_QOS_MAP"][port]["scheduler"] = f"shape-{rate}"
    if shaped:
        out["SCHEDULER"] = {f"shape-{rate}": _shaper(rate) for rate in sorted(set(shaped.values()))}
    if intent.marks:
        low, high, most = intent.red
        out["WRED_PROFILE"] = {
            "AZURE_LOSSLESS": {
                "ecn": "ecn_all",
                "wred_green_enable": "true",
                "green_min_threshold": str(low),
                "green_max_threshold": str(high),
                "green_drop_probability": str(most),
            }
        }
        out["QUEUE"] = {f"{port}|{LOSSLESS}": {"wred_profile": "AZURE_LOSSLESS"} for port in ports}
    return out | (_lossless(intent) if intent.pauses else {})


def _shaper(rate: int) -> dict[str, str]:
    """What a port sends at most, bytes a second; SONiC wants the committed rate too."""
    return {"type": "STRICT", "meter_type": "bytes", "cir": str(rate), "pir": str(rate)}


def _lossless(intent: SwitchIntent) -> dict[str, Any]:
    """Watchdog, and buffers whose headroom holds what may still come over the cable of each port after a pause."""
    profiles, groups = {}, {}
    for one in intent.ports:
        name = profile_of(one.rate_bps, one.length_m)
        room = headroom(one.rate_bps, one.length_m, asic=intent.asic)
        profiles[name] = {
            "pool": "ingress_lossless_pool",
            "xoff": str(room.xoff),
            "xon": str(room.xon),
            "size": str(room.size),
            "dynamic_th": str(round(math.log2(intent.alpha))),  # SAI's alpha is a power of two
        }
        groups[f"{one.port}|{LOSSLESS}"] = {"profile": name}
    return {
        "PFC_WD": {"GLOBAL": {"POLL_INTERVAL": "200"}} | {one.port: WATCHDOG_MS for one in intent.ports},
        "BUFFER_POOL": {"ingress_lossless_pool": {"type": "ingress", "mode": "dynamic"}},
        "BUFFER_PROFILE": profiles,
        "BUFFER_PG": groups,
        "CABLE_LENGTH": {"AZURE": {one.port: f"{one.length_m:g}m" for one in intent.ports}},
    }


def profile_of(rate_bps: int, length_m: float) -> str:
    """SONiC's own kind of name: `pg_lossless_400000_30m_profile`."""
    return f"pg_lossless_{rate_bps // 1_000_000}_{length_m:g}m_profile"


ROUTING = ("asn", "loopback", "sessions", "announced", "bfd")
"""system.Facts that FRR's own file says, where SONiC makes none of its tables."""


def facts(text: str) -> system.Facts:
    """Facts of `config_db.json`; those that a switch lacks are absent, and those of another file are `elsewhere`."""
    tables = json.loads(text)
    metadata = tables["DEVICE_METADATA"]["localhost"]
    ports, neighbours = tables["PORT"], tables.get("BGP_NEIGHBOR", {})
    queues, marks = tables.get("QUEUE", {}), tables.get("WRED_PROFILE", {})
    keys = [key.split("|") for key in tables.get("INTERFACE", {})]
    routing = tables.get("BGP_GLOBALS", {}).get("default", {})
    facts = {
        "asn": int(metadata.get("bgp_asn", routing.get("local_asn", 0))),
        "loopback": routing.get("router_id", ""),
        "sessions": {key.split("|")[-1] for key in neighbours if key.startswith("default|")},
        "access": {(key[0], key[1].removesuffix("/31")) for key in keys if len(key) == 2 and key[1].endswith("/31")},
        "announced": {key.split("|")[2] for key in tables.get("BGP_GLOBALS_AF_NETWORK", {})},
        "bfd": bool(neighbours) and all(row.get("bfd") == "true" for row in neighbours.values()),
        "mtu": {port: int(row["mtu"]) for port, row in ports.items() if "mtu" in row},
        "rate_bps": {port: int(row["speed"]) * 10**6 for port, row in ports.items() if "speed" in row},
        "roce": (26, _class_of(tables, "26")),
        "cnp": (48, _class_of(tables, "48")),
        "pfc": {port for port, row in tables.get("PORT_QOS_MAP", {}).items() if _pauses(tables, port, row)},
        "ecn": {key.split("|")[0] for key, row in queues.items() if row.get("wred_profile") in marks},
        "red": {_marks(marks[row["wred_profile"]]) for row in queues.values() if row.get("wred_profile") in marks},
        "alpha": _shares(tables, ports),
        "headroom": _headroom(tables, ports),
        "length_m": _lengths(tables),
    }
    if not metadata.get("docker_routing_config_mode", "").startswith("split"):
        return facts
    return {key: fact for key, fact in facts.items() if key not in ROUTING} | {"elsewhere": ROUTING}


def _marks(profile: dict[str, str]) -> tuple[int, ...]:
    names = ("green_min_threshold", "green_max_threshold", "green_drop_probability")
    return tuple(int(profile.get(name, 0)) for name in names)


def _shares(tables: dict[str, Any], ports: dict[str, Any]) -> set[float]:
    """Shares of the free buffer for the lossless priority groups of all ports."""
    groups, profiles = tables.get("BUFFER_PG", {}), tables.get("BUFFER_PROFILE", {})
    used = (profiles.get(groups.get(f"{port}|3", {}).get("profile"), {}) for port in ports)
    return {2.0 ** int(profile["dynamic_th"]) for profile in used if "dynamic_th" in profile}


def _headroom(tables: dict[str, Any], ports: dict[str, Any]) -> dict[str, system.Sizes]:
    """system.Sizes of the buffer profile of each port's lossless priority group."""
    groups, profiles = tables.get("BUFFER_PG", {}), tables.get("BUFFER_PROFILE", {})
    out = {}
    for port in ports:
        profile = profiles.get(groups.get(f"{port}|3", {}).get("profile"))
        if profile is not None:
            out[port] = {key: int(profile[key]) for key in ("xoff", "xon", "size") if key in profile}
    return out


def _lengths(tables: dict[str, Any]) -> dict[str, float]:
    return {
        port: float(length.removesuffix("m"))
        for row in tables.get("CABLE_LENGTH", {}).values()
        for port, length in row.items()
        if length.endswith("m")
    }


def _class_of(tables: dict[str, Any], code: str) -> int | None:
    """Traffic class of a code point, in the map that most ports have."""
    maps = tables.get("DSCP_TO_TC_MAP", {})
    used = Counter(row.get("dscp_to_tc_map") for row in tables.get("PORT_QOS_MAP", {}).values())
    name = used.most_common(1)[0][0] if used else next(iter(maps), None)
    value = maps.get(name, {}).get(code)
    return None if value is None else int(value)


def _pauses(tables: dict[str, Any], port: str, row: dict[str, str]) -> bool:
    """Whether priority 3 is paused, and its buffer has headroom."""
    profile = tables.get("BUFFER_PG", {}).get(f"{port}|3", {}).get("profile")
    headroom = tables.get("BUFFER_PROFILE", {}).get(profile, {}).get("xoff", "0")
    return "3" in row.get("pfc_enable", "").split(",") and int(headroom) > 0


Tables = dict[str, Any]


_SHORT = re.compile(r"^Eth(?=\d+\.)")
"""Form of a VLAN of a port whose name would be too long for SONiC."""


def read(name: str, first: system.File, routing: system.File, _family: int) -> Configured:
    """What files say of tenants; names of VRFs are without the `Vrf` that SONiC wants. See `SwitchSystem`."""
    found = _Reader(name, *first, made=not routing[1]).found
    if routing[1]:
        frr.frr_routing(found, *routing)
    return _renamed(found)


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
            self.found.table(table_name(vrf))

    def _ports(self) -> None:
        for table in ("INTERFACE", "VLAN_SUB_INTERFACE"):
            for key, row in self._all(table).items():
                name, _, address = key.partition("|")
                self.found.port(name)
                if address and ":" not in address:
                    self.found.set_port(name, "address", IPv4Interface(address), self.line(table, key))
                if "vrf_name" in row:
                    self.found.set_port(name, "vrf", table_name(row["vrf_name"]), self.line(table, key))

    def _routing(self) -> None:
        for key in self._all("BGP_NEIGHBOR"):
            vrf, port = key.split("|")
            self.found.table(table_name(vrf)).neighbors[port] = self.line("BGP_NEIGHBOR", key)
        for key, row in self._all("BGP_NEIGHBOR_AF").items():
            vrf, _, family = key.split("|")
            if row.get("admin_status") == "up":
                line = self.line("BGP_NEIGHBOR_AF", key)
                if family == "l2vpn_evpn":
                    self.found.overlay = line
                else:
                    self.found.table(table_name(vrf)).lines["active"] = line
        for key in self._all("BGP_GLOBALS_AF_NETWORK"):
            vrf, _, prefix = key.split("|")
            self.found.table(table_name(vrf)).announced[network(prefix)] = self.line("BGP_GLOBALS_AF_NETWORK", key)
        for key, row in self._all("BGP_GLOBALS_AF").items():
            if "import_vrf" in row:
                line = self.line("BGP_GLOBALS_AF", key)
                self.found.table(table_name(key.split("|")[0])).leak(None, row["import_vrf"], line)
        for key, row in self._all("STATIC_ROUTE").items():
            vrf, prefix = key.split("|") if "|" in key else ("default", key)
            if "nexthop-vrf" in row:
                line = self.line("STATIC_ROUTE", key)
                self.found.table(table_name(vrf)).leak(network(prefix), row["nexthop-vrf"], line)

    def _tunnels(self) -> None:
        for key, row in self._all("VRF").items():
            if "vni" in row:
                table = self.found.table(table_name(key))
                table.tunnel(int(row["vni"]), self.line("VRF", key), "tunnel")
                if self.made:
                    table.lines["vni"] = table.lines["tunnel"]
        for key, row in self._all("BGP_GLOBALS_AF").items():
            if row.get("advertise-ipv4-unicast") == "true":
                self.found.table(table_name(key.split("|")[0])).lines["overlay"] = self.line("BGP_GLOBALS_AF", key)
        for key, row in self._all("BGP_GLOBALS_EVPN_RT").items():
            vrf, _, target = key.split("|")
            which, line = row.get("route-target-type", "both"), self.line("BGP_GLOBALS_EVPN_RT", key)
            self.found.table(table_name(vrf)).target(which, [target], line)

    def _filters(self) -> None:
        for name, row in self._all("ACL_TABLE").items():
            if row.get("stage", "ingress") != "ingress":
                continue
            self.found.filters.setdefault(name, [])
            for port in row.get("ports", []):
                self.found.set_port(port, "filter", name, self.line("ACL_TABLE", name))
        rules = sorted(self._all("ACL_RULE").items(), key=lambda item: -int(item[1].get("PRIORITY", 0)))
        for key, row in rules:
            name = key.split("|")[0]
            if name in self.found.filters:
                target = network(row.get("DST_IP", "0.0.0.0/0"))
                permits = row.get("PACKET_ACTION") == "FORWARD"
                self.found.filters[name].append(FilterRule(permits, target, self.line("ACL_RULE", key)))


def _renamed(found: Configured) -> Configured:
    """The same with names of tenants, and long names of VLANs of ports."""
    for table in found.tables.values():
        table.neighbors = {_SHORT.sub("Ethernet", port): line for port, line in table.neighbors.items()}
        table.leaks = [replace(leak, vrf=leak.vrf.removeprefix("Vrf")) for leak in table.leaks]
    found.tables = {name.removeprefix("Vrf"): table for name, table in found.tables.items()}
    found.ports = {_SHORT.sub("Ethernet", name): port for name, port in found.ports.items()}
    for port in found.ports.values():
        port.vrf = port.vrf.removeprefix("Vrf")
    return found


def _meant(intent: SwitchIntent) -> system.Facts:
    facts = system.port_facts(intent, ("xoff", "xon", "size"), alpha_of_one=True)
    return facts | {"bfd": bool(intent.sessions)}


SONIC = system.systems.add(
    "sonic",
    system.SwitchSystem("sonic", "config_db.json", render, _meant, facts, read, frr.FRR.ending, routing, routes_itself),
)
