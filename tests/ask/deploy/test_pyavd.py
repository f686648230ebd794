"""EOS's files against PyAVD: its schema takes the intent, and its templates write the lines that ours write.

Needs `pip install pyavd`. Run at night.
"""

from __future__ import annotations

import importlib.util

import pytest

from railyard.ask.deploy.emit.intent import DSCP_CNP, DSCP_ROCE, LOSSLESS, MAX_PATHS, headroom, switches
from railyard.ask.deploy.system import systems
from railyard.ask.deploy.systems import eos
from railyard.cluster.network_table import DIALECTS

from .scenarios import draft, planned

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("pyavd") is None, reason="no pyavd here (pip install pyavd)"),
]
NOT_IN_AVD = {"bgp bestpath as-path multipath-relax", "end"}
"""EOS's own default, and the end of a file."""


@pytest.fixture(scope="module")
def intents():
    plan = planned(draft(64, "leaf-spine", "roce", {"ports_per_leaf": 16, "spines": 4}))
    return list(switches(plan, 0, DIALECTS["eos"]))


def port(intent, one, address=None):
    low, high, most = intent.red
    threshold = {"units": "bytes", "min": low, "max": high, "max_probability": most}
    return {
        "name": one.port,
        "description": f"{one.neighbour}[{one.neighbour_port}]",
        "mtu": intent.mtu,
        "speed": f"{one.rate_bps // 10**9}g",
        "switchport": {"enabled": False},
        "priority_flow_control": {"enabled": True, "priorities": [{"priority": LOSSLESS, "no_drop": True}]},
        "uc_tx_queues": [{"id": LOSSLESS, "random_detect": {"ecn": {"threshold": threshold}}}],
    } | ({"ip_address": f"{address}/31"} if address else {"ipv6_enable": True})


TENANTS = [
    {"name": "blue", "servers": "0,2,4", "share": "30 %"},
    {"name": "green", "servers": "1,6-7"},
    {"name": "red", "servers": "3,5"},
]


def of_tenants(intent):
    """What tenants add, in AVD's words: ports in tables, VLANs between switches, tunnels, instances of BGP."""
    lanes = [
        {
            "name": f"{one.port}.{vrf.vlan}",
            "encapsulation_dot1q": {"vlan": vrf.vlan},
            "vrf": vrf.name,
            "ipv6_enable": True,
        }
        for one in intent.sessions
        for vrf in one.vrfs
    ]
    instances = []
    for vrf in intent.vrfs:
        targets = [{"address_family": "evpn", "route_targets": [vrf.target]}]
        instances.append(
            {
                "name": vrf.name,
                "router_id": intent.loopback,
                "neighbor_interfaces": [
                    {"name": f"{one.port}.{vrf.vlan}", "peer_group": "FABRIC", "remote_as": "external"}
                    for one in intent.sessions
                    if vrf in one.vrfs
                ],
                "address_family_ipv4": {
                    # That the group is active here too has no key in AVD: its line is compared in the default instance.
                    "networks": [{"prefix": f"{one.address}/31"} for one in intent.access_of(vrf.name)],
                },
            }
            | (
                {"rd": f"{intent.loopback}:{vrf.vlan}", "route_targets": {"import": targets, "export": targets}}
                if intent.by == "evpn"
                else {}
            )
        )
    tunnel = {"source_interface": "Loopback0", "udp_port": 4789}
    tunnel["vrfs"] = [{"name": vrf.name, "vni": vrf.number} for vrf in intent.vrfs]
    return lanes, instances, {"vxlan1": {"vxlan": tunnel}} if intent.by == "evpn" and intent.vrfs else None


