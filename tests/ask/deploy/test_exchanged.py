"""Exchanged cables of hosts, absent switches and hosts, shared identities: each for what it is, with what it costs."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from railyard.ask.audit import evidence
from railyard.ask.audit.absent import NameSeries, every_port, grid_gap
from railyard.ask.audit.against import compare
from railyard.ask.audit.audit import AuditSources, audit, audit_documented, audit_found, audit_plan
from railyard.ask.audit.price import StepPricing, Wrong, recabled
from railyard.ask.audit.symptom import Tables
from railyard.ask.deploy.cabling import drawn
from railyard.cluster.asbuilt import ibnetdiscover, lldp
from railyard.cluster.asbuilt.reported.reports import HostPart, Reports
from railyard.cluster.network_table import DIALECTS, Twins, hardware_address
from railyard.graph import Job
from railyard.work.scenario import load
from railyard.work.study.study import prepare

from .fabrics import leaf_spine, three_tier
from .scenarios import draft, planned
from .test_cables import lldpd, write

RAILS = draft(256, "rail-optimized", "infiniband", tp=8)


def number_of(discovery, host, leaf=None):
    label = discovery.label
    cables = enumerate(discovery.ends.tolist())
    return next(n for n, (a, b) in cables if label[a] == host and leaf in (None, label[b]))


def kinds(found):
    return [one.kind for one in found.findings]


@pytest.fixture(scope="module")
def rails():
    return drawn(planned(RAILS), 0, DIALECTS["infiniband"])


@pytest.mark.parametrize("count", [2, 3])
def test_hosts_exchanged_on_one_leaf_cost_nothing(rails, count):
    numbers = [number_of(rails, f"node{at:02d} mlx5_4") for at in range(3, 3 + count)]
    (finding,) = audit_plan(rails.exchanged(numbers), RAILS).findings
    assert (finding.kind, finding.loss, finding.usd_per_month) == ("swapped", 0.0, 0.0)
    assert "all are in be-leaf4: no path changes" in finding.detail


def test_exchanged_rails_cost_what_the_engine_says_of_them(rails):
    """By hand: the two ranks with each other's port, and nothing else."""
    one = draft(256, "rail-optimized", "infiniband", tp=1)
    discovery = drawn(planned(one), 0, DIALECTS["infiniband"])
    numbers = [number_of(discovery, f"node07 mlx5_{rail}") for rail in (2, 5)]
    (finding,) = audit_plan(discovery.exchanged(numbers), one).findings
    job = prepare(one)[0]
    cluster = job.cluster
    ports = cluster.back_end.port_of_rank.copy()
    ports[[7 * 8 + 2, 7 * 8 + 5]] = ports[[7 * 8 + 5, 7 * 8 + 2]]
    by_hand = replace(cluster, back_end=replace(cluster.back_end, port_of_rank=ports))
    graph = [Job(job.graphs.of(job.training, cluster))]
    took = job.engine.simulate(graph, by_hand, seed=job.seeds[0], policy=job.policy).makespan_ps
    assert finding.kind == "swapped"
    assert finding.step_s == pytest.approx(took * 1e-12, rel=1e-9)
    assert 0 <= finding.loss < 0.5 * 8 / 256


ROUTED = draft(256, "leaf-spine", "roce", tp=8)


@pytest.fixture(scope="module")
def routed():
    return drawn(planned(ROUTED), 0, DIALECTS["sonic"])


def turned(found, devices):
    """The same file with the ends of the cables of some devices the other way round."""
    rows = [row for row, (near, _) in enumerate(found.named_ends) if near[0] in devices]
    return found.edited(
        **{column: {row: getattr(found, column)[row][::-1] for row in rows} for column in ("ends", "ports", "mtu")}
    )


