"""NCCL's files of machines: read into a model, written from it, and made servers of the catalogue."""

from __future__ import annotations

import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from railyard import catalog as catalogs
from railyard.cluster.nccl import machine, machines
from railyard.cluster.nccl.machine import read, write
from railyard.cluster.nccl.machines import entry_of, machine_of
from railyard.face.cli import guard
from railyard.kit.errors import InputError

MODELS = Path(__file__).parent / "data" / "rccl-models.tar.gz"

VIRTUAL = """<system version="1">
  <cpu numaid="0" affinity="" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="ffff:ff:01.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0001:00:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16"/>
      <pci busid="0101:00:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16"/>
    </pci>
  </cpu>
</system>
"""
GRAPHS = """<graphs version="1">
  <graph id="0" pattern="4" crossnic="0" nchannels="2" speedintra="12" typeintra="SYS" samechannels="0">
    <channel><gpu dev="0"/><gpu dev="1"/></channel>
    <channel><net dev="1"/><gpu dev="1"/><gpu dev="0"/><net dev="1"/></channel>
  </graph>
</graphs>
"""


@pytest.fixture(scope="module")
def models():
    with tarfile.open(MODELS) as archive:
        files = [member for member in archive.getmembers() if member.name.endswith(".xml")]
        return {member.name: archive.extractfile(member).read().decode() for member in files}


def test_57_machines_are_written_as_they_were_read(models):
    assert len(models) == 57
    for name, text in models.items():
        found = machine.parse(text, name)
        written = write(found)
        assert written.same(read(text, name, "system")), name
        assert machine.parse(written.text(), name) == found, name


def test_machines_have_what_their_names_say(models):
    """Eight MI300X with seven links each and a NIC of 400 Gb/s each; sixteen of older cards on one socket."""
    eight = machine.parse(models["topo_8p_940.xml"], "topo_8p_940.xml")
    assert [domain for domain, _ in eight.accelerators] == [0] * 4 + [1] * 4
    assert {len(one.gpu.links) for _, one in eight.accelerators} == {7}
    assert {net.rate_bps for _, one in eight.nics for net in one.nets} == {400e9}
    sixteen = machine.parse(models["topo_4p4h.xml"], "topo_4p4h.xml")
    assert (len(sixteen.numas), len(sixteen.accelerators), len(sixteen.nics)) == (1, 16, 16)


def test_a_machine_that_was_changed_is_written_changed(models):
    found = machine.parse(VIRTUAL, "v")
    (bridge,) = found.numas[0].below
    gpu, nic = bridge.below
    assert (gpu.kind, nic.kind, gpu.gt_s, gpu.lanes) == ("accelerator", "network", 32.0, 16)
    narrow = replace(bridge, below=(replace(gpu, lanes=8, gt_s=16.0), nic))
    text = write(replace(found, numas=(replace(found.numas[0], below=(narrow,)),))).text()
    assert '<pci busid="0001:00:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="8"/>' in text
    assert text.count('link_width="16"') == 2


def test_servers_are_made_of_machines(models):
    catalog = catalogs.load()
    mi300 = entry_of(machine.parse(models["topo_8p_940.xml"], "m"), catalog, "m")
    assert catalog.server(mi300["extends"]).accelerator == "mi300x"
    assert (mi300["accelerators"], mi300["nics"], mi300["nic"]) == (8, 8, "cx7-400g")
    assert mi300["accelerator_numa"] == mi300["nic_numa"] == [0] * 4 + [1] * 4
    assert mi300["pcie_bandwidth"] == "63.02 GB/s"  # 32 GT/s x 16 lanes x 128/130
    with pytest.raises(InputError, match="which accelerators it has is not in the file"):
        entry_of(machine.parse(VIRTUAL, "v"), catalog, "v")
    virtual = entry_of(machine.parse(VIRTUAL, "v"), catalog, "v", "h100-sxm")
    assert (virtual["accelerators"], virtual["nics"]) == (1, 1)


def test_a_server_of_a_machine_works_in_a_catalogue(tmp_path, models, capsys):
    (tmp_path / "topo.xml").write_text(models["topo_8p_940.xml"])
    assert guard.run(["catalog", "server", str(tmp_path / "topo.xml"), "--name", "ours"]) == 0
    text = capsys.readouterr().out
    (tmp_path / "mine.yaml").write_text(text)
    server = catalogs.load(extra=tmp_path / "mine.yaml").server("ours")
    assert server.accelerator_numa == (0, 0, 0, 0, 1, 1, 1, 1)
    assert server.pcie_bps == pytest.approx(63.02 * 8e9)
    assert list(yaml.safe_load(text)) == ["servers"]


@pytest.mark.parametrize("name", ["hgx-h100", "dgx-a100", "gh200-node", "mi300x-8", "gb200-nvl72"])
def test_machines_of_the_catalogue_are_read_as_they_were_written(name):
    server = catalogs.load().server(name)
    made = machine_of(server, 400e9, server.nics)
    again = machine.parse(write(made).text(), name)
    assert len(again.accelerators) == server.accelerators
    assert [domain for domain, _ in again.accelerators] == list(server.accelerator_numa)
    assert len(again.nics) == server.nics
    assert write(again).same(write(made))


def test_graphs_are_written_as_they_were_read():
    found = machines.parse(GRAPHS, "g")
    assert found[0].channels[1] == machines.Channel((1, 0), ("1", "1"))
    assert machines.write(found).same(read(GRAPHS, "g", "graphs"))


def test_a_graph_enters_and_leaves_by_each_rail():
    server = catalogs.load().server("hgx-h100")
    made = machine_of(server, 400e9, 8)
    ring, tree = machines.rails(made)
    assert (ring.pattern, tree.pattern, len(ring.channels)) == (4, 1, 8)
    for number, channel in enumerate(ring.channels):
        assert channel.nets == (str(number), str(number))
        assert channel.gpus[0] == number
        assert sorted(channel.gpus) == list(range(8))
    assert ring.given["speedinter"] == "50"
    text = machines.write((ring, tree)).text()
    assert machines.write(machines.parse(text, "g")).text() == text
