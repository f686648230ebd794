"""Plans in a simulated fabric: the real OpenSM routes it, the real ibnetdiscover finds it, the audit compares it."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from railyard.cluster.asbuilt import ibnetdiscover
from railyard.deploy.audit.audit import audit, audit_plan
from railyard.deploy.audit.loads import Tables
from railyard.deploy.emit.netlist import netlist
from railyard.deploy.plan.drawn import dialects, drawn

from .ibsim import WHY, Fabric
from .scenarios import draft, planned

pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)
SIZES = (16, 512)


def scenario(ports):
    """ibsim 0.10 knows no generation after HDR."""
    return draft(ports, server="dgx-a100")


def plan_of(ports):
    plan = planned(scenario(ports))
    return drawn(plan, 0, dialects(plan, 0)[0])


@pytest.mark.parametrize("ports", SIZES)
def test_a_plan_that_is_discovered_equals_itself(tmp_path, ports):
    found = plan_of(ports)
    text = netlist(found)
    with Fabric(tmp_path, text) as fabric:
        fabric.manage()
        seen = ibnetdiscover.read(fabric.run("ibnetdiscover"), "seen")
    assert not seen.problems
    assert wires(seen) == wires(ibnetdiscover.read(text, "written")) == wires(found)
    checked = audit_plan(seen, scenario(ports))
    assert not checked.findings
    assert checked.design["source"] == "planned"
    assert not audit(seen).findings


def wires(discovery):
    name = [device.described for device in discovery.devices]
    return {(frozenset(((name[c.a], c.a_port), (name[c.b], c.b_port))), c.rate_bps) for c in discovery.cables}


def test_cables_that_are_pulled_live_are_named(tmp_path):
    found = plan_of(512)
    key = {device.described: number for number, device in enumerate(found.devices)}
    text = netlist(found)
    written = ibnetdiscover.read(text, "written")
    address = {device.described: device.key for device in written.devices}
    dice = random.Random(4)
    between = [c for c in found.cables if found.devices[c.a].kind == "switch"]
    pulled = dice.sample(between, 6)
    with Fabric(tmp_path, text) as fabric:
        fabric.manage()
        fabric.console(*(f'Unlink "{address[found.devices[c.a].described]}"[{c.a_port}]' for c in pulled))
        seen = ibnetdiscover.read(fabric.run("ibnetdiscover"), "seen")
    want = {
        frozenset((f"{found.devices[c.a].described}[{c.a_port}]", f"{found.devices[c.b].described}[{c.b_port}]"))
        for c in pulled
    }
    for checked in (audit_plan(seen, scenario(512)), audit(seen)):
        assert {frozenset((one.a, one.b)) for one in checked.findings} == want
        assert {one.kind for one in checked.findings} == {"missing"}
    assert len(key) == len(found.devices)


def test_tables_are_as_balanced_as_those_of_opensm(tmp_path):
    """Destinations of each port of each switch: the counts of OpenSM's min-hop are those of `Tables`."""
    found = plan_of(512)
    with Fabric(tmp_path, netlist(found)) as fabric:
        fabric.manage("minhop")
        dumped = fabric.tables()
        seen = fabric.run("ibnetdiscover")
    lids = {int(line.split("# lid ")[1].split()[0]) for line in seen.splitlines() if line.startswith("[1](")}
    leafs = sorted({d.name for d in found.devices if "leaf" in d.name})
    spines = sorted({d.name for d in found.devices if "spine" in d.name})
    cables = np.zeros((len(leafs), len(spines)), np.int64)
    low_of = []
    for cable in found.cables:
        a, b = (found.devices[end].name for end in (cable.a, cable.b))
        if a in leafs:
            cables[leafs.index(a), spines.index(b)] += 1
        else:
            low_of.append(leafs.index(b))
    tables = Tables(np.array(low_of), np.arange(len(low_of)), cables, spare=0)
    for row, leaf in enumerate(leafs):
        mine = sorted(tables.up_count[row][tables.up_count[row] > 0].tolist())
        theirs = Counter(port for destination, port in dumped[leaf].items() if destination in lids)
        hosts = {int(c.b_port) for c in found.cables if found.devices[c.b].name == leaf}
        assert len(mine) == cables[row].sum()
        assert sorted(count for port, count in theirs.items() if port not in hosts) == mine
    for column, spine in enumerate(spines):
        theirs = sorted(Counter(port for destination, port in dumped[spine].items() if destination in lids).values())
        assert theirs == sorted(tables.down_count[column][tables.there.transpose(1, 0, 2)[column]].ravel().tolist())