def shared(intent):
    """A switch that tenants share."""
    given, (lanes, instances, tunnel) = structured(intent), of_tenants(intent)
    given["vrfs"] = [{"name": vrf.name, "ip_routing": True} for vrf in intent.vrfs]
    attached = {one.port: one for one in intent.access}
    for one in given["ethernet_interfaces"]:
        if one["name"] in attached:
            here = attached[one["name"]]
            one.update({"vrf": here.vrf} | ({"shape": {"rate": "120000000 kbps"}} if here.vrf == "blue" else {}))
    given["ethernet_interfaces"] += lanes
    given["router_bgp"]["vrfs"] = instances
    given["router_bgp"]["address_family_ipv4"]["networks"] = [{"prefix": prefix} for prefix in intent.announced]
    if tunnel is not None:
        given["vxlan_interface"] = tunnel
    if intent.by == "evpn":
        given["router_bgp"]["address_family_evpn"] = {"peer_groups": [{"name": "FABRIC", "activate": True}]} | (
            {} if intent.leaf else {"next_hop_unchanged": True}
        )
    return given


def structured(intent):
    """A switch in AVD's words."""
    hop = {"address_family_ipv6": {"enabled": True, "originate": True}}
    prefixes = [f"{intent.loopback}/32", *(f"{one.address}/31" for one in intent.access)]
    room = max(headroom(one.rate_bps, one.length_m, asic=intent.asic).xoff for one in intent.ports)
    profile = {"name": eos.PROFILE, "ingress": {"headroom": {"memory": room, "unit": "bytes"}}}
    return {
        "hostname": intent.name,
        "platform": {"trident": {"mmu": {"active_profile": eos.PROFILE, "queue_profiles": [profile]}}},
        "ip_routing_ipv6_interfaces": True,
        "ipv6_unicast_routing": True,
        "qos": {"map": {"dscp": [f"{DSCP_ROCE} to traffic-class 3", f"{DSCP_CNP} to traffic-class 6"]}},
        "priority_flow_control": {"watchdog": {"timeout": "0.2"}},
        "loopback_interfaces": [{"name": "Loopback0", "ip_address": f"{intent.loopback}/32"}],
        "ethernet_interfaces": [
            *(port(intent, one) for one in intent.sessions),
            *(port(intent, one, one.address) for one in intent.access),
        ],
        "router_bgp": {
            "as": str(intent.asn),
            "router_id": intent.loopback,
            "maximum_paths": {"paths": MAX_PATHS, "ecmp": MAX_PATHS},
            "peer_groups": [{"name": "FABRIC", "bfd": True}],
            "neighbor_interfaces": [
                {"name": one.port, "peer_group": "FABRIC", "remote_as": "external"} for one in intent.sessions
            ],
            "address_family_ipv4": {
                "networks": [{"prefix": prefix} for prefix in prefixes],
                "peer_groups": [{"name": "FABRIC", "activate": True, "next_hop": hop}],
            },
        },
    }


def lines(text):
    return {line.strip() for line in text.splitlines() if line.strip(" !")}


def test_avd_writes_the_lines_that_we_write(intents):
    import pyavd

    for intent in intents:
        given = structured(intent)
        assert not pyavd.validate_structured_config(given).validation_result.violations
        theirs = pyavd.get_device_config(given)
        assert lines(theirs) ^ lines(eos.render(intent)) <= NOT_IN_AVD
        assert not systems.get("eos").differences(intent, theirs)  # our reader reads theirs as it reads ours


@pytest.mark.parametrize("by", ["vrf", "evpn"])
def test_avd_writes_the_lines_of_tenants_that_we_write(by):
    import pyavd

    tenancy, parts = {"by": by, "tenants": TENANTS}, {"ports_per_leaf": 2, "spines": 2}
    plan = planned(draft(8, "leaf-spine", "roce", parts, server="gh200-node", tenancy=tenancy))
    for intent in switches(plan, plan.networks.index("back-end"), DIALECTS["eos"]):
        given = shared(intent)
        assert not pyavd.validate_structured_config(given).validation_result.violations
        assert lines(pyavd.get_device_config(given)) ^ lines(eos.render(intent)) <= NOT_IN_AVD


@pytest.mark.parametrize(
    ("key", "value"),
    [("mtu", 1), ("speed", "fast"), ("switchport", {"enabled": "perhaps"}), ("colour", "red"), ("uc_tx_queues", 3)],
)
def test_mutants_are_rejected(intents, key, value):
    import pyavd

    given = structured(intents[0])
    given["ethernet_interfaces"][0][key] = value
    assert pyavd.validate_structured_config(given).validation_result.violations
