"""SONiC's `config_db.json`: ports, BGP unnumbered where no tenant has a VRF, tenants, QoS, buffers."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from railyard.ask.deploy.emit.intent import CNP, DSCP_CNP, DSCP_ROCE, LOSSLESS
from railyard.ask.deploy.emit.sonic_tenants import filters, tenants, vrf_name
from railyard.ask.deploy.headroom import headroom
from railyard.cluster.asbuilt.port_names import SONIC_LANES

if TYPE_CHECKING:
    from railyard.ask.deploy.emit.intent import Port, SwitchIntent

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
