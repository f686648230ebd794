"""SONiC's `config_db.json`: ports, BGP unnumbered where no tenant has a VRF, tenants, QoS, buffers."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from railyard.ask.deploy.emit import frr
from railyard.ask.deploy.emit.intent import CNP, DSCP_CNP, DSCP_ROCE, LOSSLESS, headroom
from railyard.cluster.asbuilt.discovery import SONIC_LANES

if TYPE_CHECKING:
    from railyard.ask.deploy.emit.intent import Port, SwitchIntent
    from railyard.ask.deploy.tenants import Vrf


TUNNEL, NVO = "vtep", "nvo"

LONGEST = 15
"""Characters of a device's name in Linux."""

FPM = ("no fpm use-next-hop-groups", "fpm address 127.0.0.1")
"""By which routes get from FRR to the chip: SONiC appends these where they are missing (its docker_init.sh)."""

HEAD = (
    "! For /etc/sonic/frr/frr.conf, beside config_db.json with `docker_routing_config_mode: split-unified`: tables of",
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
    """What FRR of a switch with VRFs runs: `/etc/sonic/frr/frr.conf`.

    SONiC's tables cannot say it: frrcfgd reads `BGP_GLOBALS_EVPN_RT`, `advertise-ipv4-unicast` and
    `route-distinguisher`, but no YANG model has them, and `BGP_NEIGHBOR` takes addresses, ports, port channels and
    VLANs, not VLANs of ports. With `split-unified` FRR's own file counts, and none is made from tables.
    """
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
"""Between items, and between a key and its value."""

CLASSES = 8
DSCPS = 64

WATCHDOG_MS = {"detection_time": "200", "restoration_time": "400", "action": "drop"}
"""Of a queue that is paused for ever; SONiC's own defaults are 200 ms and 400 ms on most platforms."""

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


def _port(one: Port, mtu: int) -> dict[str, str]:
    return {
        "admin_status": "up",
        "alias": one.port.replace("Ethernet", "etp"),
        "description": f"{one.neighbour}[{one.neighbour_port}]",
        "lanes": ",".join(str(lane) for lane in _lanes(one)),
        "mtu": str(mtu),
        "speed": str(one.rate_bps // 1_000_000),
    }


def _lanes(one: Port) -> range:
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
