"""Tenants proven apart over rendered files, and mutants of these files held against a judge that walks every packet."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from ipaddress import IPv4Network
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tests.ask.deploy import leaky, twins, walked

from railyard.ask.check.isolation import judged
from railyard.ask.check.isolation.judged import PARTITIONS, judge, rendered, wired_of
from railyard.ask.check.isolation.prove import PacketWalker, Permitted, prove
from railyard.ask.check.isolation.routes import BgpRoutes, Down
from railyard.ask.deploy.configured import FilterRule, Line
from railyard.ask.deploy.system import system_names, systems
from railyard.ask.deploy.systems.sonic import lane, read
from railyard.ask.deploy.tenants import Vrf
from railyard.kit.errors import InputError

from .scenarios import draft, planned

THREE = [
    {"name": "blue", "servers": "0,2,4"},
    {"name": "green", "servers": "1,6-7"},
    {"name": "red", "servers": "3,5"},
]
EXAMPLE = Path(__file__).parents[3] / "examples" / "tenants"
EVERY = [(by, system) for by in ("vrf", "evpn", "acl") for system in system_names() if (by, system) != ("acl", "frr")]


def plan_of(by, tenants=THREE):
    """Four leafs of two servers with a NIC each, two spines."""
    parts = {"ports_per_leaf": 2, "spines": 2}
    return planned(draft(8, "leaf-spine", "roce", parts, server="gh200-node", tenancy={"by": by, "tenants": tenants}))


@pytest.fixture(scope="module")
def plans():
    return {by: plan_of(by) for by in ("vrf", "evpn", "acl", "none")}


def cables_of(wired):
    """Switch, port, switch, port."""
    ends = wired.network.named_ends
    return [(*ends[cable][0], *ends[cable][1]) for cable in wired.network.between.tolist()]


def reached(wired):
    """Pairs of servers of one tenant, and how many of them reach each other."""
    nodes = frozenset(node for one in wired.sessions for node in (one.source, one.target))
    nodes |= {wired.entry(server) for server in wired.servers}
    walker = PacketWalker(wired, BgpRoutes(wired, nodes, Down()))
    same = [(a, b) for a in wired.servers for b in wired.servers if a is not b and a.tenant == b.tenant]
    return len(same), sum(walker.path(a, b) is not None for a, b in same)


@pytest.mark.parametrize(("by", "system"), EVERY)
def test_what_is_written_keeps_tenants_apart_and_each_together(plans, by, system):
    texts = rendered(plans[by], system)
    found = judge(plans[by], system, texts)
    assert (found.findings, found.pairs) == ((), 6)
    for family in systems.get(system).families:
        assert reached(wired_of(plans[by], system, texts, family)) == (6 + 6 + 2, 14)


@pytest.mark.skipif(not shutil.which("vtysh"), reason="no vtysh here (Debian: frr)")
@pytest.mark.parametrize(("by", "system"), [("vrf", "frr"), ("evpn", "frr"), ("vrf", "sonic"), ("evpn", "sonic")])
def test_frr_knows_every_line(plans, tmp_path, by, system):
    texts = rendered(plans[by], system)
    for name in {"be-leaf0.frr.conf", "be-spine0.frr.conf"} & set(texts):
        path = tmp_path / name
        path.write_text(texts[name])
        done = subprocess.run(["vtysh", "-C", "-f", str(path)], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr


def test_without_anything_all_reach_all(plans):
    found = judge(plans["none"], "eos", rendered(plans["none"], "eos"))
    assert {tuple(re.findall(r"`(\w+)`", words)[:2]) for words in found.findings} == {
        (a, b) for a in ("blue", "green", "red") for b in ("blue", "green", "red") if a != b
    }


def test_rails_of_one_s_own_are_apart_without_anything():
    """No switch joins the rails: who has NICs 0 to 3 of all servers never meets who has the others."""
    tenants = [{"name": "even", "servers": "0-7", "nics": "0-3"}, {"name": "odd", "servers": "0-7", "nics": "4-7"}]
    plan = planned(draft(64, "rail-only", "roce", tenancy={"by": "none", "tenants": tenants}))
    assert judge(plan, "eos", rendered(plan, "eos")).findings == ()


def setting(plan, by, mutants, seed, family=4):
    """Mutants of files, of IPv6 what is done to IPv4 otherwise, judged twice."""
    texts = rendered(plan, "frr")
    turn = leaky.flipped if family == 6 else dict
    wired = wired_of(plan, "frr", texts, family)
    cables = cables_of(wired)
    servers = [(one.tenant, one.switch, one.port, one.address) for one in wired.servers]
    random, kinds = np.random.default_rng(seed), Counter()
    for _ in range(mutants):
        name, mutant = leaky.mutant(turn(texts), random)
        mutant = turn(mutant)
        truth = walked.leaks(mutant, cables, servers, want=str(family))
        proof = prove(wired_of(plan, "frr", mutant, family))
        found = {(one.source.tenant, one.target.tenant) for one in proof.violations}
        assert found == truth, (by, name)
        kinds[name, bool(truth)] += 1
    return kinds


@pytest.mark.parametrize("by", ["vrf", "evpn"])
def test_mutants_are_judged_as_walking_every_packet_does(plans, by):
    kinds = setting(plans[by], by, 40, 7)
    assert sum(count for (_, leaks), count in kinds.items() if leaks) >= 8
    assert sum(count for (_, leaks), count in kinds.items() if not leaks) >= 8


@pytest.mark.parametrize("by", ["vrf", "evpn"])
def test_mutants_of_ipv6_are_judged_as_walking_every_packet_does(plans, by):
    kinds = setting(plans[by], by, 25, 3, family=6)
    assert sum(count for (_, leaks), count in kinds.items() if leaks) >= 5
    assert sum(count for (_, leaks), count in kinds.items() if not leaks) >= 5


def test_flipping_twice_changes_nothing(plans):
    for by in ("vrf", "evpn"):
        texts = rendered(plans[by], "frr")
        assert leaky.flipped(texts) != texts
        assert leaky.flipped(leaky.flipped(texts)) == texts


def test_a_leak_over_ipv6_alone_is_found_with_its_way_and_line(plans):
    """IPv4 is closed: the line stands in the other family."""
    texts = rendered(plans["vrf"], "frr")
    name = "be-leaf0.frr.conf"
    texts[name] = leaky.in_bgp(texts[name], "blue", " address-family ipv6 unicast\n", "  import vrf green\n")
    assert prove(wired_of(plans["vrf"], "frr", texts)).violations == ()
    found = judge(plans["vrf"], "frr", texts).findings
    line = next(number for number, row in enumerate(texts[name].splitlines(), 1) if "import vrf" in row)
    assert [f"because of `{name}:{line}: import vrf green`" in words for words in found] == [True] * len(found)
    assert any("`blue` reaches `green`" in words and "fd00:1::" in words for words in found)


@pytest.mark.slow
@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("by", ["vrf", "evpn"])
def test_a_thousand_mutants(plans, by, family):
    kinds = setting(plans[by], by, 500, 1, family)
    assert sum(count for (_, leaks), count in kinds.items() if leaks) > 100


def named(wired):
    """How a system calls ports, by the plan's list of cables and servers, which is the same for all."""
    cables = cables_of(wired)
    uplink = {(a, b): port for a, port, b, _ in cables} | {(b, a): port for a, _, b, port in cables}
    return twins.Names(uplink, {str(IPv4Network(f"{one.address}/31", strict=False)): one.port for one in wired.servers})


