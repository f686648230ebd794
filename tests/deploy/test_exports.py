"""A plan for other programs: NetBox's import tables, zones of names, a lab of containers."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
from ipaddress import ip_address

import polars as pl
import pytest
import yaml

from railyard.ask.audit.audit import audit_plan
from railyard.ask.deploy.emit import labs, netbox, tables
from railyard.cluster.asbuilt import netbox as netbox_reader
from railyard.cluster.network_table import DIALECTS

from .scenarios import draft, planned

PATHS = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


@pytest.fixture(scope="module")
def scenario():
    return draft(64, "leaf-spine", "roce", front_end={"topology": "leaf-spine"})


@pytest.fixture(scope="module")
def plan(scenario):
    return planned(scenario)


@pytest.fixture(scope="module")
def frames(plan):
    return dict(netbox.files(plan, DIALECTS["sonic"]))


def test_what_netbox_would_hold_is_the_plan(scenario, frames, tmp_path):
    """Its own table of cables, read back as a discovery and audited against the plan: nothing is wrong."""
    file = tmp_path / "cables.csv"
    frames["10-cables.csv"].write_csv(file)
    found = audit_plan(netbox_reader.read(file), scenario)
    assert len(found.findings) == 0


def test_every_reference_of_netbox_is_to_a_row_of_an_earlier_table(plan, frames):
    devices, interfaces, cables = (frames[name] for name in ("06-devices.csv", "07-interfaces.csv", "10-cables.csv"))
    assert set(devices["rack"]) == set(frames["05-racks.csv"]["name"])
    assert set(devices["device_type"]) == set(frames["04-device-types.csv"]["model"])
    assert set(devices["role"]) == set(frames["03-device-roles.csv"]["slug"])
    ports = set(interfaces.select("device", "name").rows())
    assert len(ports) == len(interfaces)
    for side in "ab":
        assert set(cables.select(f"side_{side}_device", f"side_{side}_name").rows()) <= ports
    assert set(frames["11-ip-addresses.csv"].select("device", "interface").rows()) <= ports
    assert cables["type"].unique().to_list() == ["dac-passive"]
    assert interfaces.filter(pl.col("name") == "be3")["speed"].unique().to_list() == [400_000_000]
    assert len(cables) == len(plan.cables)


def test_media_have_netbox_types():
    frame = dict(netbox.files(planned(draft(256, "leaf-spine", "roce")), DIALECTS["sonic"]))["10-cables.csv"]
    assert set(frame["type"]) <= {"dac-passive", "dac-active", "aoc", "smf-os2", "mmf-om4"}


def test_zones_agree_forwards_and_backwards(plan):
    files = dict(labs.files(plan))
    forward, backward = files["dns/cluster.internal.zone"], files["dns/10.in-addr.arpa.zone"]
    names = {}
    for line in forward.splitlines():
        words = line.split()
        if words[2:3] == ["A"]:
            names.setdefault(words[3], []).append(words[0])
    pointers = [line.split() for line in backward.splitlines() if " PTR " in line]
    assert len(pointers) == len(tables.addresses(plan)) + int((plan.devices.level > 0).sum())
    for owner, _, _, name in pointers:
        address = ".".join(["10", *reversed(owner.split("."))])
        assert name.removesuffix(f".{labs.ZONE}") in names[str(ip_address(address))]
    assert "node0 IN A 10.0.0.1\n" in forward
    assert "node0-be7 IN AAAA fd00:1::a00:f\n" in forward


def test_ipv6_backwards_by_hand(plan):
    """fd00:1::a00:f, the address of node0's be7: 32 digits, the last first, without the `fd00` of the zone."""
    zone = dict(labs.files(plan))["dns/0.0.d.f.ip6.arpa.zone"]
    digits = "f.0.0.0.0.0.a.0" + ".0" * 16 + ".1.0.0.0"
    assert f"{digits} IN PTR node0-be7.cluster.internal.\n" in zone
    assert zone.count(" PTR ") == len(tables.addresses(plan))
    for row in tables.addresses(plan).rows(named=True):
        back = ip_address(row["ipv6"]).reverse_pointer.removesuffix(".0.0.d.f.ip6.arpa")
        assert f"{back} IN PTR {row['name']}.{labs.ZONE}\n" in zone


@pytest.mark.skipif(not shutil.which("named-checkzone", path=PATHS), reason="no named-checkzone (Debian: bind9-utils)")
def test_bind_takes_every_zone(plan, tmp_path):
    for name, text in labs.files(plan):
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


def test_a_lab_has_every_device_and_cable_once(plan):
    document = yaml.safe_load(io.StringIO(labs.lab(plan, "railyard")))
    nodes, links = document["topology"]["nodes"], document["topology"]["links"]
    assert set(nodes) == set(plan.devices.name)
    assert len(links) == len(plan.cables)
    ends = [end for link in links for end in link["endpoints"]]
    assert len(set(ends)) == len(ends)
    assert {end.split(":")[0] for end in ends} == set(nodes)
    assert all(len(end.split(":")[1]) <= 15 for end in ends)
    assert nodes["be-leaf0"]["binds"] == ["switches/be-leaf0.frr.conf:/etc/frr/frr.conf"]
    assert nodes["node1"]["exec"][0] == "ip address add 10.0.0.17/31 dev be0"


def test_a_lab_of_infiniband_or_of_a_hall_is_none():
    assert labs.lab(planned(draft(16)), "x") is None
    assert labs.lab(planned(draft(2048, "leaf-spine", "roce")), "x") is None
