"""What stands between an accelerator's memory and its NIC's port; every figure is worked out by hand from an HGX H100.

Eight NICs of 400 Gb/s, PCIe of 504 Gb/s an accelerator, host memory of 4,915.2 Gb/s, 960 Gb/s one way between sockets.
"""

from __future__ import annotations

import dataclasses
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from railyard import catalog
from railyard import catalog as catalogs
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec, build
from railyard.cluster.host_path import HostSpec, host_path
from railyard.cluster.nccl import machine, machines
from railyard.cluster.nccl.machine import read, write
from railyard.cluster.nccl.machines import entry_of, machine_of
from railyard.face.cli import guard
from railyard.kit.errors import InputError
from railyard.work.scenario import load
from railyard.work.study import compose, study

KNOWN = catalog.load()
SERVER = KNOWN.server("hgx-h100")
OWN = np.arange(8)[:, None]
SWAPPED = (1, 1, 1, 1, 0, 0, 0, 0)


def path(spec=None, nics_of=OWN, nics=8, **server):
    changed = dataclasses.replace(SERVER, **server)
    return host_path(changed, nics_of, np.full(nics, 400e9), spec or HostSpec())


def test_a_server_as_sold_bounds_nothing():
    found = path()
    assert found.rate_bps.tolist() == [400e9] * 8
    assert not found.latency_ps.any()
    assert found.remarks == ()


def test_all_nics_at_the_other_socket_share_the_link_between_sockets():
    # Towards each socket: what four NICs there send for the other's accelerators, and what four receive for its own.
    found = path(nic_numa=SWAPPED)
    assert found.rate_bps == pytest.approx([960e9 / 8] * 8)
    assert found.latency_ps.tolist() == [2_300_000] * 8
    assert found.remarks == (
        "the link between sockets bounds a NIC at 120 of 400 Gb/s while all NICs of a server send and receive",
    )


def test_nics_of_one_socket_serve_its_accelerators_in_full():
    found = path(nic_numa=(0,) * 8)
    assert found.rate_bps == pytest.approx([400e9] * 4 + [960e9 / 4] * 4)
    assert found.latency_ps.tolist() == [0] * 4 + [2_300_000] * 4


def test_from_device_to_device_across_sockets_is_slower_still():
    found = path(HostSpec(gpudirect="on"), nic_numa=SWAPPED)
    assert found.rate_bps == pytest.approx([176e9 / 8] * 8)
    assert found.latency_ps.tolist() == [300_000] * 8


def test_without_gpudirect_every_byte_is_written_to_host_memory_and_read_again():
    found = path(HostSpec(gpudirect="off"))
    assert found.rate_bps == pytest.approx([4915.2e9 / (8 * 2 * 2)] * 8)
    assert path(HostSpec(gpudirect="off"), host_memory_bps=1e14).rate_bps == pytest.approx([504e9 / 2] * 8)


def test_tcp_copies_once_more_and_takes_cores():
    found = path(HostSpec(transport="tcp"))
    assert found.rate_bps == pytest.approx([4915.2e9 / (8 * 2 * 4)] * 8)
    assert found.cores == pytest.approx(8 * 4 * 76.8 / 84)
    assert found.latency_ps.tolist() == [7_000_000] * 8
    assert path(HostSpec(transport="tcp", tcp_cores=2)).rate_bps == pytest.approx([42e9] * 8)


def test_a_nic_that_two_accelerators_share_may_be_half_away():
    shared = np.repeat(np.arange(4), 2)[:, None]
    found = path(None, shared, 4, accelerator_numa=(0, 0, 0, 1, 1, 1, 1, 1), nic_numa=(0, 0, 1, 1), socket_bps=100e9)
    assert found.rate_bps == pytest.approx([400e9, 100e9 / (0.5 + 0), 400e9, 400e9])


def test_links_of_nics_have_the_rate_and_latency_of_their_path():
    spec = NetworkSpec(fabric=FabricSpec("infiniband"), link_rate_bps=200e9)
    one_socket = {"server": {"nic_numa": (0,) * 8}}
    plain, bound = (build(ClusterSpec(32, "hgx-h100", spec, overrides=more), KNOWN) for more in ({}, one_socket))
    ports = bound.back_end.port_of_rank[:8, 0]
    out = np.array([int(bound.back_end.port_links(int(port))[0][0]) for port in ports])
    assert bound.links.rate_bps[out] == pytest.approx(plain.links.rate_bps[out])  # 240 of the host, 200 of the link
    assert (bound.links.latency_ps - plain.links.latency_ps)[out].tolist() == [0] * 4 + [2_300_000] * 4


