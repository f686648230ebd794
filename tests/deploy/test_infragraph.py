"""InfraGraph against its own published package: it takes the document, and its graph is the plan.

Needs `pip install infragraph`; what its schema says of names and endpoints is held without it, too.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.ask.deploy.emit.labs import groups_of, infragraph

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
        for device, port in ((int(rows.a[row]), int(rows.a_port[row])), (int(rows.b[row]), int(rows.b_port[row]))):
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