def fabric_of(plan, by):
    """What is where, by FRR's files as they are meant."""
    texts, wired = rendered(plan, "frr"), wired_of(plan, "frr", rendered(plan, "frr"))
    tables = {name.split(".")[0]: tuple(leaky.vrfs(text)) for name, text in texts.items() if name.endswith(".conf")}
    servers = [(one.switch, one.tenant, str(IPv4Network(f"{one.address}/31", strict=False))) for one in wired.servers]
    at = {(switch, port): peer for (switch, peer), port in named(wired).uplink.items()}
    lanes = [
        (switch, at[switch, port], vlan, vrf)
        for switch in tables
        for port, vlan, vrf in re.findall(r"^interface (\S+)\.(\d+) vrf (\S+)$", texts[f"{switch}.frr.conf"], re.M)
    ]
    leafs = {name: found for name, found in tables.items() if "leaf" in name}
    return twins.Fabric(leafs, tuple(servers), tuple(lanes), tables, overlay=by == "evpn")


def twinned(plan, by, mutants, seed):
    """Changes in the words of every system: each is judged as the walk of FRR's twin says; returns counts by kind."""
    fabric, random, kinds = fabric_of(plan, by), np.random.default_rng(seed), Counter()
    meant = {system: rendered(plan, system) for system in twins.DIALECTS}
    wired = {system: wired_of(plan, system, texts) for system, texts in meant.items()}
    cables = cables_of(wired["frr"])
    servers = [(one.tenant, one.switch, one.port, one.address) for one in wired["frr"].servers]
    while sum(kinds.values()) < mutants:
        changes = [twins.drawn(fabric, random) for _ in range(int(random.integers(1, 4)))]
        alike = {name.replace("halved", "crossed") for name, _ in changes}
        if len(alike) < len(changes) or any(change is None for _, change in changes):
            continue  # two of a kind may undo or exclude each other
        files = {system: of(meant[system], named(wired[system])) for system, of in twins.DIALECTS.items()}
        for one in files.values():
            for _, change in changes:
                change(one)
        truth = walked.leaks(files["frr"].texts, cables, servers)
        for system, one in files.items():
            found = prove(wired_of(plan, system, one.texts)).violations
            pairs = {(each.source.tenant, each.target.tenant) for each in found}
            assert pairs == truth, (by, system, [name for name, _ in changes])
        kinds["+".join(sorted(name for name, _ in changes)), bool(truth)] += 1
    return kinds


