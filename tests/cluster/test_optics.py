"""Kinds of optical modules: which parts a network takes, what they cost, draw, and add to a message; by hand.

256 B300 on rails: 8 leafs of 32 NICs of 800 Gb/s, 15 m to the leaf and 30 m to a spine; 256 NIC links, 256 uplinks.
"""

from __future__ import annotations

import pytest

from railyard import catalog
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec, build
from railyard.cluster.bill import bill_of
from railyard.cluster.topology.leaf_spine import LeafSpine
from railyard.cluster.topology.rail_optimized import RailOptimized
from railyard.kit.errors import InputError

KNOWN = catalog.load()


def made(optics=None, topology=None, fabric="roce", **network):
    spec = NetworkSpec(topology=topology or RailOptimized(), fabric=FabricSpec(fabric), optics=optics, **network)
    return build(ClusterSpec(256, "hgx-b300", back_end=spec), KNOWN)


def parts(cluster):
    kinds = ("switch", "optic", "laser", "cable")
    return {(row.name, row.tier): row.count for row in bill_of(cluster) if row.kind in kinds and row.network}


def test_left_out_and_dsp_are_one_answer():
    assert bill_of(made()).rows == bill_of(made("dsp")).rows
    assert parts(made())["optic-800g-sr8", "nic"] == 512


@pytest.mark.parametrize(("optics", "saved_ns"), [("lpo", 2 * 95), ("lro", 2 * 50)])
def test_linear_modules_take_the_place_of_retimed_ones(optics, saved_ns):
    found, usual = made(optics), made()
    name = f"optic-800g-{optics}"
    assert parts(found)[name, "nic"] == parts(found)[name, "leaf-spine"] == 512
    # multi-mode fibre of 5 ns/m against single-mode of 5.13 ns/m
    for run, before in zip(found.plans["back_end"].runs, usual.plans["back_end"].runs, strict=True):
        more_ps = round(run.length_m * 130)
        assert run.delay_ps - before.delay_ps == pytest.approx(more_ps - 1000 * saved_ns, abs=1)


@pytest.mark.parametrize(("optics", "short"), [("dsp", "sr"), ("lpo", "lpo"), ("lro", "lro")])
def test_two_links_of_a_cage_have_one_module(optics, short):
    """256 H100: 256 links to leafs and 256 to spines, all of 400 Gb/s from cages of 800: 128, 128 and 128 cages."""
    spec = NetworkSpec(topology=RailOptimized(), fabric=FabricSpec("roce"), optics=optics)
    found = parts(build(ClusterSpec(256, "hgx-h100", back_end=spec), KNOWN))
    one, two = ("optic-400g-sr4", "optic-800g-sr8") if short == "sr" else (f"optic-400g-{short}", f"optic-800g-{short}")
    assert {key: count for key, count in found.items() if key[0].startswith("optic")} == {
        (one, "nic"): 256,
        (two, "nic"): 128,
        (two, "leaf-spine"): 256,
    }


def test_co_packaged_optics_are_in_the_switch_only():
    """The NIC keeps a module of the same reach; eight ports share a laser module."""
    assert parts(made("cpo")) == {
        ("tomahawk-5-bailly", "leaf"): 8,
        ("tomahawk-5-bailly", "spine"): 4,
        ("optic-800g-dr8", "nic"): 256,
        ("optic-800g-cpo", "nic"): 256,
        ("laser-els-8", "nic"): 32,
        ("optic-800g-cpo", "leaf-spine"): 512,
        ("laser-els-8", "leaf-spine"): 64,
    }


def test_watts_and_dollars_of_co_packaged_optics():
    """768 ports of 6 W and $600 and 96 laser modules of 24 W and $1,600, for 768 modules of 16 W and $1,250."""
    far = {"lengths_m": {"nic": 60.0, "leaf-spine": 100.0}}
    usual, found = bill_of(made(**far)), bill_of(made("cpo", **far))
    assert usual.total_w.typical - found.total_w.typical == pytest.approx(768 * 16 - 768 * 6 - 96 * 24)
    assert usual.total_usd.typical - found.total_usd.typical == pytest.approx(768 * 650 - 96 * 1600)


def test_copper_stays_copper():
    assert parts(made("cpo", LeafSpine(), lengths_m={"nic": 3.0}))["acc-800g", "nic"] == 256


def test_a_link_longer_than_linear_modules_reach_is_retimed():
    assert ("optic-800g-2xfr4", "leaf-spine") in parts(made("lpo", lengths_m={"leaf-spine": 1000.0}))


def test_a_switch_without_cages_takes_no_modules():
    assert parts(made(switch="tomahawk-5-bailly"))["optic-800g-cpo", "nic"] == 256
    with pytest.raises(InputError, match="has no cages"):
        made("lpo", switch="tomahawk-5-bailly")
    with pytest.raises(InputError, match="has co-packaged optics"):
        made("cpo", switch="tomahawk-ultra")


def test_infiniband_finds_its_own_box():
    assert ("quantum-x800-q3450", "leaf") in parts(made("cpo", fabric="infiniband"))


def test_a_photonic_switch_of_nvidia_draws_what_is_published():
    """3.95 kW: the box, 144 ports and 18 laser modules."""
    box, port, laser = KNOWN.switch("Q3450"), KNOWN.cable("800G CPO"), KNOWN.cable("ELS")
    drawn = box.power_w.typical + box.ports * (port.power_w.typical + laser.power_w.typical / laser.ports)
    assert drawn == pytest.approx(3946)
    assert box.ports / laser.ports == 18