def repaired(found, detail):
    """The network after what a finding says: plugs change ports, or each goes where the words send it."""
    named = re.findall(r"[\w-]+\[\w+\]", detail.split(";")[0])
    pairs = (
        [named, named[::-1]]
        if detail.startswith("swap the plugs in")
        else [named[at : at + 2] for at in range(0, len(named), 2)]
    )
    ends, ports = found.ends.copy(), [list(pair) for pair in found.ports]
    place = {end: (row, side) for row in range(len(found.ports)) for side, end in enumerate(found.both_ends(row))}
    for plug, port in pairs:
        row, side = place[plug]
        device, _, name = port.partition("[")
        ends[row, side], ports[row][side] = found.label.index(device), name[:-1]
    return replace(found, ends=ends, ports=[tuple(pair) for pair in ports])


SWAPS = {
    "one leaf, one server": [("node00", "be0"), ("node00", "be1")],
    "one leaf": [("node00", "be0"), ("node03", "be4")],
    "two leafs": [("node00", "be0"), ("node12", "be4")],
    "three leafs": [("node00", "be0"), ("node12", "be4"), ("node25", "be1")],
    "one spine": [("be-leaf0", "Ethernet256"), ("be-leaf1", "Ethernet256")],
    "two spines": [("be-leaf0", "Ethernet256"), ("be-leaf1", "Ethernet500")],
}


@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize(
    "order", [(), ("node00", "be-leaf0"), ("node12", "be-leaf1"), ("node00", "node12", "be-leaf1")]
)
def test_the_repair_that_is_printed_leaves_no_fault(routed, swap, order):
    """Files list the ends of a cable in any order: NetBox by site, LLDP by who reports first."""
    near = [ends[0] for ends in routed.named_ends]
    built = turned(routed.exchanged([near.index(end) for end in SWAPS[swap]]), order)
    (difference,) = compare(routed, built, ())
    assert difference.finding.kind == "swapped"
    assert not compare(routed, repaired(built, difference.finding.detail))


@pytest.mark.parametrize(("swap", "nics"), [("one leaf", 2), ("two leafs", 2), ("three leafs", 3)])
def test_ports_with_addresses_of_their_own_lose_their_gateways_in_a_swap(routed, swap, nics):
    """Each cable is a /31: every server with one of these NICs is out, 8 accelerators of 256."""
    near = [ends[0] for ends in routed.named_ends]
    (finding,) = audit_plan(routed.exchanged([near.index(end) for end in SWAPS[swap]]), ROUTED).findings
    assert finding.loss == pytest.approx(nics * 8 / 256)
    assert "no gateway answers node00[be0] and node" in finding.detail


