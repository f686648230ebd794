"""What a plan is written as: configurations read back, tables, drawings, a folder that is complete or not there."""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import polars as pl
import pytest

from railyard.ask.deploy.cabling import LEAF_AS, SPINE_AS, addresses_of, ipv4
from railyard.ask.deploy.emit import configurations, folder, tables
from railyard.ask.deploy.emit.intent import hosts, switches
from railyard.ask.deploy.system import system_named, system_names, systems
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
    assert any("pfc" in words for words in systems.get(system).differences(intent, text))


@pytest.mark.parametrize("system", system_names())
def test_a_changed_number_is_noticed(plan, system):
    intent = next(switches(plan, 0, DIALECTS[system]))
    text = systems.get(system).render(intent)
    for old, new, key in ((str(intent.asn), str(intent.asn + 1), "asn"), (intent.loopback, "10.9.9.9", "loopback")):
        assert any(words.startswith(key) for words in systems.get(system).differences(intent, text.replace(old, new)))


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
    assert "<script>" not in page
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