def test_a_bounce_buffer_bounds_what_leaves_an_accelerator():
    """Confidential computing: 4 GB/s an H100 by the catalogue, 6 as given; without a figure none is made up."""

    def rate(server, **host):
        network = NetworkSpec(host=HostSpec("bounce", **host))
        return build(ClusterSpec(16, server, network), catalog.load()).plans["back_end"].host

    assert rate("hgx-h100").rate_bps.tolist() == [32e9] * 8
    assert rate("hgx-h100", bounce_bps=48e9).rate_bps.tolist() == [48e9] * 8
    assert "the encrypted bounce buffer bounds a NIC at 32 of 400 Gb/s" in rate("hgx-h100").remarks[0]
    assert (rate("hgx-h100").latency_ps >= 2_000_000).all()  # it goes through host memory
    with pytest.raises(InputError, match="no rate of an encrypted bounce buffer is published for b200"):
        rate("hgx-b200")
    with pytest.raises(InputError, match="only confidential computing has a bounce buffer"):
        HostSpec("off", bounce_bps=32e9)


# NCCL's files of machines: read into a model, written from it, and made servers of the catalogue.

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


# What a switch states of its latency reaches messages: as far as it differs from the fabric's usual switch.

US = 10**6


def built(back_end: dict[str, Any], **cluster: Any):
    values = {
        "name": "p",
        "cluster": {
            **{"accelerators": 128, "server": "hgx-h100"},
            "back_end": {"topology": {"kind": "leaf-spine", "ports_per_leaf": 32}, "fabric": "roce", **back_end},
            **cluster,
        },
        "workload": {
            "training": {
                **{"model": "llama-3-8b", "global_batch": 128, "sequence": 2048},
                "parallelism": {"tp": 2, "pp": 1},
            }
        },
    }
    draft = load.from_values(values)
    return draft, compose.cluster_of(draft, compose.catalog_of(draft))


def paths_ps(cluster) -> tuple[int, int]:
    """From the first NIC to its neighbour under the same leaf, and to the last of all."""
    ports = cluster.back_end.port_of_rank[:, 0]
    found = cluster.back_end.path_latency_ps(ports[[0, 0]], ports[[8, -1]])
    return int(np.atleast_1d(found)[0]), int(np.atleast_1d(found)[-1])


USUAL = built({})[1]
HOP = USUAL.fabric.hop_latency_ps


@pytest.mark.parametrize(
    ("back_end", "cluster", "leaf_us", "spine_us"),
    [
        ({"switch": "tomahawk-ultra"}, {}, 0.25 - 1.0, 0.25 - 1.0),
        ({"spine_switch": "arista-7800r4"}, {}, 0.0, 3.0 - 1.0),
        ({}, {"overrides": {"switch": {"latency": "1.6 us"}}}, 0.6, 0.6),
        ({"switch": "tomahawk-5"}, {}, 0.0, 0.0),
        ({"switch": "tomahawk-ultra", "fabric": {"name": "roce", "hop_latency": "2 us"}}, {}, 1.1, 1.1),
    ],
)
def test_a_message_takes_as_much_longer_as_its_switches_do(back_end, cluster, leaf_us, spine_us):
    """Under one leaf a message meets that leaf; over a spine two leafs and the spine."""
    _, machine = built(back_end, **cluster)
    cables = [np.array([run.delay_ps for run in one.plans["back_end"].runs]) for one in (USUAL, machine)]
    more = (cables[1] - cables[0]).tolist()  # other boxes may take other cables
    near, far = (now - before for now, before in zip(paths_ps(machine), paths_ps(USUAL), strict=True))
    assert near == pytest.approx(leaf_us * US + 2 * more[0], abs=1)
    assert far == pytest.approx((2 * leaf_us + spine_us) * US + 2 * more[0] + 2 * more[1], abs=1)


def test_the_fabrics_hop_is_that_of_its_usual_switches():
    plan = USUAL.plans["back_end"]
    assert set(plan.hop_ps.tolist()) == {HOP}
    assert HOP == 900_000


def test_steps_of_flow_have_it():
    """Tensor parallelism across servers: one small message after another."""
    steps = []
    for switch in ("tomahawk-ultra", "tomahawk-5", "arista-7800r4"):
        draft, _ = built({"switch": switch, "spine_switch": switch}, accelerators=32)
        values = {"workload.training.parallelism": {"tp": 16, "pp": 1}, "workload.training.global_batch": 4}
        found = study.run(draft.with_values(values, "test"), searched=False).result.variants[0]
        steps.append(found.step.seconds)
    assert steps[0] < steps[1] < steps[2]
    hops = (steps[2] - steps[1]) / 2.0, (steps[1] - steps[0]) / 0.75
    assert hops[0] == pytest.approx(hops[1], rel=0.05)  # so much a microsecond