@pytest.mark.parametrize("by", ["vrf", "evpn"])
def test_every_system_is_judged_as_the_walk_of_its_twin(plans, by):
    kinds = twinned(plans[by], by, 25, 11)
    assert sum(count for (_, leaks), count in kinds.items() if leaks) >= 5
    assert sum(count for (_, leaks), count in kinds.items() if not leaks) >= 5


@pytest.mark.slow
@pytest.mark.parametrize("by", ["vrf", "evpn"])
def test_a_thousand_twins(plans, by):
    kinds = twinned(plans[by], by, 500, 3)
    assert sum(count for (_, leaks), count in kinds.items() if leaks) > 100


@pytest.mark.parametrize("system", sorted(twins.DIALECTS))
def test_a_leak_that_only_a_failure_opens_is_found_with_what_has_to_fail(plans, system):
    """Blue's table of a leaf leads to green's server, but a longer prefix from a spine wins while that lives."""
    plan, meant = plans["vrf"], rendered(plans["vrf"], system)
    wired = wired_of(plan, system, meant)
    files = twins.DIALECTS[system](meant, named(wired))
    files.static("be-leaf0", "blue", "10.0.0.2/31", "green")
    files.static("be-spine0", "blue", "10.0.0.3/32", "red")  # where nobody has it
    files.announce("be-spine0", "blue", "10.0.0.3/32")
    (found,) = judge(plan, system, files.texts).findings
    assert found.startswith("`blue` reaches `green`: node0[be0] to 10.0.0.3 (node1[be0]) by ")
    assert ", without be-spine0;" in found
    if system == "frr":
        cables = cables_of(wired)
        servers = [(one.tenant, one.switch, one.port, one.address) for one in wired.servers]
        assert cables[0] == ("be-leaf0", "swp2s0", "be-spine0", "swp1s0")
        assert walked.leaks(files.texts, cables, servers, [None, "be-spine1", *range(1, len(cables))]) == set()
        for lost in ("be-spine0", 0):
            assert walked.leaks(files.texts, cables, servers, [lost]) == {("blue", "green")}


