"""SONiC's own sonic-yang-mgmt, with SONiC's models, accepts what is written, and rejects what is not right.

Needs the Python package `libyang` with its library, and a checkout of sonic-buildimage that SONIC_BUILDIMAGE names:
`pip install libyang xmltodict ijson jsondiff jsonpointer jinja2`. Run at night.
"""

from __future__ import annotations

import copy
import importlib.util
import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from railyard.ask.deploy.emit.intent import switches
from railyard.ask.deploy.systems.sonic import lane, render
from railyard.ask.deploy.tenants import Vrf
from railyard.cluster.network_table import DIALECTS

from .scenarios import draft, planned

CHECKOUT = Path(os.environ.get("SONIC_BUILDIMAGE", "none")) / "src"
MODULES = ("libyang", "xmltodict", "ijson", "jsondiff", "jsonpointer", "jinja2")
MISSING = [name for name in MODULES if importlib.util.find_spec(name) is None]
MISSING += [] if (CHECKOUT / "sonic-yang-mgmt").is_dir() else ["a checkout of sonic-buildimage (SONIC_BUILDIMAGE)"]
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=f"no {', '.join(MISSING)} here")]


@pytest.fixture(scope="module")
def sonic(tmp_path_factory):
    import jinja2

    sys.path.insert(0, str(CHECKOUT / "sonic-yang-mgmt"))
    import sonic_yang

    models = tmp_path_factory.mktemp("models")
    for path in (CHECKOUT / "sonic-yang-models" / "yang-models").glob("*.yang"):
        shutil.copy(path, models)
    for path in (CHECKOUT / "sonic-yang-models" / "yang-templates").glob("*.yang.j2"):
        text = jinja2.Template(path.read_text(), trim_blocks=True, lstrip_blocks=True).render(yang_model_type="py")
        (models / path.name.removesuffix(".j2")).write_text(text)
    yang = sonic_yang.SonicYang(str(models))
    yang.loadYangModel()
    return yang


def tables(fabric="roce"):
    plan = planned(draft(64, "leaf-spine", fabric, {"ports_per_leaf": 16, "spines": 4}))
    return [json.loads(render(intent)) for intent in switches(plan, 0, DIALECTS["sonic"])]


def wrong(sonic, given):
    """Why it is not accepted; empty where it is."""
    try:
        sonic.loadData(copy.deepcopy(given))
        sonic.validate_data_tree()
    except Exception as error:
        return str(error)
    without = sorted(sonic.tablesWithOutYang)  # `config replace` and `apply-patch` refuse these
    return f"no model of {without}" if without else ""


@pytest.mark.parametrize("fabric", ["roce", "spectrum-x", "uec"])
def test_every_switch_is_accepted(sonic, fabric):
    for given in tables(fabric):
        assert not wrong(sonic, given)


TENANTS = [
    {"name": "blue", "servers": "0,2,4", "share": "30 %"},
    {"name": "green", "servers": "1,6-7"},
    {"name": "red", "servers": "3,5"},
]


def shared_tables(by):
    tenancy, parts = {"by": by, "tenants": TENANTS}, {"ports_per_leaf": 2, "spines": 2}
    plan = planned(draft(8, "leaf-spine", "roce", parts, server="gh200-node", tenancy=tenancy))
    every = switches(plan, plan.networks.index("back-end"), DIALECTS["sonic"])
    return [json.loads(render(intent)) for intent in every]


@pytest.mark.parametrize("by", ["vrf", "evpn", "acl"])
def test_switches_of_tenants_are_accepted(sonic, by):
    for given in shared_tables(by):
        assert not wrong(sonic, given)


UNSAID = [
    ("BGP_GLOBALS_EVPN_RT", "Vrfblue|L2VPN_EVPN|64512:10001", {"route-target-type": "both"}),
    ("BGP_GLOBALS_AF", "Vrfblue|l2vpn_evpn", {"advertise-ipv4-unicast": "true"}),
    ("BGP_GLOBALS_AF", "Vrfblue|l2vpn_evpn", {"route-distinguisher": "10.240.0.1:101"}),
    ("BGP_NEIGHBOR", "Vrfblue|Ethernet8.101", {"peer_type": "external"}),
]
"""What FRR's own file is for: a model that learns all of it makes that file needless."""


