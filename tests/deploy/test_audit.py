"""Audits without a plan: the design is inferred, every fault found, none invented, each priced."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

from railyard.ask.audit.audit import audit
from railyard.cluster.asbuilt import ibnetdiscover

from .fabrics import leaf_spine, three_tier

DGX = Path(__file__).parent / "data" / "ibnetdiscover-dgx.out.gz"


def audited(drawn):
    found = ibnetdiscover.read(drawn.text(), "drawn")
    assert not found.problems
    return audit(found)


def kinds(found):
    return [(one.kind, *sorted((one.a, one.b))) for one in found.findings]


@pytest.fixture(scope="module")
def dgx():
    return audit(ibnetdiscover.read(gzip.decompress(DGX.read_bytes()).decode(), DGX.name))


def test_the_public_fabric_lacks_26_cables_in_16_pairs(dgx):
    missing = [one for one in dgx.findings if one.kind == "missing"]
    assert len(missing) == 26
    assert len({(one.a.split("[")[0], one.b.split("[")[0]) for one in missing}) == 16
    (block,) = dgx.design["blocks"]
    assert (block["switches"], block["cables_a_pair"], block["found"], block["cables"]) == (
        [32, 9],
        2,
        532,
        576,
    )  # one leaf of 18 cables is absent altogether
    assert block["worst_shift_load"] == [3, 6]
    assert "?" not in "".join(one.a + one.b for one in missing)
    assert "MF0;A09-P1-IBLEAF-01-01:MQM9701/U1[40]" in {one.a for one in missing}


def test_the_public_fabric_is_priced_and_ranked(dgx):
    prices = [one.usd_per_month for one in dgx.findings]
    assert prices == sorted(prices, reverse=True)
    assert all(one.usd_per_month > 0 for one in dgx.findings if one.kind == "missing")
    assert dgx.design["loss"] > max(one.loss for one in dgx.findings)
    assert dgx.repairs[-1] == pytest.approx(0, abs=1e-12)
    assert dgx.design["usd_per_month"] == pytest.approx(dgx.design["loss"] * 542 * 2.46 * 730)


def test_the_public_fabric_lacks_a_leaf_and_has_two_ports_exchanged(dgx):
    (leaf,) = (one for one in dgx.findings if one.kind == "missing-switch")
    assert leaf.a == "A09-P1-IBLEAF-03-01"
    assert leaf.detail.startswith("ports 5 to 6 are free on all 9 spine switches, between its peers; 10 hosts")
    (swap,) = (one for one in dgx.findings if one.kind == "swapped")
    assert swap.a == "b08-p1-dgx-08-c01 HCA-5[1]"
    assert swap.other is not None
    assert swap.other[0] == "b08-p1-dgx-08-c01 HCA-6[1]"


@pytest.mark.parametrize("seed", range(24))
def test_random_fabrics_whose_cables_are_pulled(seed):
    """All are named with both ports, or by what the design leaves open; nothing else is named."""
    dice = random.Random(seed)
    drawn = [
        lambda: leaf_spine(dice.randint(4, 20), dice.randint(3, 8), dice.randint(2, 16), dice.randint(1, 3)),
        lambda: leaf_spine(4 * dice.randint(2, 4), dice.randint(3, 8), dice.randint(4, 16), 1, rails=4),
        lambda: three_tier(dice.randint(3, 6), dice.randint(3, 6), dice.randint(3, 4), 3, hosts=dice.randint(2, 8)),
    ][seed % 3]()
    assert not audited(drawn).findings
    between = [at for at, cable in enumerate(drawn.cables) if "node" not in cable[0]]
    pulled = {("missing", *sorted(drawn.pull(at))) for at in dice.sample(between, max(1, len(between) // 40))}
    assert set(kinds(audited(drawn))) == pulled


def test_two_exchanged_cables_are_one_swap():
    drawn = leaf_spine(8, 4, 4, 2)
    one, other = drawn.between("leaf1", "spine0")[1], drawn.between("leaf5", "spine3")[0]
    drawn.swap(one, other)
    (found,) = audited(drawn).findings
    assert found.kind == "swapped"
    assert {found.a, found.b, *found.other} == {"leaf1[6]", "spine3[11]", "leaf5[11]", "spine0[4]"}
    assert found.usd_per_month > 0


def test_a_cable_in_the_wrong_spine_is_moved_back():
    drawn = leaf_spine(8, 4, 4, 1)
    at = drawn.between("leaf2", "spine1")[0]
    drawn.cables[at][2:4] = ["spine3", drawn.port("spine3")]
    (found,) = audited(drawn).findings
    assert (found.kind, found.a, found.b) == ("misplaced", "leaf2[6]", "spine3[9]")
    assert "spine1[3]" in found.detail


def test_a_slow_cable_is_degraded_and_costs_more_the_slower_it_is():
    prices = []
    for rate in ("4xHDR", "1xNDR"):
        drawn = leaf_spine(8, 4, 4, 1)
        drawn.cables[drawn.between("leaf2", "spine1")[0]][4] = rate
        (found,) = audited(drawn).findings
        assert (found.kind, found.a, found.b) == ("degraded", "leaf2[6]", "spine1[3]")
        prices.append(found.usd_per_month)
    assert 0 < prices[0] < prices[1]


def test_a_host_in_the_wrong_rail_and_one_without_a_rail():
    drawn = leaf_spine(8, 4, 12, 1, rails=4)
    one, other = drawn.between("node0002 mlx5_1", "leaf1")[0], drawn.between("node0002 mlx5_2", "leaf2")[0]
    drawn.swap(one, other)
    drawn.pull(drawn.between("node0015 mlx5_3", "leaf7")[0])
    swapped, missing = sorted(audited(drawn).findings, key=lambda one: one.kind, reverse=True)
    assert (swapped.kind, missing.kind) == ("swapped", "missing")
    assert {swapped.a, swapped.other[0]} == {"node0002 mlx5_1[1]", "node0002 mlx5_2[1]"}
    assert {swapped.b, swapped.other[1]} == {"leaf1[3]", "leaf2[3]"}
    assert (missing.a, missing.b) == ("node0015 mlx5_3[1]", "leaf7[4]")
    # Three rails of four carry what four did: communication takes 4/3, a fifth of the step: 1 - 1 / (1 + 0.2 / 3).
    assert missing.loss == pytest.approx(1 - 1 / (1 + 0.2 / 3))


def test_a_hole_among_the_hosts_of_a_leaf():
    drawn = leaf_spine(4, 2, 4, 2)
    drawn.pull(drawn.between("node0009", "leaf2")[0])
    (found,) = audited(drawn).findings
    assert (found.kind, found.a, found.b) == ("missing", "leaf2[2]", "?")
    assert found.loss == pytest.approx(1 / 15)


def test_a_leaf_of_another_kind_is_no_fault_but_a_doubt():
    drawn = leaf_spine(8, 4, 4, 2)
    for spine in range(4):
        drawn.pull(drawn.between("leaf3", f"spine{spine}")[1])
    found = audited(drawn)
    assert not found.findings
    assert "leaf3 has 1 cables to each spine where others have 2" in found.design["doubts"][0]


def test_a_ring_of_switches_is_no_fat_tree():
    drawn = leaf_spine(6, 0, 4)
    for leaf in range(6):
        drawn.join(f"leaf{leaf}", f"leaf{(leaf + 1) % 6}")
    found = audited(drawn)
    assert not found.findings
    assert not found.design["regular"]
    assert "no fat tree" in found.design["doubts"][0]