LEAKS = {
    "eos": {
        "evpn": ("      route-target import evpn 64512:10001\n", "      route-target import evpn 64512:10002\n"),
        "acl": ("   10 permit ip any 10.0.0.0/31\n", "   15 permit ip any 10.0.0.2/31\n"),
        "vrf": ("vrf instance blue\n", "ip route vrf blue 10.0.0.2/31 egress-vrf green\n"),
    },
    "junos": {
        "evpn": (
            "set routing-instances blue vrf-target import target:64512:10001\n",
            "set routing-instances blue vrf-target import target:64512:10002\n",
        ),
        "acl": (
            "set firewall family inet filter to-10.0.0.0-31 term own then accept\n",
            "set firewall family inet filter to-10.0.0.0-31 term own from destination-address 10.0.0.2/31\n",
        ),
        "vrf": (
            "set routing-instances blue instance-type virtual-router\n",
            "set routing-instances blue routing-options static route 10.0.0.2/31 next-table green.inet.0\n",
        ),
    },
}


@pytest.mark.parametrize(("system", "by"), [(system, by) for system in LEAKS for by in LEAKS[system]])
def test_a_leak_in_other_dialects_is_found_with_its_line(plans, system, by):
    """On be-leaf0, where server 0 is blue's and server 1 green's."""
    texts = rendered(plans[by], system)
    file = next(name for name in texts if name.startswith("be-leaf0."))
    after, more = LEAKS[system][by]
    assert after in texts[file]
    changed = {**texts, file: texts[file].replace(after, after + more, 1)}
    line = 1 + changed[file].split("\n").index(
        more.rstrip("\n"), 1 + changed[file].split("\n").index(after.rstrip("\n"))
    )
    found = judge(plans[by], system, changed).findings
    assert found
    assert all(words.startswith("`blue` reaches `green`") for words in found)
    assert all(f"`{file}:{line}: {more.strip()}`" in words for words in found)


def test_a_leak_in_sonic_s_routing_is_found_with_its_line(plans):
    texts = rendered(plans["evpn"], "sonic")
    file, old = "be-leaf0.frr.conf", "  route-target import 64512:10001\n"
    leaking = texts[file].replace(old, f"{old}  route-target import 64512:10002\n", 1)
    found = judge(plans["evpn"], "sonic", {**texts, file: leaking}).findings
    line = 1 + leaking.split("\n").index("  route-target import 64512:10002")
    assert len(found) == 1  # to green's servers of leaf 3; a switch takes no routes of its own back from EVPN
    assert f"{file}:{line}: " in found[0]


def test_a_leak_in_sonic_s_tables_is_found_with_its_line(plans):
    """A server's port in the table of another tenant; FRR's file announces its prefix there."""
    texts = rendered(plans["vrf"], "sonic")
    files = twins.Sonic(texts, named(wired_of(plans["vrf"], "sonic", texts)))
    files.member("be-leaf0", files.names.server["10.0.0.0/31"], "blue", "green")
    files.announce("be-leaf0", "green", "10.0.0.0/31")
    found = judge(plans["vrf"], "sonic", files.texts).findings
    assert any("config_db.json:" in words and '"vrf_name": "Vrfgreen"' not in words for words in found)


def test_sonic_s_second_file_counts_where_the_tables_say_so_and_not_elsewhere(plans):
    texts = rendered(plans["vrf"], "sonic")
    tables, routing = "be-leaf0.config_db.json", "be-leaf0.frr.conf"
    with pytest.raises(InputError, match="no file of its routing"):
        judge(plans["vrf"], "sonic", {name: text for name, text in texts.items() if name != routing})
    other = {**texts, tables: texts[tables].replace("split-unified", "unified")}
    total, found = reached(wired_of(plans["vrf"], "sonic", other))
    assert (total, found) == (14, 14 - 4 - 4)  # a server of blue and one of green hang on it, each with two others


def test_names_that_linux_would_not_take_are_short_and_read_back(plans):
    tenant = Vrf("blue", 1000, 899)
    assert (lane("Ethernet96", tenant), lane("Ethernet100", tenant)) == ("Ethernet96.1000", "Eth100.1000")
    of = '{"VLAN_SUB_INTERFACE": {"Eth100.1000": {"vrf_name": "Vrfblue"}}}'
    assert read("leaf", ("f", of), ("", ""), 4).ports["Ethernet100.1000"].vrf == "blue"


