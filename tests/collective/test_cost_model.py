"""NCCL's cost model by hand: bandwidths and speeds of `tuning.cc` and the graph search at uneasy shapes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from railyard.collective import Case, Shape, constants, machine_of, tuner
from railyard.collective.tuner import ChannelPlan, ring_plan, switch_plan
from railyard.graph import CollectiveKind as Kind

LL, LL128, SIMPLE = range(3)


def case(build, domains, per_domain, kind=Kind.ALL_REDUCE, *, server="hgx-h100", version=(2, 30), **machine):
    return Case(
        replace(machine_of(build(16, server, "roce")), **machine), Shape.grid(domains, per_domain), kind, version
    )


NARROW, WIDE = ChannelPlan(2, 24.0, 18.0), ChannelPlan(2, 60.0, 60.0)


@pytest.mark.parametrize(
    ("domains", "algorithm", "plan", "bus_gbs"),
    [
        # From three domains on the NIC's speed counts: 2 x 18 = 36; LL carries half of it, LL128 92 %.
        (4, "ring", NARROW, (18.0, 33.12, 36.0)),
        (2, "ring", NARROW, (24.0, 44.16, 48.0)),
        # LL by the CPU that reads its flags: 39, and 20.4 from three domains on; Hopper's LL128 36.7 a channel.
        (4, "ring", WIDE, (20.4, 73.4, 120.0)),
        (2, "ring", WIDE, (39.0, 73.4, 120.0)),
        (1, "ring", ChannelPlan(5, 60.0, 60.0), (141.0, 183.5, 300.0)),
        (4, "tree", NARROW, (36 / 3.8, 33.75, 33.12)),
        (1, "tree", NARROW, (48 / 3.8, 48 * 7 / 9, 44.16)),
        (4, "tree", WIDE, (20.4, 58.0, 72.0)),
        (2, "tree", WIDE, (120 / 3.8, 73.4, 82.8)),
        (1, "tree", WIDE, (120 / 3.8, 73.4, 77.4)),
    ],
)
def test_bus_bandwidth_of_rings_and_trees(build, domains, algorithm, plan, bus_gbs):
    one = case(build, domains, 4)
    assert [tuner.bus_gbs(one, algorithm, index, plan) for index in range(3)] == pytest.approx(bus_gbs, rel=1e-12)


def test_generations():
    """`tuning.cc`: caps for 1, 2 and more domains; LL of one Hopper domain rose in 2.21, LL128 of Blackwell in 2.30."""
    volta, ampere, blackwell = (constants.generation(name) for name in ("volta", "ampere", "blackwell"))
    assert volta.ll_max == (39.0, 39.0, 20.4)
    assert volta.tree_simple == volta.nvls_tree == (26.5, 18.5, 10.0)
    assert ampere.ll_max == (87.7, 22.5, 19.0)
    assert ampere.tree_simple == ampere.nvls_tree == (24.0, 23.6, 17.8)
    assert {*ampere.ring_ll128, *ampere.tree_ll128, *volta.ring_ll128, *volta.tree_ll128} == {20.0}
    assert blackwell.ll_max == (282.0, 39.0, 20.4)
    assert blackwell.tree_ll128 == (55.6, 31.67, 20.0)
    assert blackwell.tree_simple == (70.0, 42.8, 24.0)
    assert blackwell.nvls_tree == (0.0, 96.0, 80.0)
    caps = {version: constants.generation("blackwell", version).ring_ll128 for version in ((2, 28), (2, 29), (2, 30))}
    assert caps == {(2, 28): (73.4,) * 3, (2, 29): (34.5,) * 3, (2, 30): (40.0,) * 3}
    assert constants.generation("blackwell", (2, 24)) == constants.generation("hopper")
    assert constants.generation("hopper", (2, 20)).ll_max == (87.7, 39.0, 20.4)
    assert constants.generation("turing") == volta
    assert constants.generation("ada") == ampere


@pytest.mark.parametrize(
    ("protocol", "factors"),
    [
        ("ll", [1, 0.9, 0.8, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1]),
        ("ll128", [1, 1, 0.9, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 1]),
        ("simple", [0.9, 0.9, 0.9, 0.9, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.9]),
    ],
)
def test_corrections_of_trees(protocol, factors):
    """`treeCorrectionFactor` at 64 B times powers of two; half way between two of them their mean."""
    index = np.array([0, 4, 5, 6, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 40])
    assert tuner.tree_correction(protocol, 64.0 * 2.0**index) == pytest.approx(factors)
    ends = tuner.tree_correction(protocol, np.array([64.0 * 2**11, 64.0 * 2**12]))
    assert tuner.tree_correction(protocol, np.array([64.0 * 2**11.5])) == pytest.approx(ends.mean())


SPEEDS = {  # `speedArrayIntra` and `speedArrayInter` of the graph search, sm80, sm90 and sm100
    "dgx-a100": (
        (40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3),
        (48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2, 0.24, 0.12),
    ),
    "hgx-h100": (
        (60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3),
        (48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12),
    ),
    "hgx-b200": (
        (90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18),
        (96, 86, 80, 48, 45.1, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12),
    ),
}


@pytest.mark.parametrize("server", SPEEDS)
def test_a_switch_plan_takes_the_largest_speed_that_a_link_carries(build, server):
    """Five heads; each has a fifth of the link, here 4 % more than a speed of the list; and so have NICs."""
    intra, inter = SPEEDS[server]
    for speed in intra:
        plan = switch_plan(case(build, 1, 5, server=server, plan_bps=1.04 * speed * 5 * 8e9).machine, Shape.grid(1, 5))
        assert (plan.channels, plan.intra, plan.inter) == (5, speed, speed)
    for speed in inter:
        rates = {"plan_bps": 1.01 * speed * 5 * 8e9, "nic_bps": 1.01 * speed * 8e9 * 5 / 3}
        plan = switch_plan(case(build, 2, 5, server=server, **rates).machine, Shape.grid(2, 5, ports=3))
        assert (plan.channels, plan.intra, plan.inter) == (5, speed, speed)


def test_a_ring_takes_what_uses_most_of_the_links(build):
    """Of 241 GB/s 4 x 60, 6 x 40, 8 x 30 and more all use 240, and 30 is usual; of 401 a 40 and a 20 are as unusual."""
    for gbs, channels, speed in ((241, 8, 30.0), (401, 20, 20.0), (76, 5, 15.0)):
        one = case(build, 1, 5, plan_bps=gbs * 8e9)
        assert ring_plan(one.machine, one.shape) == ChannelPlan(channels, speed, speed), gbs
    slow = case(build, 1, 5, plan_bps=2 * 8e9)  # slower than any speed: 32 channels share it
    assert ring_plan(slow.machine, slow.shape) == ChannelPlan(32, 2 / 32, 2 / 32)


def test_rings_through_nics(build):
    """3 ports of 25 GB/s: 3 x 24; on links of 50 GB/s in all 2 x 24 or 2 x 22, and 3 x 15 is less than 2 x 24."""
    shape = Shape.grid(3, 6, ports=3)
    assert ring_plan(case(build, 3, 6, plan_bps=9e12, nic_bps=2e11).machine, shape) == ChannelPlan(3, 24.0, 24.0)
    assert ring_plan(case(build, 3, 6, plan_bps=4e11, nic_bps=2e11).machine, shape) == ChannelPlan(2, 24.0, 24.0)
    fast = case(build, 3, 6, plan_bps=9e12, nic_bps=1.6e12).machine  # 200 GB/s, four times any speed
    assert ring_plan(fast, shape) == ChannelPlan(3, 200.0, 200.0)


def test_efa_adds_its_software_and_its_nics_take_their_own_time(build):
    """LL's 5 us and 10.2 of datagrams a step; NICs of 5 + 6 us in place of the fabric's 2.6, but not in the bound."""
    efa, roce, ideal = (
        machine_of(build(16, server, fabric))
        for server, fabric in (("aws-p5", "uec"), ("hgx-h100", "uec"), ("aws-p5", "ideal"))
    )
    assert (efa.software_us("ll"), roce.software_us("ll")) == pytest.approx((15.2, 5.0))
    assert efa.next_latency_ps - roce.next_latency_ps == pytest.approx(8.4e6, rel=0.02)
    assert ideal.next_latency_ps < roce.next_latency_ps
