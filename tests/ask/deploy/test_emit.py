"""What a plan is written as: configurations read back, tables, drawings, a folder that is complete or not there."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from ipaddress import ip_address
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.ask.audit.audit import audit_plan
from railyard.ask.deploy.cabling import LEAF_AS, SPINE_AS, addresses_of, ipv4
from railyard.ask.deploy.emit import configurations, folder, labs, netbox, tables
from railyard.ask.deploy.emit.intent import hosts, switches
from railyard.ask.deploy.emit.labs import infragraph
from railyard.ask.deploy.files import replaced
from railyard.ask.deploy.system import WORDS, system_named, system_names, systems
from railyard.cluster.asbuilt import netbox as netbox_reader
from railyard.cluster.network_table import DIALECTS
from railyard.kit.errors import InputError

from .scenarios import draft, planned


@pytest.fixture(scope="module")
def plan():
    return planned(draft(256, "leaf-spine", "roce", front_end={"topology": "leaf-spine"}))


@pytest.fixture(scope="module")
def intents(plan):
    return list(switches(plan, 0, DIALECTS["sonic"]))


@pytest.mark.parametrize("system", system_names())
def test_every_file_says_what_was_meant(plan, system):
    seen = [name for name, _ in configurations.files(plan, system) if name.startswith("switches/")]
    assert len(seen) == int((plan.devices.level > 0).sum())
    for intent in switches(plan, 0, DIALECTS[system]):
        text = systems.get(system).render(intent)
        assert systems.get(system).differences(intent, text) == []


@pytest.mark.parametrize("system", ["sonic", "eos", "junos"])
def test_queues_that_are_shipped_as_comments_are_noticed(plan, system):
    intent = next(switches(plan, 0, DIALECTS[system]))
    text = systems.get(system).render(intent)
    if system == "sonic":
        document = json.loads(text)
        document["#PORT_QOS_MAP"], document["PORT_QOS_MAP"] = document["PORT_QOS_MAP"], {}
        text = json.dumps(document)
    else:
        text = re.sub(r"(?m)^(.*(priority-flow-control|congestion-notification-profile).*)$", r"# \1", text)
    assert any(words.startswith(f"{WORDS['pfc']}: ") for words in systems.get(system).differences(intent, text))


@pytest.mark.parametrize("system", system_names())
def test_a_changed_number_is_noticed(plan, system):
    intent = next(switches(plan, 0, DIALECTS[system]))
    text = systems.get(system).render(intent)
    for old, new, key in ((str(intent.asn), str(intent.asn + 1), "asn"), (intent.loopback, "10.9.9.9", "loopback")):
        wrong = systems.get(system).differences(intent, text.replace(old, new))
        assert any(words.startswith(f"{WORDS[key]}: ") for words in wrong)


def test_sonic_holds_what_is_under_way_on_each_cable(intents):
    """Each port's buffer has the room for its own rate and length."""
    from railyard.ask.deploy.emit.intent import headroom
    from railyard.ask.deploy.systems.sonic import render

    tables = json.loads(render(intents[0]))
    for port, metres in tables["CABLE_LENGTH"]["AZURE"].items():
        profile = tables["BUFFER_PROFILE"][tables["BUFFER_PG"][f"{port}|3"]["profile"]]
        rate = int(tables["PORT"][port]["speed"]) * 10**6
        room = headroom(rate, float(metres.removesuffix("m")))
        assert (int(profile["xon"]), int(profile["xoff"]), int(profile["size"])) == (room.xon, room.xoff, room.size)
    assert tables["WRED_PROFILE"]["AZURE_LOSSLESS"]["green_min_threshold"] == "150000"
    assert tables["WRED_PROFILE"]["AZURE_LOSSLESS"]["green_drop_probability"] == "20"


def test_sonic_holds_what_the_switch_of_the_plan_needs():
    """Spectrum-3 has nothing under way inside; Tomahawk 5 is taken for Spectrum-4, with 120 ns at 400 Gb/s."""
    from railyard.ask.deploy.systems.sonic import render

    def xoff(**switch):
        one = draft(64, "leaf-spine", "roce").with_values(
            {f"cluster.back_end.{key}": value for key, value in switch.items()}, "a test"
        )
        tables = json.loads(render(next(switches(planned(one), 0, DIALECTS["sonic"]))))
        port, metres = sorted(tables["CABLE_LENGTH"]["AZURE"].items())[0]
        profile = tables["BUFFER_PROFILE"][tables["BUFFER_PG"][f"{port}|3"]["profile"]]
        return int(profile["xoff"]), float(metres.removesuffix("m"))

    for found, inside in ((xoff(), 6000), (xoff(switch="spectrum-3-sn4700"), 0)):
        bytes_on_way = 9216 + found[1] * 2 / 198e6 * 400e9 / 8 + 819.2 + 57_920 + inside
        assert found[0] - 1024 < 3 * bytes_on_way + 4178 <= found[0]


