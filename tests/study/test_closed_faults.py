"""A cluster under faults as closed forms see it: what is left of each tier, and who dies, by hand."""

from __future__ import annotations

import pytest

from railyard import catalog
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec, build
from railyard.cluster.fault import (
    AcceleratorDown,
    DegradeLink,
    HostDown,
    LinkDown,
    NicDown,
    SlowAccelerator,
    SwitchDown,
)
from railyard.cluster.fault.recovery import Recovery
from railyard.cluster.topology import LeafSpine, RailOptimized
from railyard.work.training.fastest import closed_faults

KNOWN = catalog.load()
RECOVERY = Recovery()
HOUR_PS = 3600 * 10**12
RESTART_S = RECOVERY.diagnosis_s + RECOVERY.init_s


def machine(fabric="roce", topology=None, accelerators=64):
    """Four leafs of 16 ports with 16 uplinks each, four to each of four spines."""
    topology = topology or LeafSpine(ports_per_leaf=16, spines=4)
    return build(ClusterSpec(accelerators, "hgx-h100", NetworkSpec(topology, FabricSpec(fabric))), KNOWN)


def kept(cluster, *faults):
    """What is left of each tier, of NICs, of accelerators."""
    found = closed_faults(cluster, faults, RECOVERY)
    assert found.ended == ""
    links, before = found.cluster.links, cluster.links
    share = links.rate_bps / before.rate_bps
    return {
        **{name: float(share[before.tier == number].min()) for number, name in enumerate(before.tiers) if number},
        "pace": found.cluster.accelerator.flops["bf16"] / cluster.accelerator.flops["bf16"],
    }


@pytest.mark.parametrize(
    ("fabric", "fault", "nic", "spine", "pace"),
    [
        # Hashed: whoever shares the slow cable is as slow as that.
        ("roce", DegradeLink(factor=0.25, cable="leaf 0 - spine 0"), 1.0, 0.25, 1.0),
        # A cable of sixteen uplinks is dead: 15 are left to the leaf, and as many to the spine.
        ("roce", LinkDown(cable="leaf 0 - spine 0"), 1.0, 15 / 16, 1.0),
        # One spine of four.
        ("roce", SwitchDown(switch="spine 0"), 1.0, 0.75, 1.0),
        ("roce", DegradeLink(factor=0.5, cable="server 3 nic 2 - leaf 1"), 0.5, 1.0, 1.0),
        ("uec", SlowAccelerator(rank=5, factor=0.8), 1.0, 1.0, 0.8),
        # What passes is not in every step.
        ("uec", DegradeLink(factor=0.5, tier="nic", for_ps=HOUR_PS), 1.0, 1.0, 1.0),
    ],
)
def test_a_tier_is_as_slow_as_its_slowest_link(fabric, fault, nic, spine, pace):
    found = kept(machine(fabric), fault)
    assert found == {"nic": pytest.approx(nic), "leaf-spine": pytest.approx(spine), "pace": pytest.approx(pace)}


def test_what_is_sprayed_over_a_bundle_loses_what_the_bundle_loses():
    """Of a bundle of 16 cables one at a quarter: between all at a quarter and 15.25 of 16, the fabric says where."""
    found = kept(machine("scheduled"), DegradeLink(factor=0.25, cable="leaf 0 - spine 0"))
    assert 0.25 < found["leaf-spine"] <= 1.0


@pytest.mark.parametrize(
    ("fault", "lost_s"),
    [
        (HostDown(host=1), RECOVERY.process_s + RESTART_S + RECOVERY.repair_s),
        (AcceleratorDown(rank=9, for_ps=2 * HOUR_PS), RECOVERY.process_s + RESTART_S + 7200 - RECOVERY.abort_s - 600),
        (NicDown(host=1, nic=3), RECOVERY.abort_s + RESTART_S + RECOVERY.repair_s),
        (SwitchDown(switch="leaf 0"), RECOVERY.abort_s + RESTART_S + RECOVERY.repair_s),
    ],
)
def test_who_dies_and_what_that_takes(fault, lost_s):
    found = closed_faults(machine(), [fault], RECOVERY)
    assert found.ended.startswith(fault.kind)
    assert found.lost_s == pytest.approx(lost_s)


def test_a_network_that_falls_apart_ends_the_job_unless_its_rails_hold():
    spine = SwitchDown(switch="spine 0")
    assert closed_faults(machine(topology=LeafSpine(ports_per_leaf=16, spines=1)), [spine], RECOVERY).ended
    assert not closed_faults(machine(topology=RailOptimized(spines=1)), [spine], RECOVERY).ended
    assert not closed_faults(machine("ideal", LeafSpine(ports_per_leaf=16, spines=1)), [spine], RECOVERY).ended
    waits = NicDown(host=1, nic=3, for_ps=20 * 10**12)
    assert not closed_faults(machine(), [waits], RECOVERY).ended