def test_a_slower_cable_in_the_place_of_another_is_as_slow_as_it_is(rails):
    numbers = [number_of(rails, f"node{at:02d} mlx5_4") for at in (3, 9)]
    built = rails.exchanged(numbers).edited(rate_bps={numbers[0]: rails.rate_bps[numbers[0]] // 4})
    (finding,) = audit_plan(built, RAILS).findings
    assert finding.kind == "swapped"
    assert finding.loss > 0.001


def test_ports_are_exchanged_and_links_are_not():
    job = prepare(RAILS)[0]
    ports = {3: 11, 11: 3}
    cabled = recabled(job.cluster, ports)
    before, after = job.cluster.back_end.port_of_rank.ravel(), cabled.back_end.port_of_rank.ravel()
    changed = np.flatnonzero(before != after)
    assert sorted(zip(before[changed].tolist(), after[changed].tolist(), strict=True)) == [(3, 11), (11, 3)]
    assert cabled.links is job.cluster.links
    assert StepPricing(job).cost(Wrong(np.empty(0, np.int64), {}, {})).loss == 0


def test_rails_that_nothing_joins_hang_the_job():
    one = draft(64, "rail-only", "infiniband", tp=8)
    discovery = drawn(planned(one), 0, DIALECTS["infiniband"])
    numbers = [number_of(discovery, f"node2 mlx5_{rail}") for rail in (1, 6)]
    (finding,) = audit_plan(discovery.exchanged(numbers), one).findings
    assert (finding.loss, finding.step_s) == (1.0, None)
    assert "the job hangs" in finding.detail


def test_a_destination_that_moves_is_the_only_one_that_is_set_anew():
    """Two leafs of two hosts, two spines: one host moves to leaf 1, and counts are again those of all."""
    tables = Tables(np.array([0, 0, 1, 1]), np.arange(4), np.ones((2, 2), np.int64))
    moved = tables.moved([(1, 1)])
    assert moved.low_of.tolist() == [0, 1, 1, 1]
    assert tables.low_of.tolist() == [0, 0, 1, 1]
    others = [0, 2, 3]
    assert (moved.up[others] == tables.up[others]).all()
    assert moved.up_count.sum(axis=1).tolist() == [3, 1]
    assert moved.down_count.sum() == 8
    assert moved.load(1)[0] >= tables.load(1)[0]


@pytest.mark.parametrize("fabric", ["infiniband", "roce"])
@pytest.mark.parametrize("gone", ["spine", "leaf"])
def test_a_planned_switch_of_which_nothing_is_found_is_one_finding(fabric, gone):
    one = draft(512, "rail-optimized", fabric, tp=8)
    plan = planned(one)
    dialect = DIALECTS["infiniband" if fabric == "infiniband" else "sonic"]
    discovery = drawn(plan, 0, dialect)
    name = sorted(name for name in discovery.label if gone in name)[1]
    number = discovery.number(name)
    pulled = discovery.cables_of[number].values()
    (finding,) = audit_plan(discovery.without(pulled), one).findings
    assert (finding.kind, finding.a) == ("missing-switch", name)
    assert finding.usd_per_month > 0
    if gone == "leaf":
        hosts = discovery.hosts_of[number]
        assert finding.loss == pytest.approx(8 * hosts / 512)  # a server without one of its NICs does not take part


def test_absent_parts_cost_their_share_of_capital_and_operations():
    """A spine and 64 cables with their modules, of all that was bought, by hand from the bill."""
    one = draft(512, "rail-optimized", "infiniband", tp=8)
    pricing = StepPricing(prepare(one)[0])
    rows = {(row.kind, row.tier): row for row in pricing._parts if row.network == "back-end"}
    spines, cables = rows["switch", "spine"], [row for (_, tier), row in rows.items() if tier == "leaf-spine"]
    usd = spines.price_usd.typical + sum(row.price_usd.typical * row.count for row in cables) / 8
    bought = sum(row.price_usd.typical * row.count for row in pricing._parts)
    share = pricing.parts_usd("back-end", {"spine": 1, "leaf-spine": 64}) / pricing.usd_per_month
    assert spines.count == 8
    assert 0.5 * usd / bought < share < usd / bought  # energy and space are no part of it


def test_a_planned_host_of_which_nothing_is_found_is_one_finding(rails):
    (finding,) = audit_plan(rails.without(rails.cables_of_host("node05")), RAILS).findings
    assert (finding.kind, finding.a) == ("missing-host", "node05")
    assert finding.loss == pytest.approx(8 / 256)


def pull(cables, *names):
    return [[] if cable and {cable[0], cable[2]} & {*names} else cable for cable in cables]


def of(text):
    found = ibnetdiscover.read(text, "drawn")
    assert not found.problems
    return audit(found)


@pytest.mark.parametrize("spine", range(8))
def test_a_spine_that_every_leaf_has_a_port_free_for_is_absent(spine):
    net = leaf_spine(8, 8, 16, 2)
    assert not of(net.text()).findings
    net.cables = pull(net.cables, f"spine{spine}")
    (finding,) = of(net.text()).findings
    assert (finding.kind, finding.a) == ("missing-switch", f"spine{spine}")
    assert finding.usd_per_month > 0


def test_free_ports_that_were_meant_to_be_free_are_no_switch():
    """Leafs of 20 hosts, 12 ports free after them, and 16 uplinks; spines with half of their ports free."""
    net = leaf_spine(8, 4, 20, 4)
    for cable in net.cables:
        if cable[0].startswith("leaf"):
            cable[1] += 12
    net.used |= {name: 64 for name in net.kinds if "node" not in name}
    assert not of(net.text()).findings


@pytest.mark.parametrize("gone", ["leaf5", "leaf0"])
def test_a_leaf_that_all_spines_have_ports_free_for_takes_its_hosts_with_it(gone):
    net = leaf_spine(8, 4, 12, 1, rails=4)
    net.cables = pull(net.cables, gone)
    (finding,) = of(net.text()).findings
    assert (finding.kind, finding.a) == ("missing-switch", gone)
    assert "12 hosts have no cable to it" in finding.detail
    assert finding.loss == pytest.approx(12 / (7 * 12), rel=0.2)


def test_a_spine_of_a_pod_is_one_finding_though_two_tiers_tell_of_it():
    net = three_tier(3, 4, 4, 4, hosts=4)
    net.cables = pull(net.cables, "spine1-2")
    (finding,) = of(net.text()).findings
    assert (finding.kind, finding.a) == ("missing-switch", "spine1-2")


def test_hosts_with_seven_of_eight_cables_are_seen_by_lldp_too(tmp_path):
    """Hosts of eight ports on one leaf each, as leaf-spine has them."""
    names = DIALECTS["frr"]
    wires = [
        (f"node{n}", f"be{r}", f"leaf{n // 4}", names.port(1 + 8 * (n % 4) + r)) for n in range(16) for r in range(8)
    ]
    wires += [
        (f"leaf{leaf}", names.port(33 + 8 * spine + k), f"spine{spine}", names.port(1 + 8 * leaf + k))
        for leaf in range(4)
        for spine in range(2)
        for k in range(8)
    ]
    gone = wires.pop(5 * 8 + 3)
    for device in ("leaf0", "leaf1", "leaf2", "leaf3", "spine0", "spine1"):
        rows = [(p, b, q) for a, p, b, q in wires if a == device] + [(q, a, p) for a, p, b, q in wires if b == device]
        (tmp_path / f"{device}.json").write_text(__import__("json").dumps(lldpd(rows)))
    (finding,) = audit(lldp.read(tmp_path)).findings
    assert (finding.kind, finding.a, finding.b) == ("missing", f"{gone[0]}[{gone[1]}]", f"{gone[2]}[{gone[3]}]")
    assert finding.loss == pytest.approx(1 - 1 / (1 + 0.2 / 7))


def twice(text, one, other):
    """An `ibnetdiscover` in which a host's adapter has the GUID of another's."""
    heads = [line.split('"') for line in text.splitlines() if line.startswith("Ca")]
    keys = {head[3]: head[1] for head in heads}
    return text.replace(f'"{keys[other]}"', f'"{keys[one]}"')


def test_two_adapters_with_one_guid_are_told_apart_and_named():
    text = leaf_spine(8, 4, 12, 1, rails=4).text()
    found = ibnetdiscover.read(twice(text, "node0003 mlx5_1", "node0017 mlx5_2"), "twice")
    assert not found.problems
    assert [found.label[n] for n in found.twins[0].devices] == ["node0003 mlx5_1", "node0017 mlx5_2"]
    assert len(found.ports) == len(ibnetdiscover.read(text, "once").ports)
    (finding,) = audit(found).findings
    assert (finding.kind, finding.a, finding.b) == ("duplicate-guid", "node0003 mlx5_1[1]", "node0017 mlx5_2[1]")
    assert "move" not in finding.detail
    assert finding.idle == 1


def test_an_adapter_that_two_switches_have_is_two_though_one_describes_itself():
    """The second is described by nothing but the words of the leaf at its end."""
    text = twice(leaf_spine(8, 4, 12, 1, rails=4).text(), "node0003 mlx5_1", "node0017 mlx5_2")
    blocks = text.split("\n\n")
    text = "\n\n".join(
        block for block in blocks if not ("node0017 mlx5_2" in block and block.lstrip().startswith("Ca"))
    )
    (finding,) = of(text).findings
    assert (finding.kind, finding.b) == ("duplicate-guid", "node0017 mlx5_2[1]")


def test_a_guid_of_its_own_is_no_reason_to_move_a_plug_of_a_plan(rails):
    pair = tuple(n for n, label in enumerate(rails.label) if label in ("node02 mlx5_3", "node11 mlx5_0"))
    found = audit_plan(replace(rails, twins=(Twins("GUID", "b83f", pair),)), RAILS)
    (finding,) = found.findings
    assert finding.kind == "duplicate-guid"
    assert finding.loss == pytest.approx(8 / 256)  # one of the two servers is not reached on one rail


def test_hosts_of_one_name_and_of_one_address_by_lldp(tmp_path):
    names = DIALECTS["eos"]
    wires = [(f"host{n}", "eth0", f"leaf{n // 4}", names.port(1 + n % 4)) for n in range(16)]
    wires[9] = ("host2", *wires[9][1:])
    wires += [(f"leaf{a}", names.port(9 + s), f"spine{s}", names.port(1 + a)) for a in range(4) for s in range(2)]
    write(tmp_path, wires, lldpd)
    found = lldp.read(tmp_path)
    (twins,) = found.twins
    assert (twins.what, [found.name[n] for n in twins.devices]) == ("name", ["host2", "host2 #2"])
    (finding,) = (one for one in audit(found).findings if one.kind == "duplicate-name")
    assert finding.usd_per_month == 0


def test_one_address_of_parts_of_two_hosts_is_named_and_bonds_are_not():
    found = ibnetdiscover.read(leaf_spine(4, 2, 4, 1, rails=2).text(), "drawn")
    parts = [("node0000", "mlx5_0", "0xb83fd2030000a1b2"), ("node0003", "mlx5_1", "b83f:d203:0000:a1b2"),
             ("node0001", "eth0", "b8:3f:d2:00:00:01"), ("node0001", "bond0", "b8:3f:d2:00:00:01"),
             ("node0002", "docker0", "02:42:ac:11:00:01"), ("node0001", "docker0", "02:42:ac:11:00:01")]  # fmt: skip
    reports = Reports(parts=[HostPart(host, "nic", name, address=hardware_address(text)) for host, name, text in parts])
    (symptom,) = evidence.identity_symptoms(found, reports)
    assert (symptom.finding.kind, symptom.finding.a, symptom.finding.b) == (
        "duplicate-guid", "node0000 mlx5_0", "node0003 mlx5_1",
    )  # fmt: skip
    assert len(symptom.cables) == 1


def test_papers_do_not_make_a_swap_on_a_leaf_dear(rails):
    numbers = [number_of(rails, f"node{at:02d} mlx5_1") for at in (0, 30)]
    (finding,) = audit_documented(rails.exchanged(numbers), rails).findings
    assert (finding.kind, finding.loss) == ("swapped", 0.0)


@pytest.mark.parametrize(
    ("names", "between", "after"),
    [
        (["be-leaf00", "be-leaf02", "be-leaf03"], ["be-leaf01"], "be-leaf04"),
        (["spine1-0", "spine1-3"], ["spine1-1", "spine1-2"], "spine1-4"),
        (["spine9", "spine11"], ["spine10"], "spine12"),
        (["spine7"], [], "spine8"),
    ],
)
def test_names_that_count(names, between, after):
    series = NameSeries.of(names)
    assert (series.between, series.after) == (between, after)


@pytest.mark.parametrize("names", [["leaf1", "spine2"], ["a", "b"], ["pod1-leaf1", "pod2-leaf2"], []])
def test_names_that_do_not_count(names):
    assert NameSeries.of(names) is None


def test_a_grid_that_lacks_one():
    assert grid_gap(["A1-L1", "A1-L2", "A2-L1"]) == ["A2-L2"]
    assert grid_gap(["A1-L1", "A2-L2"]) == []


@pytest.mark.parametrize(
    ("used", "count", "ports"),
    [
        (["1", "3"], 4, ["1", "2", "3", "4"]),
        (["Ethernet0", "Ethernet4", "Ethernet12"], 0, ["Ethernet0", "Ethernet4", "Ethernet8", "Ethernet12"]),
        (["swp1s0", "swp2s1", "swp4s0"], 0, [f"swp{cage}s{lane}" for cage in range(1, 5) for lane in range(2)]),
        (["et-0/0/1:0", "et-0/0/3:0"], 0, ["et-0/0/1:0", "et-0/0/3:0"]),
        (["swp1", "eth0"], 0, []),
        (["swp1", "swp900"], 0, ["swp1", "swp900"]),
    ],
)
def test_every_port_that_a_switch_has(used, count, ports):
    assert every_port(used, count) == ports


def told(folder, table, domain=""):
    """LLDP of the switches of a network; hosts and peers have a domain, files are named by the host name alone."""
    wires = [(a, p, b, q) for (a, p), (b, q) in table.named_ends]
    for device in (label for label, kind in zip(table.label, table.kind, strict=True) if kind == "switch"):
        rows = [(p, f"{b}{domain}", q) for a, p, b, q in wires if a == device]
        rows += [(q, f"{a}{domain}", p) for a, p, b, q in wires if b == device]
        if rows:
            (folder / f"{device}.json").write_text(json.dumps(lldpd(rows)))
    return folder


@pytest.fixture(scope="module")
def scenario(tmp_path_factory):
    """The scenario of `ROUTED` as a file."""
    path = tmp_path_factory.mktemp("plan") / "routed.yaml"
    path.write_text(json.dumps(load.dump(ROUTED.scenario)))
    return path


def test_a_domain_that_all_names_share_is_no_fault(routed, scenario, tmp_path):
    found, _ = audit_found(AuditSources(lldp=told(tmp_path, routed, ".dc1.example.org"), plan=scenario))
    assert not found.findings
    assert [one for one in found.design["doubts"] if ".dc1.example.org" in one]


def test_names_with_two_domains_stay(routed):
    first, *others = routed.label
    assert replace(routed, label=[f"{first}.a", *(f"{one}.b" for one in others)]).domain == ""
    assert replace(routed, label=[f"{first}.B", *(f"{one}.b" for one in others[:-1]), others[-1]]).domain == ".b"
    assert replace(routed, label=[f"{others[0]}.b", *others]).domain == ""  # both names are there, with it and without


@pytest.mark.parametrize("text", [None, "{"])
def test_a_switch_without_a_report_has_unknown_hosts_and_no_faults(routed, scenario, tmp_path, text):
    """Leaf 2 has 8 servers; its uplinks are seen by the spines."""
    file = told(tmp_path, routed) / "be-leaf2.json"
    file.unlink() if text is None else file.write_text(text)
    found, answer = audit_found(AuditSources(lldp=tmp_path, plan=scenario))
    assert not found.findings
    assert answer.problems[0].startswith("be-leaf2 sent no report: its 8 hosts are unknown")


def test_a_switch_that_nobody_sees_is_missing_and_so_is_a_cable_that_one_end_lacks(routed, scenario, tmp_path):
    leaf = routed.label.index("be-leaf2")
    told(tmp_path, routed.without([n for n, ends in enumerate(routed.ends.tolist()) if leaf in ends]))
    found, _ = audit_found(AuditSources(lldp=tmp_path, plan=scenario))
    assert {(one.kind, one.a) for one in found.findings} == {("missing-switch", "be-leaf2")}
    uplink = [ends[0] for ends in routed.named_ends].index(("be-leaf2", "Ethernet256"))
    told(tmp_path, routed.without([uplink]))
    (tmp_path / "be-leaf2.json").unlink()
    found, _ = audit_found(AuditSources(lldp=tmp_path, plan=scenario))
    assert [(one.kind, one.a) for one in found.findings] == [("missing", "be-leaf2[Ethernet256]")]
