"""Plans in a simulated fabric: the real OpenSM routes it, the real ibnetdiscover finds it, the audit compares it."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from railyard.ask.accept import results
from railyard.ask.accept.folder import FABRIC
from railyard.ask.accept.judge import judged
from railyard.ask.accept.planned import between_switches, cables, labelled
from railyard.ask.accept.results import Results
from railyard.ask.accept.tests import COUNTERS
from railyard.ask.audit.audit import audit, audit_plan
from railyard.ask.audit.forwarding import dumped, min_hop
from railyard.ask.audit.symptom import Tables
from railyard.ask.deploy.cabling import dialects, drawn
from railyard.ask.deploy.emit.labs import netlist
from railyard.cluster.asbuilt import ibnetdiscover
from railyard.cluster.asbuilt.reported.reports import gather

from .ibsim import WHY, Fabric
from .scenarios import draft, planned

pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)
SIZES = (16, 512, 2048)


def scenario(ports):
    """ibsim 0.10 knows no generation after HDR; the smallest has four leafs of four ports and two spines."""
    parts = {"ports_per_leaf": 4, "spines": 2} if ports == SIZES[0] else {}
    return draft(ports, parts=parts, server="dgx-a100")


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


def end_name(found, device, port):
    return f"{found.devices[device].described}[{port}]"


def test_counters_that_the_real_tools_read_name_the_cable(tmp_path):
    """Symbol errors, lost packets, flaps; a port below the thresholds is not named."""
    found = plan_of(16)
    text = netlist(found)
    key = {device.described: device.key for device in ibnetdiscover.read(text, "written").devices}
    one, other, quiet = [c for c in found.cables if found.devices[c.a].kind == "switch"][:3]

    def port(cable):
        return f'"{key[found.devices[cable.a].described]}"[{cable.a_port}]'

    with Fabric(tmp_path, text) as fabric:
        fabric.serve()
        for name, value in (("SymbolErrorCounter", 1234), ("PortRcvErrors", 500), ("PortRcvPkts", 99500)):
            fabric.console(f"PerformanceSet {port(one)} PortCounters.{name}={value}")
        fabric.console(f"PerformanceSet {port(other)} PortCounters.LinkDownedCounter=3")
        fabric.console(f"PerformanceSet {port(quiet)} PortCounters.SymbolErrorCounter=10")
        seen = ibnetdiscover.read(fabric.run("ibnetdiscover"), "seen")
        lid = {where[0]: name for name, where in seen.addresses.items() if name.startswith("lid")}
        number = {device.described: at for at, device in enumerate(seen.devices)}
        (tmp_path / "with").mkdir()
        for at, cable in enumerate((one, other, quiet)):
            where = lid[number[found.devices[cable.a].described]].removeprefix("lid ")
            (tmp_path / "with" / f"perfquery{at}").write_text(fabric.run("perfquery", where, cable.a_port))
        (tmp_path / "errors").write_text(fabric.run("ibqueryerrors", codes=(0, 1)))
    said = gather([tmp_path / "with"], [])
    assert not said.problems
    for checked in (audit(seen, said), audit_plan(seen, scenario(16), said)):
        kinds = {(f.kind, f.a, f.b) for f in checked.findings}
        assert kinds == {
            (kind, end_name(found, c.a, c.a_port), end_name(found, c.b, c.b_port))
            for kind, c in (("errors", one), ("flapping", other))
        }
        (lossy,) = (f for f in checked.findings if f.kind == "errors")
        assert "SymbolErrorCounter 1,234" in lossy.detail
        assert lossy.usd_per_month > 0
    errors = audit(seen, gather([tmp_path / "errors"], []))  # its packets are not counted: no price
    assert {(f.kind, f.a) for f in errors.findings} == {(kind, a) for kind, a, _ in kinds}
    assert {f.usd_per_month for f in errors.findings} == {0}


@pytest.mark.parametrize("engine", ["minhop", "updn", "ftree"])
def test_tables_of_opensm_are_imported_and_predicted(tmp_path, engine):
    """Destinations of each port, who is reached, and loads of shifts, as OpenSM's tables have them and as ours do."""
    found = plan_of(512)
    with Fabric(tmp_path, netlist(found)) as fabric:
        fabric.manage(engine)
        seen = ibnetdiscover.read(fabric.run("ibnetdiscover"), "seen")
    said = gather([tmp_path / "opensm-lfts.dump"], [])
    theirs, ours = dumped(seen, said.forwarding), min_hop(seen)
    assert theirs.reached.all()
    assert ours.reached.all()
    counts = ours.destinations()
    for device, count in theirs.destinations().items():
        assert sorted(count.tolist()) == sorted(counts[device].tolist()), seen.devices[device].described
    checked = audit(seen, said)
    assert not checked.findings
    assert checked.design["forwarding"]["worst_shift_load"] == [1, 1]
    assert checked.design["forwarding"]["worst_shift_load_min_hop"] == [1, 1]


