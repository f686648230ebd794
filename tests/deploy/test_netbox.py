"""A real NetBox: it imports the plan's tables by its own forms, and says the same of every device, cable and address.

Needs an empty NetBox (4.5 or newer) of one's own: RAILYARD_NETBOX is its URL, NETBOX_USER and NETBOX_PASSWORD a
superuser's. What is imported stays there. Run at night.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from railyard.ask.audit.audit import audit_plan
from railyard.ask.deploy.emit import folder, tables
from railyard.cluster.asbuilt import netbox as reader
from railyard.kit.errors import InputError

from .scenarios import draft, planned

URL = os.environ.get("RAILYARD_NETBOX", "")
TOOL = Path(__file__).parents[2] / "tools" / "netbox_round_trip.py"


def patched(accelerators):
    one = draft(accelerators, "leaf-spine", "roce", front_end={"topology": "leaf-spine"})
    values = {"cluster.back_end.patch_panels": "switches", "cluster.back_end.cable_length.leaf-spine": "20 m"}
    return one.with_values(values, "a test")


@pytest.mark.slow
@pytest.mark.skipif(not URL, reason="RAILYARD_NETBOX names no NetBox")
def test_what_netbox_imports_is_the_plan(tmp_path):
    scenario = patched(256)
    plan = planned(scenario)
    folder.write(plan, tmp_path / "plan", "sonic", "a plan", lambda *_: None)
    command = [sys.executable, str(TOOL), str(tmp_path / "plan"), "--url", URL, "--out", str(tmp_path / "back")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not audit_plan(reader.read(tmp_path / "back" / "interfaces.json"), scenario).findings
    with pytest.raises(InputError, match="patch panel"):
        reader.read(tmp_path / "back" / "cables.json")
    back = {
        name: json.loads((tmp_path / "back" / f"{name}.json").read_text())
        for name in ("devices", "cables", "ip-addresses")
    }
    mine = pl.read_csv(tmp_path / "plan" / "netbox" / "10-cables.csv")
    cables = {(one["label"], one["length"], one["type"]) for one in back["cables"]}
    assert cables == set(mine.select("label", "length", "type").rows())
    stands = {(one["name"], one["rack"]["name"], int(one["position"])) for one in back["devices"]}
    assert {
        (name, rack, unit) for name, rack, unit in tables.devices(plan).select("device", "rack", "unit").rows()
    } <= stands
    assert len(stands) == len(plan.devices) + len(plan.racks.patching.panel_rack)
    named = {(one["address"].split("/")[0], one["dns_name"]) for one in back["ip-addresses"]}
    assert set(tables.addresses(plan).select("ipv4", "name").rows()) <= named


def test_tables_of_panels_name_ports_that_are_there(tmp_path):
    from railyard.ask.deploy.emit import netbox
    from railyard.cluster.network_table import DIALECTS

    frames = dict(netbox.files(planned(patched(256)), DIALECTS["sonic"]))
    interfaces, rear, front, cables = (
        frames[f"{name}.csv"] for name in ("07-interfaces", "08-rear-ports", "09-front-ports", "10-cables")
    )
    ports = {("dcim.interface", *row) for row in interfaces.select("device", "name").rows()}
    ports |= {("dcim.rearport", *row) for row in rear.select("device", "name").rows()}
    ports |= {("dcim.frontport", *row) for row in front.select("device", "name").rows()}
    ends = [
        row
        for side in "ab"
        for row in cables.select(f"side_{side}_type", f"side_{side}_device", f"side_{side}_name").rows()
    ]
    assert len(set(ends)) == len(ends)
    assert set(ends) <= ports
    assert len(front) == 12 * len(rear)
    assert set(front.select("device", "rear_port").rows()) == set(rear.select("device", "name").rows())
    assert set(frames["06-devices.csv"]["name"]) >= set(rear["device"])
    file = tmp_path / "cables.csv"
    cables.write_csv(file)
    with pytest.raises(InputError, match="patch panel"):
        reader.read(file)


def test_interfaces_that_netbox_followed_are_cables(tmp_path):
    """Two rows a cable, each with what lies at the far end; interfaces without one have none."""
    rows = [
        {
            "device": {"name": "node0"},
            "name": "be0",
            "connected_endpoints": [{"device": {"name": "leaf0"}, "name": "1"}],
        },
        {
            "device": {"name": "leaf0"},
            "name": "1",
            "connected_endpoints": [{"device": {"name": "node0"}, "name": "be0"}],
        },
        {"device": {"name": "leaf0"}, "name": "Loopback0", "connected_endpoints": None},
        {"name": "nobody's", "connected_endpoints": None},
    ]
    file = tmp_path / "interfaces.json"
    file.write_text(json.dumps({"count": 4, "results": rows}))
    found = reader.read(file)
    assert len(found.cables) == 1
    assert {device.name for device in found.devices} == {"node0", "leaf0"}
    assert [problem.message for problem in found.problems] == ["interface 4 is not as NetBox writes it"]
