"""Ports that wait are followed to who lets them wait; what erring and waiting ports cost where the cluster is known."""

import json

import pytest

from railyard.ask.observe.answer import cluster_of, parts_of, traced_usd_per_hour
from railyard.face.cli import guard

FABRIC = """
Switch  40 "S-000000000000000a"  # "leaf1" enhanced port 0 lid 11 lmc 0
[1]  "H-0000000000000101"[1](101)  # "n1 mlx5_0" lid 1 4xNDR
[2]  "H-0000000000000102"[1](102)  # "n2 mlx5_0" lid 2 4xNDR
[9]  "S-000000000000000c"[1]  # "spine1" lid 13 4xNDR

Switch  40 "S-000000000000000b"  # "leaf2" enhanced port 0 lid 12 lmc 0
[1]  "H-0000000000000103"[1](103)  # "n3 mlx5_0" lid 3 4xNDR
[2]  "H-0000000000000104"[1](104)  # "n4 mlx5_0" lid 4 4xNDR
[9]  "S-000000000000000c"[2]  # "spine1" lid 13 4xNDR

Switch  40 "S-000000000000000c"  # "spine1" enhanced port 0 lid 13 lmc 0
[1]  "S-000000000000000a"[9]  # "leaf1" lid 11 4xNDR
[2]  "S-000000000000000b"[9]  # "leaf2" lid 12 4xNDR

Ca  1 "H-0000000000000101"  # "n1 mlx5_0"
[1](101)  "S-000000000000000a"[1]  # lid 1 lmc 0 "leaf1" lid 11 4xNDR
Ca  1 "H-0000000000000102"  # "n2 mlx5_0"
[1](102)  "S-000000000000000a"[2]  # lid 2 lmc 0 "leaf1" lid 11 4xNDR
Ca  1 "H-0000000000000103"  # "n3 mlx5_0"
[1](103)  "S-000000000000000b"[1]  # lid 3 lmc 0 "leaf2" lid 12 4xNDR
Ca  1 "H-0000000000000104"  # "n4 mlx5_0"
[1](104)  "S-000000000000000b"[2]  # lid 4 lmc 0 "leaf2" lid 12 4xNDR
"""
CLUSTER = """
cluster:
  accelerators: 16
  server: hgx-h100
  back_end: {topology: {kind: leaf-spine, ports_per_leaf: 16, spines: 4}, fabric: infiniband}
"""


def perfquery(ports):
    return "".join(
        f"# Port counters: Lid {lid} port {port} (CapMask: 0x1300)\nPortXmitWait:....................{waited}\n"
        f"SymbolErrorCounter:....................{errors}\n"
        for lid, port, waited, errors in ports
    )


@pytest.fixture
def diagnosed(tmp_path, capsys):
    def call(ports, *, fabric=True, cluster=False):
        folder = tmp_path / "counters"
        folder.mkdir()
        (folder / "perfquery.txt").write_text(perfquery(ports), encoding="utf-8")
        if fabric:
            (folder / "ibnetdiscover.txt").write_text(FABRIC, encoding="utf-8")
        (tmp_path / "cluster.yaml").write_text(CLUSTER, encoding="utf-8")
        more = ["--cluster", str(tmp_path / "cluster.yaml")] if cluster else []
        assert guard.run(["diagnose", str(folder), "--json", *more]) == 0
        shown = capsys.readouterr()
        return json.loads(shown.out), shown.err

    return call


def test_waiting_is_followed_to_the_host_that_takes_slowly(diagnosed):
    """n1 waits for leaf1, whose uplink waits for spine1, whose port waits for leaf2, whose port waits for n3."""
    ports = [(1, 1, 5000, 0), (11, 9, 8000, 0), (13, 2, 9000, 0), (12, 1, 10000, 0), (12, 2, 40, 0), (2, 1, 0, 0)]
    answer, _ = diagnosed(ports)
    (suspect,) = answer["verdict"]
    assert (suspect["part"], suspect["kind"], suspect["confidence"]) == ("n3 mlx5_0", "nic", 0.6)
    assert "100% of all waiting" in suspect["evidence"]
    assert not answer["unknown"]


def test_waiting_that_ends_in_a_switch_names_nobody(diagnosed):
    """Two hosts wait for leaf1, none of whose ports waits."""
    answer, words = diagnosed([(1, 1, 5000, 0), (2, 1, 6000, 0), (11, 9, 10, 0)])
    assert answer["verdict"] == []
    assert answer["unknown"]
    assert "leads to leaf1" in words


def test_waiting_without_cables_names_nobody_and_asks_for_them(diagnosed):
    answer, words = diagnosed([(1, 1, 5000, 0), (12, 1, 6000, 0)], fabric=False)
    assert answer["verdict"] == []
    assert answer["unknown"]
    assert "ibnetdiscover" in words


def test_a_port_that_errs_is_named_with_its_cable_and_price(diagnosed, tmp_path):
    ports = [(12, 1, 0, 40000), *[(lid, 1, 0, 1) for lid in (1, 2, 3, 4)]]
    answer, _ = diagnosed(ports, cluster=True)
    (suspect,) = answer["verdict"]
    assert suspect["part"] == "lid 12 port 1"
    assert "from leaf2 port 1 to n3 mlx5_0" in suspect["evidence"]
    assert suspect["usd_per_hour"] is None


def test_the_price_of_what_stands_behind_a_part(tmp_path):
    """Sixteen accelerators in two servers: a host is half of the cluster, an accelerator a sixteenth, a cable none."""
    file = tmp_path / "cluster.yaml"
    file.write_text(CLUSTER, encoding="utf-8")
    cluster = cluster_of(file)
    price = parts_of(cluster)
    total = traced_usd_per_hour(cluster, 1.0, 0.5)
    assert price.of("nic") == pytest.approx(total / 2)
    assert price.of("accelerator") == pytest.approx(total / 16)
    assert price.of("cable") is None
    assert 30 < total < 150
    assert traced_usd_per_hour(cluster, 1.0, 1.0) > total > traced_usd_per_hour(cluster, 1.0, 0.0)
