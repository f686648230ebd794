"""Files that a plan wrote in the real FRR; a swapped cable that BGP calls healthy, found through the real lldpd."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

import pytest

from railyard.ask.audit.audit import audit_plan
from railyard.ask.deploy.cabling import drawn
from railyard.ask.deploy.emit.intent import BFD_MS, BFD_MULTIPLIER, HOLD_S, KEEPALIVE_S, switches
from railyard.ask.deploy.system import systems
from railyard.ask.deploy.systems import frr
from railyard.cluster.asbuilt import lldp
from railyard.cluster.asbuilt.reported.reports import gather
from railyard.cluster.network_table import DIALECTS
from railyard.face.terminal import emit
from railyard.face.verbs import deploy as cli

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
    return [(*near, *far) for near, far in found.named_ends]


def test_what_was_written_routes_and_a_swapped_cable_is_found(tmp_path):
    one = scenario()
    plan = planned(one)
    cables = wires(plan)
    between = [at for at, cable in enumerate(cables) if cable[0].startswith("be-")]
    first = between[0]
    second = next(at for at in between if cables[at][0] != cables[first][0] and cables[at][2] != cables[first][2])
    intents = {intent.name: intent for intent in switches(plan, 0, DIALECTS["frr"])}
    with Lab() as lab:
        lab.open(cables, {name: frr.render(intent) for name, intent in intents.items()})
        healthy(lab, intents)
        for name, intent in intents.items():  # what runs is what was meant, in FRR's own words
            runs = lab.inside(name, "vtysh", "-N", lab.space(name), "-c", "show running-config")
            assert not systems.get("frr").differences(intent, runs)
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


def wider():
    """Four leafs of four servers with a NIC each, four spines; tensor parallelism waits for the network."""
    return draft(16, "leaf-spine", "roce", {"ports_per_leaf": 4, "spines": 4}, 4, server="gh200-node")


def exchanged(cables):
    """Two cables between leafs and spines with their upper ends exchanged; their numbers."""
    first = next(at for at, cable in enumerate(cables) if cable[0].startswith("be-"))
    a, p, b, q = cables[first]
    second = next(
        at for at, cable in enumerate(cables) if cable[0].startswith("be-") and cable[0] != a and cable[2] != b
    )
    c, r, d, t = cables[second]
    cables[first], cables[second] = (a, p, d, t), (c, r, b, q)
    return first, second


def bgp(lab, folder, names):
    """What every switch says of its sessions and routes."""
    for name in names:
        for what, question in (("bgp", "show bgp summary json"), ("routes", "show ip route json")):
            (folder / f"{name}.{what}.json").write_text(
                lab.inside(name, "vtysh", "-N", lab.space(name), "-c", question)
            )
    return folder


def test_two_swapped_cables_in_a_live_lab_and_the_work_list(tmp_path, capsys):
    """BGP is healthy and its paths are as wide as the cables allow; LLDP names the swap, and its step is priced.

    Then a daemon stops, and a switch takes fewer paths than it has: BGP's own words name both.
    """
    one = wider()
    plan = planned(one)
    cables = wires(plan)
    at = exchanged(cables)
    intents = {intent.name: intent for intent in switches(plan, 0, DIALECTS["frr"])}
    names = list(intents)
    for folder in ("seen", "healthy", "broken"):
        (tmp_path / folder).mkdir()
    with Lab() as lab:
        lab.open(cables, {name: frr.render(intent) for name, intent in intents.items()})
        for device in lab.devices:
            lab.announce(device)
        healthy(lab, intents)
        seen = tmp_path / "seen"
        until(lambda: kinds(listen(lab, seen), one) == ["swapped"], every=6.0)
        said = gather([bgp(lab, tmp_path / "healthy", names)], names)
        assert {session.state for session in said.sessions} == {"Established"}
        swap = audit_plan(lldp.read(seen), one, said)
        leaf, spine = (next(name for name in names if kind in name) for kind in ("leaf2", "spine3"))
        few = words("configure terminal", f"router bgp {intents[leaf].asn}", "address-family ipv4", "maximum-paths 2")
        lab.inside(leaf, "vtysh", "-N", lab.space(leaf), *few)
        port = next(session.port for session in intents[spine].sessions if session.neighbour.endswith("leaf3"))
        close = words("configure terminal", f"router bgp {intents[spine].asn}", f"neighbor {port} shutdown")
        lab.inside(spine, "vtysh", "-N", lab.space(spine), *close)
        until(lambda: max(_widths(lab, leaf).values(), default=9) == 2)
        both = audit_plan(lldp.read(seen), one, gather([bgp(lab, tmp_path / "broken", names)], names))
    assert [finding.kind for finding in swap.findings] == ["swapped"]
    (finding,) = swap.findings
    ends = {frozenset(f"{d}[{p}]" for d, p in (c[:2], c[2:])) for c in (cables[n] for n in at)}
    assert {frozenset((finding.a, finding.b)), frozenset(finding.other)} == ends
    assert 0 < finding.loss < 1
    assert finding.usd_per_month > 0
    assert sorted({f.kind for f in both.findings}) == ["ecmp", "session-down", "swapped"]
    assert {f.a.partition("[")[0] for f in both.findings if f.kind == "ecmp"} == {leaf}
    (closed,) = (f for f in both.findings if f.kind == "session-down")
    assert f"{spine}[{port}]" in (closed.a, closed.b)
    assert both.design["usd_per_month"] >= finding.usd_per_month
    with capsys.disabled():
        emit("")
        cli._work(both, details=True)


def words(*commands):
    return [word for command in commands for word in ("-c", command)]


CONVERGENCE = {
    "a cable is pulled": (0.0, 1.0),
    "a cable loses what it carries": (BFD_MS * (BFD_MULTIPLIER - 1) / 1e3, 1.0 + BFD_MS * BFD_MULTIPLIER / 1e3),
    "a spine's BGP dies": (0.0, 1.0),
    "a spine's BGP hangs": (HOLD_S - KEEPALIVE_S, HOLD_S + 1.0),
}
"""Seconds until the rest of the network has other routes. Where light or the connection goes it is what the fabric
`roce` takes, 10 ms to 1 s (RFC 7938, section 7); where nothing is heard it is BFD's, or BGP's hold time, and that."""


def test_convergence_is_as_predicted(capsys):
    one = wider()
    plan = planned(one)
    cables = wires(plan)
    intents = {intent.name: intent for intent in switches(plan, 0, DIALECTS["frr"])}
    leaf, spine, far = (next(name for name in intents if kind in name) for kind in ("leaf0", "spine0", "leaf3"))
    up = next(session.port for session in intents[leaf].sessions if session.neighbour == spine)
    down = next(session.port for session in intents[spine].sessions if session.neighbour == leaf)
    target = f"{intents[leaf].loopback}/32"
    events = {
        "a cable is pulled": lambda lab: lab.inside(leaf, "ip", "link", "set", up, "down"),
        "a cable loses what it carries": lambda lab: (lab.silence(leaf, up), lab.silence(spine, down)),
        "a spine's BGP dies": lambda lab: lab.kill(spine, "bgpd", "-KILL"),
        "a spine's BGP hangs": lambda lab: lab.kill(spine, "bgpd", "-STOP"),
    }
    measured = {}
    for name, happens in events.items():
        with Lab() as lab:
            lab.open(cables, {name: frr.render(intent) for name, intent in intents.items()})
            healthy(lab, intents)
            until(lambda lab=lab: _widths(lab, far).get(target) == 4)
            until(lambda lab=lab: _bfd_up(lab, spine) == len(intents[spine].sessions))
            log = lab.watch(far)
            begun = time.time()
            happens(lab)
            until(lambda lab=lab: _widths(lab, far).get(target) == 3)
            time.sleep(0.5)
            measured[name] = last_change(log, begun)
    with capsys.disabled():
        emit("")
        for name, seconds in measured.items():
            low, high = CONVERGENCE[name]
            emit(f"{name:32} predicted {low:.2g} to {high:.2g} s, measured {seconds:.3f} s")
    for name, seconds in measured.items():
        low, high = CONVERGENCE[name]
        assert low / 3 <= seconds <= high * 3, name


def last_change(log, begun):
    """Seconds from a moment to the last route that changed."""
    stamps = re.findall(r"\[(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+)\]", log.read_text())
    times = [datetime.fromisoformat(stamp).replace(tzinfo=UTC).timestamp() for stamp in stamps]
    return max(one for one in times if one >= begun) - begun


def _bfd_up(lab, name):
    return sum(peer.get("status") == "up" for peer in lab.ask(name, "show bfd peers json"))


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