def test_a_filter_that_is_not_bound_is_blamed_as_missing(plans):
    texts = rendered(plans["acl"], "eos")
    file = "be-leaf2.eos.cfg"
    bound = next(row for row in texts[file].split("\n") if "access-group" in row)
    found = judge(plans["acl"], "eos", {**texts, file: texts[file].replace(bound + "\n", "", 1)}).findings
    assert found
    assert all("because of be-leaf2.eos.cfg lacks `ip access-group" in words for words in found)


def test_missing_and_broken_files_are_named(plans):
    texts = rendered(plans["evpn"], "sonic")
    with pytest.raises(InputError, match="a switch of the plan has no file"):
        judge(plans["evpn"], "sonic", {name: text for name, text in texts.items() if "leaf2" not in name})
    with pytest.raises(InputError, match="the file cannot be read"):
        judge(plans["evpn"], "sonic", {**texts, "be-leaf2.config_db.json": "{"})


def rules(*rows):
    return [FilterRule(permits, IPv4Network(target), Line("f", n, target)) for n, (permits, target) in enumerate(rows)]


def test_the_first_rule_that_fits_decides():
    one = Permitted(rules((False, "10.0.0.2/31"), (True, "10.0.0.0/29"), (False, "0.0.0.0/0"), (True, "11.0.0.0/8")))
    of = lambda text: one.passes(int(IPv4Network(text).network_address))  # noqa: E731
    assert [of(a) for a in ("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.7", "10.0.0.8", "11.1.1.1")] == [
        True, False, False, True, True, False, False,
    ]  # fmt: skip
    assert not Permitted([]).passes(7)


def test_filters_are_as_looking_at_each_rule_in_turn():
    random = np.random.default_rng(3)
    for _ in range(60):
        rows = rules(*((bool(random.integers(2)), f"10.0.0.{int(random.integers(32)) // 2 ** k * 2**k}/{32 - k}")
                       for k in random.integers(0, 5, 6).tolist()))  # fmt: skip
        one = Permitted(rows)
        for address in range(int(rows[0].target.network_address) - 3, int(rows[0].target.network_address) + 40):
            first = next((row for row in rows if int(row.target[0]) <= address <= int(row.target[-1])), None)
            assert one.decides(address) is first


# --- InfiniBand ---


@pytest.fixture(scope="module")
def pkeys():
    tenants = [{"name": "blue", "servers": "0-1"}, {"name": "green", "servers": "2"}]
    return planned(draft(32, "leaf-spine", "infiniband", tenancy={"by": "pkey", "tenants": tenants}))


def said(pkeys, text):
    found = judge(pkeys, "frr", {PARTITIONS: text}).findings
    return {tuple(re.findall(r"`(\w+)`", words)[:2]) for words in found}


BOTH = {("blue", "green"), ("green", "blue")}
BLUE, GREEN = "blue=0x1, defmember=full", "green=0x2, defmember=full"
NINE = "blue=0x9"
FREE = {("blue", "nobody"), ("nobody", "blue")}
OWN_RULE = "Default=0x7fff, ipoib : ALL=limited, SELF=full;\n"


@pytest.mark.parametrize(
    ("change", "pairs"),
    [
        (lambda text: text, set()),
        (lambda text: text.replace("green=0x2", "green=0x1"), BOTH),  # keys are merged
        (lambda text: text.replace("green=0x2", "green=0x8001"), BOTH),  # only the low 15 bits count
        (lambda text: text.replace(f"{BLUE} : ", f"{BLUE} : 0x1000000023, ", 1), BOTH),
        (lambda text: text.replace(f"{BLUE} : ", f"{BLUE} : 0x1000000023=limited, ", 1), BOTH),
        (lambda text: text.replace("SELF=full;", "SELF=full, 0x1000000001=full;"), BOTH | FREE),
        (lambda text: text.replace(OWN_RULE, ""), set()),  # OpenSM has that rule anyway
        (lambda text: text.replace(GREEN, "green=0x1"), BOTH),  # limited, with full ones of blue
        (lambda text: text.replace(BLUE, NINE).replace(GREEN, "green=0x9"), set()),  # all limited
    ],
)  # fmt: skip
def test_partitions(pkeys, change, pairs):
    assert said(pkeys, change(rendered(pkeys, "frr")[PARTITIONS])) == pairs


