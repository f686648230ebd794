"""InfraGraph against its own published package: it takes the document, and its graph is the plan.

Needs `pip install infragraph`; what its schema says of names and endpoints is held without it, too.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.ask.audit.audit import audit_plan
from railyard.ask.deploy.emit import folder, tables
from railyard.ask.deploy.emit.labs import groups_of, infragraph
from railyard.cluster.asbuilt import netbox as reader
from railyard.kit.errors import InputError

from .scenarios import draft, planned

CASES = [
    ("leaf-spine", "roce", 128, {}),
    ("rail-optimized", "spectrum-x", 256, {"front_end": {"topology": "leaf-spine"}}),
    ("three-tier", "infiniband", 1024, {}),
    ("rail-only", "roce", 64, {}),
    ("torus", "roce", 64, {}),
    ("leaf-spine", "scheduled", 64, {}),
]


def cables(plan):
    """Both ends of every cable as InfraGraph calls them, and the rate."""
    where = {}
    for group in groups_of(plan):
        for index in range(group.count):
            where[group.first + index] = f"{group.name}.{index}"
    rows, short = plan.cables, {"back-end": "be", "front-end": "fe", "storage": "st"}
    found = Counter()
    for row in range(len(rows)):
        ends = []
        for device, port in zip(rows.ends[row].tolist(), rows.port[row].tolist(), strict=True):
            nic = f"{short[plan.networks[int(rows.network[row])]]}-nic"
            component = "port" if plan.devices.level[device] else nic
            ends.append(f"{where[device]}.{component}.{port - 1}")
        found[frozenset(ends)] += 1
    return found


def expanded(text):
    """The edges of a document, by another reading of its slices than the one that wrote them."""
    found = Counter()
    for edge in json.loads(text)["edges"]:
        assert edge["scheme"] == "one2one"
        sides = [every(edge[side]["instance"], edge[side]["component"]) for side in ("ep1", "ep2")]
        assert len(sides[0]) == len(sides[1])
        found.update(frozenset(pair) for pair in zip(*sides, strict=True))
    return found


def every(instance, component):
    parts = [re.fullmatch(r"([A-Za-z0-9_-]+)\[(\d+)(?::(\d+))?\]", text) for text in (instance, component)]
    assert all(parts)
    numbers = [range(int(m[2]), int(m[3] or int(m[2]) + 1)) for m in parts]
    return [f"{parts[0][1]}.{i}.{parts[1][1]}.{j}" for i in numbers[0] for j in numbers[1]]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0] + "-" + case[1])
def test_edges_are_the_cables_of_the_plan(case):
    topology, fabric, size, more = case
    plan = planned(draft(size, topology, fabric, **more))
    text = infragraph(plan, "a plan")
    assert expanded(text) == cables(plan)
    document = json.loads(text)
    assert sum(one["count"] for one in document["instances"]) == len(plan.devices)
    for one in (*document["devices"], *document["instances"], *document["links"]):
        assert re.fullmatch(r"[A-Za-z0-9_-]+", one["name"])
    rates = {one["name"]: one["physical"]["bandwidth"]["gigabits_per_second"] for one in document["links"]}
    assert set(rates.values()) == {float(rate) / 1e9 for rate in plan.cables.rate_bps}


@pytest.mark.skipif(importlib.util.find_spec("infragraph") is None, reason="pip install infragraph")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0] + "-" + case[1])
def test_its_own_package_reads_the_plan(case):
    from infragraph.infragraph_service import InfraGraphService

    topology, fabric, size, more = case
    plan = planned(draft(size, topology, fabric, **more))
    service = InfraGraphService()
    service.set_graph(infragraph(plan, "a plan"))
    graph = service.get_networkx_graph()
    found, wanted = {frozenset(edge) for edge in graph.edges()}, set(cables(plan))
    assert wanted <= found
    for edge in found - wanted:  # what else is joined is inside a device
        assert len({tuple(end.split(".")[:2]) for end in edge}) == 1
    rates = {graph.edges[tuple(edge)]["bandwidth"] for edge in wanted}
    assert all(rate.endswith("Gbps") for rate in rates)


def test_what_is_inside_a_server_is_said_and_no_more():
    """Eight accelerators behind one switch of a server; the switches of an NVL72 are in no server."""
    server = json.loads(infragraph(planned(draft(16)), "x"))["devices"][0]
    counts = {one["name"]: one["count"] for one in server["components"]}
    assert counts == {"cpu": 1, "xpu": 8, "scale-up-switch": 1, "be-nic": 8}
    rates = {one["name"]: one.get("physical") for one in server["links"]}
    # H100: 450 GB/s one way.
    assert rates["scale-up"]["bandwidth"]["gigabits_per_second"] == 3600.0
    tray = json.loads(infragraph(planned(draft(72, "leaf-spine", "infiniband", server="gb200-nvl72")), "x"))["devices"][
        0
    ]
    assert {one["name"]: one["count"] for one in tray["components"]} == {"cpu": 1, "xpu": 4, "be-nic": 4}


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=30))
def test_titles_cannot_become_anything_but_names(title):
    document = json.loads(infragraph(planned(draft(16)), title))
    assert re.fullmatch(r"[A-Za-z0-9_-]+", document["name"])


# A real NetBox: it imports the plan's tables by its own forms, and says the same of every device, cable and
# address.

URL = os.environ.get("RAILYARD_NETBOX", "")
TOOL = Path(__file__).parents[3] / "tools" / "netbox_round_trip.py"


def patched(accelerators):
    one = draft(accelerators, "leaf-spine", "roce", front_end={"topology": "leaf-spine"})
    values = {"cluster.back_end.patch_panels": "switches", "cluster.back_end.cable_length.leaf-spine": "20 m"}
    return one.with_values(values, "a test")


@pytest.mark.slow
@pytest.mark.skipif(not URL, reason="RAILYARD_NETBOX names no NetBox")
def test_what_netbox_imports_is_the_plan(tmp_path):
    scenario = patched(256)
    plan = planned(scenario)
    folder.write(plan, tmp_path / "plan", "sonic", "a plan", lambda *_: None)
    command = [sys.executable, str(TOOL), str(tmp_path / "plan"), "--url", URL, "--out", str(tmp_path / "back")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not audit_plan(reader.read(tmp_path / "back" / "interfaces.json"), scenario).findings
    with pytest.raises(InputError, match="patch panel"):
        reader.read(tmp_path / "back" / "cables.json")
    back = {
        name: json.loads((tmp_path / "back" / f"{name}.json").read_text())
        for name in ("devices", "cables", "ip-addresses")
    }
    mine = pl.read_csv(tmp_path / "plan" / "netbox" / "10-cables.csv")
    cables = {(one["label"], one["length"], one["type"]) for one in back["cables"]}
    assert cables == set(mine.select("label", "length", "type").rows())
    stands = {(one["name"], one["rack"]["name"], int(one["position"])) for one in back["devices"]}
    assert {
        (name, rack, unit) for name, rack, unit in tables.devices(plan).select("device", "rack", "unit").rows()
    } <= stands
    assert len(stands) == len(plan.devices) + len(plan.racks.patching.panel_rack)
    named = {(one["address"].split("/")[0], one["dns_name"]) for one in back["ip-addresses"]}
    assert set(tables.addresses(plan).select("ipv4", "name").rows()) <= named


def test_tables_of_panels_name_ports_that_are_there(tmp_path):
    from railyard.ask.deploy.emit import netbox
    from railyard.cluster.network_table import DIALECTS

    frames = dict(netbox.files(planned(patched(256)), DIALECTS["sonic"]))
    interfaces, rear, front, cables = (
        frames[f"{name}.csv"] for name in ("07-interfaces", "08-rear-ports", "09-front-ports", "10-cables")
    )
    ports = {("dcim.interface", *row) for row in interfaces.select("device", "name").rows()}
    ports |= {("dcim.rearport", *row) for row in rear.select("device", "name").rows()}
    ports |= {("dcim.frontport", *row) for row in front.select("device", "name").rows()}
    ends = [
        row
        for side in "ab"
        for row in cables.select(f"side_{side}_type", f"side_{side}_device", f"side_{side}_name").rows()
    ]
    assert len(set(ends)) == len(ends)
    assert set(ends) <= ports
    assert len(front) == 12 * len(rear)
    assert set(front.select("device", "rear_port").rows()) == set(rear.select("device", "name").rows())
    assert set(frames["06-devices.csv"]["name"]) >= set(rear["device"])
    file = tmp_path / "cables.csv"
    cables.write_csv(file)
    with pytest.raises(InputError, match="patch panel"):
        reader.read(file)


def test_interfaces_that_netbox_followed_are_cables(tmp_path):
    """Two rows a cable, each with what lies at the far end; interfaces without one have none."""
    rows = [
        {
            "device": {"name": "node0"},
            "name": "be0",
            "connected_endpoints": [{"device": {"name": "leaf0"}, "name": "1"}],
        },
        {
            "device": {"name": "leaf0"},
            "name": "1",
            "connected_endpoints": [{"device": {"name": "node0"}, "name": "be0"}],
        },
        {"device": {"name": "leaf0"}, "name": "Loopback0", "connected_endpoints": None},
        {"name": "nobody's", "connected_endpoints": None},
    ]
    file = tmp_path / "interfaces.json"
    file.write_text(json.dumps({"count": 4, "results": rows}))
    found = reader.read(file)
    assert len(found.ports) == 1
    assert set(found.name) == {"node0", "leaf0"}
    assert [problem.message for problem in found.problems] == ["interface 4 is not as NetBox writes it"]
