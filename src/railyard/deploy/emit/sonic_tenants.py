"""Tenants in SONiC's tables: VRFs, VLANs between switches, VXLAN and EVPN, or access lists.

The tables of BGP are those of its management framework (frrcfgd). `BGP_GLOBALS_EVPN_RT` is read by it and is in no YANG
model of SONiC; `ipv6_use_link_local_only` of a VLAN between switches is since 2026.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.deploy.emit.intent import SwitchIntent

TUNNEL, NVO = "vtep", "nvo"

HIGHEST = 9_999
"""Priority of an access list's first row."""


def vrf_name(tenant: str) -> str:
    """SONiC's names of VRFs begin so."""
    return f"Vrf{tenant}"


def instances(intent: SwitchIntent) -> Iterator[tuple[str, list[str], list[str]]]:
    """Instances of BGP: name, ports of their sessions, prefixes that they announce."""
    yield "default", [one.port for one in intent.sessions], list(intent.announced)
    for vrf in intent.vrfs:
        ports = [f"{one.port}.{vrf.vlan}" for one in intent.sessions if vrf in one.vrfs]
        yield vrf_name(vrf.name), ports, [f"{one.address}/31" for one in intent.access_of(vrf.name)]


def overlay(intent: SwitchIntent) -> dict[str, Any]:
    """Rows of `BGP_GLOBALS_AF` for EVPN."""
    own = {"default|l2vpn_evpn": {"advertise-all-vni": "true"}} if intent.leaf else {}
    return own | {
        f"{vrf_name(vrf.name)}|l2vpn_evpn": {
            "advertise-ipv4-unicast": "true",
            "route-distinguisher": f"{intent.loopback}:{vrf.vlan}",
        }
        for vrf in intent.vrfs
    }


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
        f"{one.port}.{vrf.vlan}": {
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
        "BGP_GLOBALS_EVPN_RT": {
            f"{vrf_name(vrf.name)}|L2VPN_EVPN|{vrf.target}": {"route-target-type": "both"} for vrf in intent.vrfs
        },
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