def test_numbers_of_systems_follow_rfc_7938(plan):
    """A number for each leaf; the spines that share leafs share theirs, so that no path goes down and up again."""
    numbers = addresses_of(planned(draft(4096, "three-tier", "roce")))
    three = planned(draft(4096, "three-tier", "roce"))
    leaf, spine, core = (numbers.asn[three.devices.level == level] for level in (1, 2, 3))
    assert len(set(leaf.tolist())) == len(leaf)
    assert leaf.min() == LEAF_AS
    pods = {}
    for a, b in zip(three.cables.a, three.cables.b, strict=True):
        if three.devices.level[a] == 1:
            pods.setdefault(int(numbers.asn[b]), set()).add(int(a))
    assert sum(len(leafs) for leafs in pods.values()) == len(leaf)
    assert set(spine.tolist()) == set(pods)
    assert len(set(core.tolist())) == 1
    assert min(pods) >= SPINE_AS
    two = addresses_of(plan)
    assert len(set(two.asn[(plan.devices.level == 2) & (plan.devices.network == "back-end")].tolist())) == 1


def test_addresses_are_unique_and_pairs_share_a_network(plan):
    frame = tables.addresses(plan)
    both = frame["ipv4"].to_list() + frame["switch_ipv4"].to_list()
    assert len(set(both)) == len(both)
    row = frame.row(3, named=True)
    assert (row["switch_ipv4"], row["ipv4"]) == (ipv4(0x0A000006), "10.0.0.7")
    assert (row["switch_ipv6"], row["ipv6"]) == ("fd00:1::a00:6", "fd00:1::a00:7")
    names = [(host.name, interface) for host in hosts(plan) for interface, *_ in host.interfaces]
    assert len(set(names)) == len(names) == len(frame)


def test_the_table_of_cables_has_every_end_once(plan):
    frame = tables.cables(plan, DIALECTS["sonic"])
    ends = pl.concat([frame.select(d=f"{side}_device", p=f"{side}_port") for side in "ab"])
    assert ends.is_unique().all()
    assert frame["label"].is_unique().all()
    assert frame["pull"].to_list() == list(range(len(frame)))


def test_a_folder_is_written_in_full_and_replaced_in_full(plan, tmp_path):
    out = tmp_path / "plan"
    for _ in range(2):
        names = folder.write(plan, out, "frr", "<script>alert(1)</script>", lambda *_: None)
    tables_and_zones = {"addresses.csv", "bill.csv", "cables.csv", "devices.csv", "racks.csv", "dns", "netbox"}
    networks = {"back-end.dot", "front-end.dot", "infragraph.json", "railyard.clab.yml"}
    drawings = {"hall.svg", "index.html", "racks.svg"}
    assert set(names) == tables_and_zones | networks | drawings | {"servers", "switches"}
    assert [path.name for path in tmp_path.iterdir()] == ["plan"]
    page = (out / "index.html").read_text()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert page.count("<script") == 1, "the page's own, which sorts tables"
    drawing = ET.fromstring((out / "racks.svg").read_text())
    drawn = {text.text for text in drawing.iter("{http://www.w3.org/2000/svg}text")}
    assert set(plan.devices.name) <= drawn
    rows = list(csv.DictReader(io.StringIO((out / "bill.csv").read_text())))
    assert {row["item"] for row in rows} >= {"h100-sxm", "hgx-h100"}
    topology = ET.fromstring((out / "servers" / "nccl-topology.xml").read_text())
    assert len(list(topology.iter("gpu"))) == len(list(topology.iter("net"))) == 8
    assert {net.get("speed") for net in topology.iter("net")} == {"400000"}


def test_a_folder_of_something_else_is_left_alone(plan, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="holds something else"):
        folder.write(plan, tmp_path, "frr", "x", lambda *_: None)
    assert [path.name for path in Path(tmp_path).iterdir()] == ["mine.txt"]
    with pytest.raises(InputError, match="did you mean `junos`"):
        system_named("junes")


# A plan for other programs: NetBox's import tables, zones of names, a lab of containers.

PATHS = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


@pytest.fixture(scope="module")
def scenario():
    return draft(64, "leaf-spine", "roce", front_end={"topology": "leaf-spine"})


@pytest.fixture(scope="module")
def exports_plan(scenario):
    return planned(scenario)