@pytest.mark.parametrize(("table", "key", "row"), UNSAID, ids=lambda one: one if isinstance(one, str) else "")
def test_what_frr_s_own_file_says_no_model_accepts(sonic, table, key, row):
    by = "vrf" if "." in key else "evpn"
    for more, is_wrong in ((None, False), (row, True)):
        given = shared_tables(by)[0]
        instance = {"local_asn": "1", "router_id": "10.0.0.1"}
        given["BGP_GLOBALS"] = {"default": instance, "Vrfblue": instance}
        if more:
            given.setdefault(table, {})[key] = more
        assert bool(wrong(sonic, given)) == is_wrong


def test_long_names_of_lanes_are_accepted_when_short(sonic):
    given = shared_tables("vrf")[0]
    port = next(iter(given["VLAN_SUB_INTERFACE"])).split(".")[0]
    row = {"admin_status": "up", "vlan": "1000", "vrf_name": "Vrfblue", "ipv6_use_link_local_only": "enable"}
    given["PORT"]["Ethernet1000"] = {**given["PORT"][port], "alias": "etp1000", "lanes": "1001,1002,1003,1004"}
    for name, is_wrong in ((lane("Ethernet1000", Vrf("blue", 1000, 899)), False), ("Ethernet1000.1000", True)):
        given["VLAN_SUB_INTERFACE"] = {name: row}
        assert bool(wrong(sonic, given)) == is_wrong


def test_shapers_of_shares_are_accepted_and_wrong_ones_are_not(sonic):
    given = next(one for one in shared_tables("acl") if "SCHEDULER" in one)
    (name,) = given["SCHEDULER"]
    assert given["SCHEDULER"][name]["pir"] == str(400 * 10**9 * 3 // 10 // 8)
    del given["SCHEDULER"][name]["cir"]
    assert wrong(sonic, given)


MUTANTS = [
    ("PORT", "Ethernet0", "speed", "fast"),
    ("PORT", "Ethernet0", "mtu", "99999"),
    ("PORT", "Ethernet0", "lanes", None),
    ("PORT", "Ethernet0", "admin_status", "true"),
    ("PORT", "Ethernet0", "colour", "red"),
    ("PORT_QOS_MAP", "Ethernet0", "dscp_to_tc_map", "NOPE"),
    ("PORT_QOS_MAP", "Ethernet0", "tc_to_queue_map", "NOPE"),
    ("PORT_QOS_MAP", "Ethernet0", "tc_to_pg_map", "NOPE"),
    ("PORT_QOS_MAP", "Ethernet0", "pfc_to_queue_map", "NOPE"),
    ("PORT_QOS_MAP", "Ethernet0", "pfc_enable", "9"),
    ("DSCP_TO_TC_MAP", "AZURE", "64", "0"),
    ("DSCP_TO_TC_MAP", "AZURE", "26", "17"),
    ("TC_TO_QUEUE_MAP", "AZURE", "3", "99"),
    ("BUFFER_PG", "Ethernet0|3", "profile", "NOPE"),
    ("BUFFER_PROFILE", "*", "pool", "NOPE"),
    ("BUFFER_PROFILE", "*", "dynamic_th", "99"),
    ("BUFFER_POOL", "ingress_lossless_pool", "mode", "elastic"),
    ("QUEUE", "Ethernet0|3", "wred_profile", "NOPE"),
    ("WRED_PROFILE", "AZURE_LOSSLESS", "ecn", "all"),
    ("WRED_PROFILE", "AZURE_LOSSLESS", "green_drop_probability", "150"),
    ("BGP_GLOBALS", "default", "local_asn", "0"),
    ("BGP_GLOBALS", "default", "router_id", "10.0.0"),
    ("BGP_GLOBALS", "default", "ebgp_requires_policy", "false"),
    ("BGP_NEIGHBOR_AF", "*", "admin_status", "true"),
    ("BGP_NEIGHBOR_AF", "*", "route_map_in", ["NOPE"]),
    ("DEVICE_NEIGHBOR", "Ethernet0", "flavour", "x"),
    ("PFC_WD", "Ethernet0", "action", "explode"),
    ("CABLE_LENGTH", "AZURE", "Ethernet0", "thirty"),
]
"""Table, row (`*`: the first), field, value; None: without it."""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: f"{one[0]}-{one[2]}-{one[3]}")
def test_mutants_are_rejected(sonic, mutant):
    table, row, field, value = mutant
    given = tables()[0]
    rows = given[table]
    here = rows[next(iter(rows)) if row == "*" else row]
    if value is None:
        del here[field]
    else:
        here[field] = value
    assert wrong(sonic, given)
