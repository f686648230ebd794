"""What devices say besides their neighbours: BGP, routes, settings, parts of hosts, NetBox; each fault priced."""

from __future__ import annotations

import json

import pytest

from railyard.ask.audit.against import frames_share
from railyard.ask.audit.audit import audit, audit_documented, audit_plan
from railyard.ask.audit.host_parts import pcie_bps
from railyard.ask.deploy.cabling import drawn
from railyard.ask.deploy.emit.configurations import files
from railyard.ask.deploy.emit.intent import switches
from railyard.ask.deploy.systems import eos, frr, junos, sonic
from railyard.cluster.asbuilt import ibnetdiscover, netbox
from railyard.cluster.asbuilt.reported.reports import gather
from railyard.cluster.network_table import DIALECTS
from railyard.face.cli import guard
from railyard.kit.errors import InputError

from .fabrics import leaf_spine
from .scenarios import draft, planned


def fabric(leafs=4, spines=4, hosts=4):
    return ibnetdiscover.read(leaf_spine(leafs, spines, hosts).text(), "drawn")


def write(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def names(found):
    return found.label


def kinds(checked):
    return [(one.kind, one.a, one.b) for one in checked.findings]


def frr_routes(hops, own):
    """`show ip route json`: prefixes with their ports, and one of its own."""
    rows = {
        prefix: [
            {"protocol": "bgp", "selected": True, "nexthops": [{"active": True, "interfaceName": p} for p in ports]}
        ]
        for prefix, ports in hops.items()
    }
    return rows | {own: [{"protocol": "connected", "nexthops": [{"directlyConnected": True, "interfaceName": "lo"}]}]}


def eos_routes(hops, own):
    rows = {prefix: {"routeType": "eBGP", "vias": [{"interface": p} for p in ports]} for prefix, ports in hops.items()}
    return {"vrfs": {"default": {"routes": rows | {own: {"routeType": "connected", "vias": [{"interface": "Lo0"}]}}}}}


@pytest.mark.parametrize("form", [frr_routes, eos_routes])
def test_prefixes_that_do_not_use_all_paths_are_named_with_the_ports(tmp_path, form):
    """Leafs have hosts on ports 1 to 4 and spines on 5 to 8; leaf1 does not use port 7 to one of three prefixes."""
    up = ["5", "6", "7", "8"]
    routes = {f"leaf{n}": {f"10.0.0.{m}/32": list(up) for m in range(4) if m != n} for n in range(4)}
    routes["leaf1"]["10.0.0.3/32"] = ["5", "6", "8"]
    write(tmp_path, {f"{leaf}.routes.json": form(hops, f"10.0.0.{leaf[-1]}/32") for leaf, hops in routes.items()})
    checked = audit(fabric(), gather([tmp_path], ["leaf0", "leaf1", "leaf2", "leaf3"]))
    assert kinds(checked) == [("ecmp", "leaf1[7]", "spine2[2]")]
    (one,) = checked.findings
    assert "1 of 3 prefixes (10.0.0.3/32) do not use 7" in one.detail
    for at in range(4):
        if at != 1:
            routes["leaf1"][f"10.0.0.{at}/32"] = ["5", "6", "8"]
    write(tmp_path, {f"{leaf}.routes.json": form(hops, f"10.0.0.{leaf[-1]}/32") for leaf, hops in routes.items()})
    (all_of_them,) = audit(fabric(), gather([tmp_path], names(fabric()))).findings
    assert one.loss == pytest.approx(all_of_them.loss / 3)
    drawn_ = leaf_spine(4, 4, 4)
    drawn_.pull(drawn_.between("leaf1", "spine2")[0])
    (pulled,) = audit(ibnetdiscover.read(drawn_.text(), "pulled")).findings
    assert all_of_them.loss == pytest.approx(pulled.loss)  # as if the cable were not there


@pytest.mark.parametrize(
    "form",
    [
        lambda state: {"ipv4Unicast": {"peers": {"6": {"state": state, "hostname": "spine1"}}}},
        lambda state: {"peers": {"6": {"state": state}}},
        lambda state: {"vrfs": {"default": {"peers": {"fe80::1%6": {"peerState": state}}}}},
    ],
)
def test_a_session_that_is_down_costs_what_its_cable_does(tmp_path, form):
    write(tmp_path, {"leaf1/bgp.json": form("Idle"), "leaf2/bgp.json": form("Established")})
    (one,) = audit(fabric(), gather([tmp_path], names(fabric()))).findings
    assert (one.kind, one.a, one.b) == ("session-down", "leaf1[6]", "spine1[2]")
    drawn_ = leaf_spine(4, 4, 4)
    drawn_.pull(drawn_.between("leaf1", "spine1")[0])
    (pulled,) = audit(ibnetdiscover.read(drawn_.text(), "pulled")).findings
    assert one.loss == pytest.approx(pulled.loss)
    assert one.loss > 0


@pytest.mark.parametrize(
    ("dialect", "render"),
    [("sonic", sonic.render), ("eos", eos.render), ("junos", junos.render), ("frr", frr.render)],
)
def test_settings_are_held_against_the_plan(tmp_path, dialect, render):
    one = draft(64, "leaf-spine", "roce", {"ports_per_leaf": 16, "spines": 4})
    plan = planned(one)
    texts = {intent.name: render(intent) for intent in switches(plan, 0, DIALECTS[dialect])}
    found = drawn(plan, 0, DIALECTS[dialect])
    as_it_is = write(tmp_path / "right", {f"{name}.cfg": text for name, text in texts.items()})
    assert not audit_plan(found, one, gather([as_it_is], texts)).findings
    leaf = next(name for name in texts if "leaf" in name)
    broken = {
        "sonic": texts[leaf].replace('"26": "3"', '"26": "0"'),
        "eos": texts[leaf].replace("qos map dscp 26 to traffic-class 3", "! qos map dscp 26 to traffic-class 3"),
        "junos": texts[leaf].replace("code-points 011010", "code-points 011011"),
        "frr": texts[leaf].replace("neighbor fabric bfd\n", ""),
    }[dialect]
    assert broken != texts[leaf]
    wrong = write(tmp_path / "wrong", {f"{leaf}.cfg": broken} | {f"{n}.cfg": t for n, t in texts.items() if n != leaf})
    for checked in (audit_plan(found, one, gather([wrong], texts)), audit(found, gather([wrong], texts))):
        kind = "wrong-setting" if dialect == "frr" else "wrong-qos"
        assert [(f.kind, f.a) for f in checked.findings] == [(kind, leaf)]


def test_sonic_s_tables_and_its_routing_are_held_against_the_plan_together(tmp_path):
    """By EVPN leafs have two files and spines one; tables alone are not blamed for what the other file says."""
    tenancy = {"by": "evpn", "tenants": [{"name": "blue", "servers": "0-3"}, {"name": "green", "servers": "4-7"}]}
    one = draft(8, "leaf-spine", "roce", {"ports_per_leaf": 2, "spines": 2}, server="gh200-node", tenancy=tenancy)
    plan = planned(one)
    texts = {name.split("/")[1]: text for name, text in files(plan, "sonic") if name.startswith("switches/be-")}
    found, devices = drawn(plan, 0, DIALECTS["sonic"]), sorted({name.split(".")[0] for name in texts})
    routing = "be-leaf1.frr.conf"
    assert routing in texts
    for at, more in enumerate((texts, {name: text for name, text in texts.items() if name != routing})):
        folder = write(tmp_path / str(at), more)
        assert not audit_plan(found, one, gather([folder], devices)).findings
        assert not audit(found, gather([folder], devices)).findings
    quiet = texts[routing].replace(" neighbor fabric bfd\n", "")
    folder = write(tmp_path / "quiet", texts | {routing: quiet})
    assert [(f.kind, f.a) for f in audit_plan(found, one, gather([folder], devices)).findings] == [
        ("wrong-setting", "be-leaf1")
    ]


def test_queues_that_were_shipped_as_comments_are_missing(tmp_path):
    one = draft(64, "leaf-spine", "roce", {"ports_per_leaf": 16, "spines": 4})
    plan = planned(one)
    texts = {intent.name: eos.render(intent) for intent in switches(plan, 0, DIALECTS["eos"])}
    leaf = next(name for name in texts if "leaf" in name)
    texts[leaf] = texts[leaf].replace("   priority-flow-control", "   ! priority-flow-control")
    folder = write(tmp_path, {f"{name}.cfg": text for name, text in texts.items()})
    (finding,) = audit_plan(drawn(plan, 0, DIALECTS["eos"]), one, gather([folder], texts)).findings
    assert (finding.kind, finding.a) == ("wrong-qos", leaf)
    assert "ports with PFC: missing Ethernet" in finding.detail


IBSTAT = """CA '{name}'
	CA type: MT4129
	Number of ports: 1
	Firmware version: {firmware}
	Port 1:
		State: {state}
		Physical state: LinkUp
		Rate: {rate}
		Base lid: 7
"""
LSPCI = """1b:00.0 Infiniband controller: Mellanox Technologies MT2910 Family [ConnectX-7]
	Subsystem: Mellanox
		LnkCap:	Port #0, Speed 32GT/s, Width x16, ASPM not supported
		LnkSta:	Speed {speed}GT/s, Width x{width}
00:1f.0 ISA bridge: Intel
		LnkSta:	Speed 8GT/s, Width x1
"""
SMI = """index, name, pcie.link.gen.current, pcie.link.gen.max, pcie.link.width.current, pcie.link.width.max, pstate
0, NVIDIA H100, {gen}, 5, 16, 16, {pstate}
"""


def test_parts_of_hosts_are_held_against_their_like(tmp_path):
    files = {}
    for at in range(6):
        host = f"node{at:04d}"
        files[f"{host}/ibstat"] = IBSTAT.format(
            name="mlx5_0",
            firmware="28.39.1002" if at != 2 else "28.36.1010",
            state="Active",
            rate=400 if at != 3 else 200,
        )
        files[f"{host}/lspci.txt"] = LSPCI.format(speed=32 if at != 4 else 16, width=16 if at != 4 else 8)
        files[f"{host}/smi.csv"] = SMI.format(gen=5 if at != 5 else 1, pstate="P8")
        files[f"{host}/link.json"] = [
            {"ifname": "be0", "link_type": "ether", "mtu": 9000 if at != 1 else 1500, "operstate": "UP"}
        ]
    found = fabric()
    checked = audit(found, gather([write(tmp_path, files)], names(found)))
    assert {(one.kind, one.a) for one in checked.findings} == {
        ("firmware", "node0002 mlx5_0"),
        ("wrong-speed", "node0003 mlx5_0"),
        ("degraded", "node0004 1b:00.0"),
        ("wrong-mtu", "node0001 be0"),
    }
    narrow = next(one for one in checked.findings if one.kind == "degraded")
    assert "x8 at 16 GT/s, similar: x16 at 32" in narrow.detail
    # 16e9 x 128/130 x 8 lanes = 126 Gb/s behind 400: communication, a fifth of a step, takes 400/126 of its time.
    assert pcie_bps(16.0, 8) == pytest.approx(126.03e9, rel=1e-4)
    assert narrow.loss == pytest.approx(1 - 1 / (1 + 0.2 * (400 / 126.03 - 1)), rel=1e-3)


def test_a_host_without_an_accelerator_stands_idle(tmp_path):
    head = "host,kind,name,model\n"
    rows = [f"node{at:04d},accelerator,{gpu},H100" for at in range(4) for gpu in range(8) if (at, gpu) != (2, 5)]
    found = fabric()
    checked = audit(found, gather([write(tmp_path, {"parts.csv": head + "\n".join(rows)})], names(found)))
    assert kinds(checked) == [("missing-part", "node0002", "?")]
    assert checked.findings[0].loss == pytest.approx(1 / 16)


def test_a_table_of_parts_says_what_is_wrong_in_it(tmp_path):
    text = "host,kind,name,pcie_lane\nnode0000,gpu,0,16\nnode0001,nic,mlx5_0,16\n"
    said = gather([write(tmp_path, {"parts.csv": text})], [])
    assert len(said.parts) == 1
    words = [problem.render() for problem in said.problems]
    assert "did you mean `pcie_lanes`" in words[0]
    assert "its kind is `gpu`" in words[1]
    assert "parts.csv:2" in words[1]


NETBOX_JSON = {
    "results": [
        {
            "id": 5,
            "status": {"value": "connected"},
            "length": 3.0,
            "length_unit": {"value": "ft"},
            "a_terminations": [{"object": {"device": {"name": "leaf0"}, "name": "5"}}],
            "b_terminations": [{"object": {"device": {"name": "spine0"}, "name": "1"}}],
        }
    ]
}


def netbox_csv(found, heads=("side_a_device", "side_a_name", "side_b_device", "side_b_name")):
    rows = [",".join((*heads, "status", "length", "length_unit"))]
    for (a, port), (b, far) in found.named_ends:
        rows.append(f"{a},{port},{b},{far},connected,3,m")
    return "\n".join(rows)


def test_netbox_is_what_was_planned_of_a_network_that_was_found(tmp_path):
    meant = fabric()
    pulled = leaf_spine(4, 4, 4)
    ends = pulled.pull(pulled.between("leaf1", "spine2")[0])
    found = ibnetdiscover.read(pulled.text(), "found")
    heads = ("Device A", "Termination A", "Device B", "Termination B")
    for text in (netbox_csv(meant), netbox_csv(meant, heads)):
        (tmp_path / "cables.csv").write_text(text)
        papers = netbox.read(tmp_path / "cables.csv")
        assert papers.kind.count("switch") == 8
        (one,) = audit_documented(found, papers).findings
        assert (one.kind, {one.a, one.b}) == ("missing", set(ends))
        assert one.usd_per_month > 0


def test_netbox_in_json_and_what_is_wrong_with_it(tmp_path):
    path = tmp_path / "cables.json"
    path.write_text(json.dumps(NETBOX_JSON))
    assert netbox.read(path).length_m.tolist() == pytest.approx([0.9144])
    path.write_text(json.dumps({"results": [{"id": 1, "name": "leaf0"}]}))
    with pytest.raises(InputError, match="none is a cable"):
        netbox.read(path)
    path.write_text(json.dumps({"results": []}))
    with pytest.raises(InputError, match="it has no cables"):
        netbox.read(path)
    (tmp_path / "cables.csv").write_text("side_a_devise,side_a_name,side_b_device,side_b_name\nleaf0,1,spine0,1\n")
    with pytest.raises(InputError, match="did you mean `side_a_device`"):
        netbox.read(tmp_path / "cables.csv")


def test_smaller_frames_of_hosts_cost_payload_and_those_of_switches_lose_packets():
    """A host at 1500 bytes agrees on payloads of 1024: 1024/1106 against 4096/4178."""
    assert frames_share(1500, 9000, host=True) == pytest.approx((1024 / 1106) / (4096 / 4178))
    assert frames_share(4500, 9000, host=True) == 1
    assert frames_share(1500, 9216, host=False) == 0
    assert frames_share(9216, 1500, host=False) == 1


def test_reports_that_cannot_be_read_are_named_and_the_rest_is_used(tmp_path):
    files = {
        "leaf1.bgp.json": {"peers": {"6": {"state": "Idle"}}},
        "broken.json": '{"peers": ',
        "other.json": {"hello": 1},
        "odd.json": {"peers": {"6": 5, "7": {"state": ["x"]}}},
        "routes.json": {"10.0.0.0/24": [{"nexthops": 7}]},
        "words.txt": "nothing that is known",
    }
    found = fabric()
    said = gather([write(tmp_path, files)], names(found))
    words = [problem.render() for problem in said.problems]
    assert any("not JSON" in one and "broken.json:1" in one for one in words)
    assert sum("no known kind of report" in one for one in words) == 2
    assert any("not as any known program writes routes" in one for one in words)
    assert ("session-down", "leaf1[6]", "spine1[2]") in kinds(audit(found, said))
    with pytest.raises(InputError, match="no such file"):
        gather([tmp_path / "none"], [])


def table(switch, rows):
    listed = [
        f"0x{at:04x} {port:03d} # Channel Adapter portguid 0x{guid:x}: 'n'" for at, (guid, port) in enumerate(rows, 1)
    ]
    return "\n".join([f"Unicast lids [0-9] of switch Lid 1 guid 0x{switch:x} ('s'):", *listed])


def test_tables_of_some_switches_only_or_of_another_network(tmp_path):
    """Two leafs, one spine, two hosts a leaf: GUIDs count devices. Only leaf0's table is there."""
    text = leaf_spine(2, 1, 2).text()
    found = ibnetdiscover.read(text, "drawn")
    place = {label: number for number, label in enumerate(found.label)}
    whole = [(place["node0000"], 1), (place["node0001"], 2), (place["node0002"], 3), (place["node0003"], 3)]
    (tmp_path / "one.lft").write_text(table(place["leaf0"], whole))
    checked = audit(found, gather([tmp_path / "one.lft"], []))
    assert not checked.findings
    assert any("2 of 3 switches have no forwarding table" in one.render() for one in checked.problems)
    (tmp_path / "one.lft").write_text(table(place["leaf0"], whole[:2]))
    (gap,) = audit(found, gather([tmp_path / "one.lft"], [])).findings
    assert (gap.kind, gap.a) == ("no-route", "leaf0")
    assert "2 of 4 destinations" in gap.detail
    (tmp_path / "other.lft").write_text(table(0xDEAD, whole))
    other = audit(found, gather([tmp_path / "other.lft"], []))
    assert any("no forwarding table belongs to a switch of this network" in one.render() for one in other.problems)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_a_file_that_was_cut_off_is_audited_by_what_the_neighbours_say(share):
    """Switches stand first: a pulled cable is named whether the hosts are described or not."""
    drawn_ = leaf_spine(8, 4, 8)
    ends = set(drawn_.pull(drawn_.between("leaf1", "spine2")[0]))
    text = drawn_.text()
    cut = max(int(len(text) * share), text.index('"node0000"'))
    found = ibnetdiscover.read(text[:cut], "cut")
    checked = audit(found)
    assert [{one.a, one.b} for one in checked.findings] == [ends]
    assert any("may be cut off" in one.render() for one in checked.problems)


def test_names_from_outside_cannot_steer_a_terminal(tmp_path, capsys):
    drawn_ = leaf_spine(4, 4, 4)
    drawn_.pull(drawn_.between("leaf1", "spine2")[0])
    (tmp_path / "f").write_text(drawn_.text().replace('"leaf1"', '"leaf1\x1b[31m\u202e<script>"'))
    assert guard.run(["audit", "--ibnetdiscover", str(tmp_path / "f")]) == 0
    out, err = capsys.readouterr()
    assert "\x1b" not in out + err
    assert "\u202e" not in out + err
    assert "<script>" in out  # words, and nothing else


def test_the_command_takes_all_of_it(tmp_path, capsys):
    (tmp_path / "fabric.txt").write_text(leaf_spine(4, 4, 4).text())
    (tmp_path / "cables.csv").write_text(netbox_csv(fabric()))
    write(tmp_path / "said", {"leaf1.bgp.json": {"peers": {"6": {"state": "Idle"}}}})
    given = ["audit", "--ibnetdiscover", str(tmp_path / "fabric.txt"), "--with", str(tmp_path / "said"), "--json"]
    assert guard.run(given) == 0
    out = json.loads(capsys.readouterr().out)
    assert [one["kind"] for one in out["findings"]] == ["session-down"]
    assert out["design"]["reports"] == {"BGP sessions": 1}
    assert guard.run([*given, "--netbox", str(tmp_path / "cables.csv")]) == 0
    assert json.loads(capsys.readouterr().out)["findings"][0]["usd_per_month"] > 0
    assert guard.run(["audit", "--netbox", str(tmp_path / "cables.csv")]) == 0
    (tmp_path / "nothing").mkdir()
    assert guard.run([*given[:3], "--with", str(tmp_path / "nothing")]) == 2
    assert "there is no file in the folder" in capsys.readouterr().err
    assert guard.run(["audit", "--with", str(tmp_path / "said")]) == 2