@pytest.fixture(scope="module")
def frames(exports_plan):
    return dict(netbox.files(exports_plan, DIALECTS["sonic"]))


def test_what_netbox_would_hold_is_the_plan(scenario, frames, tmp_path):
    """Its own table of cables, read back as a discovery and audited against the plan: nothing is wrong."""
    file = tmp_path / "cables.csv"
    frames["10-cables.csv"].write_csv(file)
    found = audit_plan(netbox_reader.read(file), scenario)
    assert len(found.findings) == 0


def test_every_reference_of_netbox_is_to_a_row_of_an_earlier_table(exports_plan, frames):
    devices, interfaces, cables = (frames[name] for name in ("06-devices.csv", "07-interfaces.csv", "10-cables.csv"))
    assert set(devices["rack"]) == set(frames["05-racks.csv"]["name"])
    assert set(devices["device_type"]) == set(frames["04-device-types.csv"]["model"])
    assert set(devices["role"]) == set(frames["03-device-roles.csv"]["slug"])
    ports = set(interfaces.select("device", "name").rows())
    assert len(ports) == len(interfaces)
    for side in "ab":
        assert set(cables.select(f"side_{side}_device", f"side_{side}_name").rows()) <= ports
    assert set(frames["11-ip-addresses.csv"].select("device", "interface").rows()) <= ports
    assert cables["type"].unique().to_list() == ["dac-active"]  # routes of 4 m and more: retimed copper
    assert interfaces.filter(pl.col("name") == "be3")["speed"].unique().to_list() == [400_000_000]
    assert len(cables) == len(exports_plan.cables)


def test_media_have_netbox_types():
    frame = dict(netbox.files(planned(draft(256, "leaf-spine", "roce")), DIALECTS["sonic"]))["10-cables.csv"]
    assert set(frame["type"]) <= {"dac-passive", "dac-active", "aoc", "smf-os2", "mmf-om4"}


def test_zones_agree_forwards_and_backwards(exports_plan):
    files = dict(labs.files(exports_plan))
    forward, backward = files["dns/cluster.internal.zone"], files["dns/10.in-addr.arpa.zone"]
    names = {}
    for line in forward.splitlines():
        words = line.split()
        if words[2:3] == ["A"]:
            names.setdefault(words[3], []).append(words[0])
    pointers = [line.split() for line in backward.splitlines() if " PTR " in line]
    assert len(pointers) == len(tables.addresses(exports_plan)) + int((exports_plan.devices.level > 0).sum())
    for owner, _, _, name in pointers:
        address = ".".join(["10", *reversed(owner.split("."))])
        assert name.removesuffix(f".{labs.ZONE}") in names[str(ip_address(address))]
    assert "node0 IN A 10.0.0.1\n" in forward
    assert "node0-be7 IN AAAA fd00:1::a00:f\n" in forward


def test_ipv6_backwards_by_hand(exports_plan):
    """fd00:1::a00:f, the address of node0's be7: 32 digits, the last first, without the `fd00` of the zone."""
    zone = dict(labs.files(exports_plan))["dns/0.0.d.f.ip6.arpa.zone"]
    digits = "f.0.0.0.0.0.a.0" + ".0" * 16 + ".1.0.0.0"
    assert f"{digits} IN PTR node0-be7.cluster.internal.\n" in zone
    assert zone.count(" PTR ") == len(tables.addresses(exports_plan))
    for row in tables.addresses(exports_plan).rows(named=True):
        back = ip_address(row["ipv6"]).reverse_pointer.removesuffix(".0.0.d.f.ip6.arpa")
        assert f"{back} IN PTR {row['name']}.{labs.ZONE}\n" in zone


