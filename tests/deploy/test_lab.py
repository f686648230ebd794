"""Files that a plan wrote in the real FRR; a swapped cable that BGP calls healthy, found through the real lldpd."""

from __future__ import annotations

import time

import pytest

from railyard.cluster.asbuilt import lldp
from railyard.cluster.asbuilt.port_names import DIALECTS
from railyard.deploy.audit.audit import audit_plan
from railyard.deploy.emit import frr
from railyard.deploy.emit.intent import switches
from railyard.deploy.plan.drawn import drawn

from .namespaces import Lab, why
from .scenarios import draft, planned

WHY = why()
pytestmark = [pytest.mark.skipif(bool(WHY), reason=WHY), pytest.mark.slow]


def scenario():
    """Four leafs of two servers with a NIC each, two spines."""
    return draft(8, "leaf-spine", "roce", {"ports_per_leaf": 2, "spines": 2}, server="gh200-node")


def until(holds, seconds=40.0, every=0.5):
    """Waits; asked too often, lldpd has no time to listen."""
    end = time.monotonic() + seconds
    while True:
        time.sleep(every)
        if holds():
            return
        assert time.monotonic() < end, "it did not come about"


def healthy(lab, intents):
    for name, intent in intents.items():
        until(lambda name=name, intent=intent: _established(lab, name) == len(intent.sessions))


def wires(plan):
    found = drawn(plan, 0, DIALECTS["frr"])
    name = [device.name for device in found.devices]
    return [(name[c.a], c.a_port, name[c.b], c.b_port) for c in found.cables]


def test_what_was_written_routes_and_a_swapped_cable_is_found(tmp_path):
    one = scenario()
    plan = planned(one)
    cables = wires(plan)
    between = [at for at, cable in enumerate(cables) if cable[0].startswith("be-")]
    first = between[0]
    second = next(at for at in between if cables[at][0] != cables[first][0] and cables[at][2] != cables[first][2])
    intents = {intent.name: intent for intent in switches(plan, 0, DIALECTS["frr"])}
    with Lab() as lab:
        for device in {end for cable in cables for end in (cable[0], cable[2])}:
            lab.add(device)
        for cable in cables:
            lab.cable(*cable)
        for name, intent in intents.items():
            lab.route(name, frr.render(intent))
        healthy(lab, intents)
        leaf = next(name for name in intents if "leaf" in name)
        others = {f"{i.loopback}/32" for n, i in intents.items() if "leaf" in n and n != leaf}
        full = dict.fromkeys(others, len(intents[leaf].sessions))
        until(lambda: _widths(lab, leaf).items() >= full.items())
        for at in (first, second):
            lab.inside(cables[at][0], "ip", "link", "del", cables[at][1])
        cables[first], cables[second] = cables[first][:2] + cables[second][2:], cables[second][:2] + cables[first][2:]
        for at in (first, second):
            lab.cable(*cables[at])
        for device in lab.devices:
            lab.announce(device)
        healthy(lab, intents)
        folder = tmp_path / "seen"
        folder.mkdir()
        until(lambda: kinds(listen(lab, folder), one) == ["swapped"], every=8.0)
    audit = audit_plan(lldp.read(folder), one)
    (finding,) = audit.findings
    assert "the job hangs" in finding.detail  # those two leafs have no spine in common any more
    assert finding.loss == 1
    ends = {frozenset(f"{d}[{p}]" for d, p in (c[:2], c[2:])) for c in (cables[first], cables[second])}
    assert {frozenset((finding.a, finding.b)), frozenset(finding.other)} == ends


def _established(lab, name):
    peers = lab.ask(name, "show bgp ipv4 unicast summary json").get("peers", {})
    return sum(peer["state"] == "Established" for peer in peers.values())


def _widths(lab, name):
    routes = lab.ask(name, "show ip route bgp json")
    return {prefix: sum(bool(hop.get("active")) for hop in rows[0]["nexthops"]) for prefix, rows in routes.items()}


def listen(lab, folder):
    """What every device hears, a file each."""
    for name in lab.devices:
        (folder / f"{name}.json").write_text(lab.neighbours(name))
    return folder


def kinds(folder, one):
    return [finding.kind for finding in audit_plan(lldp.read(folder), one).findings]