@pytest.mark.parametrize(("engine", "loads"), [("minhop", [1, 4]), ("updn", [1, 4]), ("ftree", [1, 1])])
def test_over_three_tiers_min_hop_loads_cables_four_times_and_ftree_once(tmp_path, engine, loads):
    """Eight leafs, eight spines, four cores: what is balanced by count is not by shifts, as predicted."""
    plan = planned(draft(512, "three-tier", server="dgx-a100"))
    with Fabric(tmp_path, netlist(drawn(plan, 0, dialects(plan, 0)[0]))) as fabric:
        fabric.manage(engine)
        seen = ibnetdiscover.read(fabric.run("ibnetdiscover"), "seen")
    checked = audit(seen, gather([tmp_path / "opensm-lfts.dump"], []))
    assert not checked.findings
    figures = checked.design["forwarding"]
    assert figures["worst_shift_load"] == loads
    assert figures["worst_shift_load_min_hop"] == [1, 4]
    assert figures["slower_than_min_hop"] == (pytest.approx(0.4, abs=0.01) if engine == "ftree" else 1)


def test_tables_that_are_older_than_the_cables_lead_nowhere(tmp_path):
    """A cable goes and OpenSM does not sweep: the switch whose table leads into the empty port is named."""
    found = plan_of(16)
    text = netlist(found)
    cable = next(c for c in found.cables if found.devices[c.a].kind == "switch")
    key = {device.described: device.key for device in ibnetdiscover.read(text, "written").devices}
    name = found.devices[cable.a].described
    with Fabric(tmp_path, text) as fabric:
        fabric.manage()
        before = gather([tmp_path / "opensm-lfts.dump"], [])
        fabric.console(f'Unlink "{key[name]}"[{cable.a_port}]')
        seen = ibnetdiscover.read(fabric.run("ibnetdiscover"), "seen")
        old = audit(seen, before)
        fabric.manage()
        new = audit(seen, gather([tmp_path / "opensm-lfts.dump"], []))
    stuck = [f for f in old.findings if f.kind == "no-route"]
    assert {f.a for f in stuck} == {name, found.devices[cable.b].described}
    assert all("a port without a cable" in f.detail for f in stuck)
    assert old.design["forwarding"]["pairs_reached"] < 1
    assert [f.kind for f in new.findings] == ["missing"]
    assert new.design["forwarding"]["pairs_reached"] == 1
    assert new.design["forwarding"]["worst_shift_load"] == new.design["forwarding"]["worst_shift_load_min_hop"]


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


def test_symbol_errors_between_switches_are_judged_by_what_the_real_tool_prints(tmp_path):
    """200 Gb/s for a minute allow 12 errors: 10, which the tool's thresholds hide, pass, and 25 show 17 at least."""
    plan = planned(scenario(16))
    labels = labelled(plan)
    tests = [*cables(plan, labels), *between_switches(plan, labels, "sonic")]
    bad, good = [one for one in tests if one.method == COUNTERS][:2]
    text = netlist(plan_of(16))
    key = {device.described: device.key for device in ibnetdiscover.read(text, "written").devices}
    with Fabric(tmp_path, text) as fabric:
        fabric.serve()
        before = fabric.run(*FABRIC.split(), codes=(0, 1))
        for one, count in ((bad, 25), (good, 10)):
            where, _, port = one.parts[1].rpartition(":")
            fabric.console(f'PerformanceSet "{key[where]}"[{port}] PortCounters.SymbolErrorCounter={count}')
        after = fabric.run(*FABRIC.split(), codes=(0, 1))
    found = Results()
    results.read(f"# seconds 0\n{before}# seconds 60\n{after}", "f", "counters-fabric", results.ends_of(tests), found)
    assert found.values[good.name, 0] == [pytest.approx(5.4254 / (60 * 200e9), rel=1e-3)]
    verdicts = {one.test.name: one.verdict for one in judged(tests, found, {}) if one.test.method == COUNTERS}
    assert {name for name, verdict in verdicts.items() if verdict != "passed"} == {bad.name}
    assert verdicts[bad.name] == "failed"