@pytest.mark.skipif(not shutil.which("named-checkzone", path=PATHS), reason="no named-checkzone (Debian: bind9-utils)")
def test_bind_takes_every_zone(exports_plan, tmp_path):
    for name, text in labs.files(exports_plan):
        file = tmp_path / name.replace("/", "-")
        file.write_text(text)
        origin = name.removeprefix("dns/").removesuffix("zone")
        command = [shutil.which("named-checkzone", path=PATHS), "-i", "none", origin, str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
        assert done.stdout.rstrip().endswith("OK")
        if "PTR" in text:
            file.write_text(text.replace(" IN PTR ", " IN PTR x..", 1))
            assert subprocess.run(command, capture_output=True, check=False).returncode != 0


def test_a_lab_has_every_device_and_cable_once(exports_plan):
    document = yaml.safe_load(io.StringIO(labs.lab(exports_plan, "railyard")))
    nodes, links = document["topology"]["nodes"], document["topology"]["links"]
    assert set(nodes) == set(exports_plan.devices.name)
    assert len(links) == len(exports_plan.cables)
    ends = [end for link in links for end in link["endpoints"]]
    assert len(set(ends)) == len(ends)
    assert {end.split(":")[0] for end in ends} == set(nodes)
    assert all(len(end.split(":")[1]) <= 15 for end in ends)
    assert nodes["be-leaf0"]["binds"] == ["switches/be-leaf0.frr.conf:/etc/frr/frr.conf"]
    assert nodes["node1"]["exec"][0] == "ip address add 10.0.0.17/31 dev be0"


def test_a_lab_of_infiniband_or_of_a_hall_is_none():
    assert labs.lab(planned(draft(16)), "x") is None
    assert labs.lab(planned(draft(2048, "leaf-spine", "roce")), "x") is None


# Folders that appear whole: what a killed process left beside them.


def written(out):
    return replaced(out, "plan.json", [("plan.json", "{}"), ("switches/one", "x")], lambda *_: None)


def test_what_a_killed_process_left_goes_and_a_folder_that_it_had_moved_comes_back(tmp_path):
    """Killed between two renames, the earlier folder lies aside, with notes that its reader put there."""
    out = tmp_path / "deployed"
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    written(out)
    (out / "notes.txt").write_text("mine", encoding="utf-8")
    out.rename(tmp_path / f".deployed.{ended.pid}-old")
    (tmp_path / f".deployed.{ended.pid}").mkdir()
    (tmp_path / ".deployed.by-hand").mkdir()
    assert written(out) == ["plan.json", "switches"]
    assert (out / "notes.txt").read_text(encoding="utf-8") == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".deployed.by-hand", "deployed"]


# Names from outside stay names: in tables, drawings, pages and documents.

NASTY = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        ['"><script>alert(1)</script>', "a,b\nc", "=cmd()", "x'; drop", "]]>", "&amp;", "leaf[0:9].port", "\\\\"]
    ),
).filter(lambda text: text.strip() and "\x00" not in text)


@pytest.fixture(scope="module")
def injection_plan():
    one = draft(256, "leaf-spine", "roce", front_end={"topology": "leaf-spine"})
    return planned(one.with_values({"cluster.back_end.patch_panels": "switches"}, "a test"))


def called(plan, box, tier):
    """The plan with a box and a medium that somebody else named."""
    boxes = plan.devices.box.copy()
    boxes[plan.devices.level > 0] = box
    devices = dataclasses.replace(plan.devices, box=boxes)
    tiers = tuple(dataclasses.replace(one, medium=tier) for one in plan.tiers)
    return dataclasses.replace(plan, devices=devices, tiers=tiers)


@settings(max_examples=60, deadline=None)
@given(NASTY, NASTY, NASTY)
def test_whatever_boxes_and_media_are_called(injection_plan, box, medium, title):
    tables.cables.cache_clear()
    tables.devices.cache_clear()
    one = called(injection_plan, box, medium)
    document = json.loads(infragraph(one, title))
    names = [row["name"] for key in ("devices", "instances", "links") for row in document[key]]
    assert all(re.fullmatch(r"[A-Za-z0-9_-]+", name) for name in (document["name"], *names))
    assert len(set(names)) == len(names)
    for drawing in (folder.hall(one), folder.elevation(one)):
        assert "script" not in {element.tag.rsplit("}", 1)[-1] for element in ET.fromstring(drawing).iter()}
    assert folder.page(one, title, "sonic").count("<script") == 1, "the page's own, which sorts tables"
    for _, frame in netbox.files(one, DIALECTS["sonic"]):
        text = frame.write_csv()
        rows = list(csv.reader(io.StringIO(text, newline="")))
        assert len(rows) == len(frame) + 1
        assert {len(row) for row in rows} == {len(frame.columns)}
    tables.cables.cache_clear()
    tables.devices.cache_clear()


@settings(max_examples=30, deadline=None)
@given(st.lists(NASTY, min_size=1, max_size=4))
def test_whatever_devices_are_called_drawings_are_drawings(injection_plan, names):
    renamed = list(injection_plan.devices.name)
    renamed[: len(names)] = names
    one = dataclasses.replace(injection_plan, devices=dataclasses.replace(injection_plan.devices, name=renamed))
    drawing = ET.fromstring(
        re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]", "?", folder.elevation(one))
    )
    tags = {element.tag.rsplit("}", 1)[-1] for element in drawing.iter()}
    assert tags <= {"svg", "text", "rect", "tspan"}
    assert np.isfinite(one.racks.power_w).all()
