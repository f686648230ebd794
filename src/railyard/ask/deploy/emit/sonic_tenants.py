"""Tenants in SONiC's tables: VRFs, VLANs between switches, VXLAN and EVPN, or access lists.

BGP of VRFs is FRR's own text (`routing`); `ipv6_use_link_local_only` of a VLAN between switches is in SONiC's models
since 2026.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from railyard.ask.deploy.emit import frr

if TYPE_CHECKING:
    from railyard.ask.deploy.emit.intent import SwitchIntent
    from railyard.ask.deploy.plan.shared import Vrf

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
