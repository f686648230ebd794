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


def keys(text):
    written = ibnetdiscover.read(text, "written")
    return dict(zip(written.label, written.key, strict=True))


def wires(discovery):
    return {
        (frozenset(ends), rate) for ends, rate in zip(discovery.named_ends, discovery.rate_bps.tolist(), strict=True)
    }


def test_cables_that_are_pulled_live_are_named(tmp_path):
    found = plan_of(512)
    text = netlist(found)
    address = keys(text)
    dice = random.Random(4)
    pulled = dice.sample(found.between.tolist(), 6)
    near = [found.named_ends[cable][0] for cable in pulled]
    with Fabric(tmp_path, text) as fabric:
        fabric.manage()
        fabric.console(*(f'Unlink "{address[name]}"[{port}]' for name, port in near))
        seen = ibnetdiscover.read(fabric.run("ibnetdiscover"), "seen")
    want = {frozenset(found.both_ends(cable)) for cable in pulled}
    for checked in (audit_plan(seen, scenario(512)), audit(seen)):
        assert {frozenset((one.a, one.b)) for one in checked.findings} == want
        assert {one.kind for one in checked.findings} == {"missing"}
    assert len(set(found.label)) == len(found.label)


def test_counters_that_the_real_tools_read_name_the_cable(tmp_path):
    """Symbol errors, lost packets, flaps; a port below the thresholds is not named."""
    found = plan_of(16)
    text = netlist(found)
    key = keys(text)
    one, other, quiet = found.between.tolist()[:3]

    def port(cable):
        name, number = found.named_ends[cable][0]
        return f'"{key[name]}"[{number}]'

    with Fabric(tmp_path, text) as fabric:
        fabric.serve()
        for name, value in (("SymbolErrorCounter", 1234), ("PortRcvErrors", 500), ("PortRcvPkts", 99500)):
            fabric.console(f"PerformanceSet {port(one)} PortCounters.{name}={value}")
        fabric.console(f"PerformanceSet {port(other)} PortCounters.LinkDownedCounter=3")
        fabric.console(f"PerformanceSet {port(quiet)} PortCounters.SymbolErrorCounter=10")
        seen = ibnetdiscover.read(fabric.run("ibnetdiscover"), "seen")
        lid = {where[0]: name for name, where in seen.addresses.items() if name.startswith("lid")}
        (tmp_path / "with").mkdir()
        for at, cable in enumerate((one, other, quiet)):
            name, number = found.named_ends[cable][0]
            where = lid[seen.number(name)].removeprefix("lid ")
            (tmp_path / "with" / f"perfquery{at}").write_text(fabric.run("perfquery", where, number))
        (tmp_path / "errors").write_text(fabric.run("ibqueryerrors", codes=(0, 1)))
    said = gather([tmp_path / "with"], [])
    assert not said.problems
    for checked in (audit(seen, said), audit_plan(seen, scenario(16), said)):
        kinds = {(f.kind, f.a, f.b) for f in checked.findings}
        assert kinds == {(kind, *found.both_ends(cable)) for kind, cable in (("errors", one), ("flapping", other))}
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
        assert sorted(count.tolist()) == sorted(counts[device].tolist()), seen.label[device]
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
    (name, port), (far, _) = found.named_ends[found.between[0]]
    with Fabric(tmp_path, text) as fabric:
        fabric.manage()
        before = gather([tmp_path / "opensm-lfts.dump"], [])
        fabric.console(f'Unlink "{keys(text)[name]}"[{port}]')
        seen = ibnetdiscover.read(fabric.run("ibnetdiscover"), "seen")
        old = audit(seen, before)
        fabric.manage()
        new = audit(seen, gather([tmp_path / "opensm-lfts.dump"], []))
    stuck = [f for f in old.findings if f.kind == "no-route"]
    assert {f.a for f in stuck} == {name, far}
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
    leafs, spines = (sorted(name for name in found.name if word in name) for word in ("leaf", "spine"))
    cables = np.zeros((len(leafs), len(spines)), np.int64)
    low_of = []
    for a, b in ((found.name[a], found.name[b]) for a, b in found.ends.tolist()):
        if a in leafs:
            cables[leafs.index(a), spines.index(b)] += 1
        else:
            low_of.append(leafs.index(b))
    tables = Tables(np.array(low_of), np.arange(len(low_of)), cables, spare=0)
    for row, leaf in enumerate(leafs):
        mine = sorted(tables.up_count[row][tables.up_count[row] > 0].tolist())
        theirs = Counter(port for destination, port in dumped[leaf].items() if destination in lids)
        hosts = {int(port) for _, (name, port) in found.named_ends if name == leaf}
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
    key = keys(text)
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