def test_mutants_of_partitions_are_as_asking_every_pair(pkeys):
    """Each port's keys by hand: two speak where they share one and not both are limited."""
    text = rendered(pkeys, "frr")[PARTITIONS]
    guids = re.findall(r"0x1[0-9a-f]{9}", text)
    tenant = dict.fromkeys(guids[:16], "blue") | dict.fromkeys(guids[16:], "green")
    random = np.random.default_rng(5)
    for _ in range(80):
        more = ""
        for _ in range(int(random.integers(1, 4))):
            guid, key = guids[int(random.integers(len(guids)))], int(random.integers(1, 5))
            more += f"x=0x{key:x} : {guid}={'full' if random.random() < 0.5 else 'limited'};\n"
        keys = {guid: {} for guid in guids}
        for row in (text + more).split("\n"):
            if "0x1000" in row:
                key = int(re.search(r"=(0x\w+)", row)[1], 16)
                for guid, kind in re.findall(r"(0x1[0-9a-f]{9})(?:=(\w+))?", row):
                    full = kind == "full" or (not kind and "defmember=full" in row)
                    keys[guid][key] = full  # the last word counts
        truth = {
            (tenant[a], tenant[b])
            for a in guids for b in guids
            if tenant[a] != tenant[b] and any(keys[a][k] or keys[b][k] for k in keys[a].keys() & keys[b].keys())
        }  # fmt: skip
        assert said(pkeys, text + more) == truth


def test_lines_of_partitions_are_those_where_definitions_begin():
    read = judged.read_partitions("p", "# one\na=0x1 :\n 0x1=full,\n 0x2;\nb=0x2 : 0x3; c=0x3 : 0x4;\n")
    assert [read[key][name].line.number for key, name in ((1, "0x1"), (1, "0x2"), (2, "0x3"), (3, "0x4"))] == [
        2,
        2,
        5,
        5,
    ]
    assert [read[1][name].full for name in ("0x1", "0x2")] == [True, False]


# --- the example ---


def test_the_leaking_example_is_the_plan_with_one_line_more():
    from railyard.ask.deploy.cabling import plan_of as planned_of
    from railyard.work.scenario import load
    from railyard.work.study import compose

    one = load.load(EXAMPLE / "leak.yaml")
    plan = planned_of(compose.cluster_of(one, compose.catalog_of(one)))
    meant = rendered(plan, "eos")
    there = {path.name: path.read_text() for path in (EXAMPLE / "leaking").iterdir()}
    assert there.keys() == meant.keys()
    assert [name for name in meant if meant[name] != there[name]] == ["be-leaf1.eos.cfg"]
    more = there["be-leaf1.eos.cfg"].split("\n")
    assert len(more) == len(meant["be-leaf1.eos.cfg"].split("\n")) + 1
    twice = [after for before, after in pairwise(more) if before.strip() == "route-target import evpn 64512:10001"]
    assert twice == ["      route-target import evpn 64512:10002"]


@pytest.mark.parametrize(
    ("system", "line"),
    [
        ("eos", "   shape rate 120000000 kbps"),
        ("sonic", '"pir": "15000000000"'),
        ("junos", "set class-of-service interfaces et-0/0/0:0 shaping-rate 120000000000"),
        ("frr", "root tbf rate 120000000000bit burst 16777216 latency 1ms"),
    ],
)
@pytest.mark.parametrize("by", ["evpn", "none"])
def test_a_share_is_a_shaper_towards_the_tenant_s_servers_and_no_others(system, line, by):
    """30 % of 400 Gb/s to the servers of blue: one on each of the first three leafs."""
    tenants = [{**THREE[0], "share": "30 %"}, *THREE[1:]]
    texts = rendered(plan_of(by, tenants), system)
    assert {name.split(".")[0]: text.count(line) for name, text in texts.items() if line in text} == {
        f"be-leaf{number}": 1 for number in (0, 1, 2)
    }
    assert line not in "".join(rendered(plan_of(by), system).values())
