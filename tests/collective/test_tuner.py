"""NCCL's choice against what NCCL's own model and published logs say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from railyard.collective import (
    Case,
    CollectivePolicy,
    Shape,
    choose,
    choose_many,
    constants,
    lower_collectives,
    machine_of,
    tuner,
)
from railyard.collective.choice import predicted_us
from railyard.collective.tuner import ChannelPlan, ring_plan, switch_plan
from railyard.graph import CollectiveKind as Kind
from railyard.kit.errors import InputError

GIB = 1 << 30


def _bus_gbs(time_us, size, ranks):
    return size * 2 * (ranks - 1) / ranks / time_us / 1e3


@pytest.mark.parametrize(
    ("server", "domains", "algorithm", "plateau"),
    [
        ("hgx-h100", 1, "nvls", 480),
        ("hgx-h200", 1, "nvls", 476),
        ("dgx-a100", 1, "ring", 235),
        ("hgx-h100", 2, "nvls-tree", 467),
        ("hgx-b300", 2, "nvls-tree", 767),
        # An inner domain of NVIDIA's own measurement of its channels: 8 of 45.5 GB/s
        ("hgx-h100", 8, "nvls-tree", 364),
    ],
)
def test_plateaus(build, server, domains, algorithm, plateau):
    """All-reduce of 4 TiB: logs 01, 60, 05, 16 and 45, and NCCL's cap of NVLS trees."""
    machine = machine_of(build(8 * domains, server, "roce"))
    size = 4096 * GIB
    chosen = choose(Kind.ALL_REDUCE, size, Shape.grid(domains, 8), machine)
    assert (chosen.algorithm, chosen.protocol) == (algorithm, "simple")
    assert _bus_gbs(chosen.time_ps / 1e6, size, 8 * domains) == pytest.approx(plateau, rel=0.04)


SIZES = np.round(2.0 ** np.arange(3, 35, 0.25))
"""Four to an octave, 8 B to 16 GiB."""

MACHINES = [
    ("dgx-a100", False), ("hgx-h100", False), ("hgx-h100", True), ("hgx-b200", True), ("mi300x-8", False),
]  # fmt: skip


@pytest.mark.parametrize(("server", "sharp"), MACHINES)
@pytest.mark.parametrize(("domains", "per_domain"), [(1, 4), (1, 8), (2, 8), (3, 8), (16, 8), (64, 8), (8, 1)])
def test_the_library_takes_the_fastest_it_has_and_time_has_no_steps(build, server, sharp, domains, per_domain):
    """No algorithm of the library is faster; a fifth more data takes no less time, and at most a third more.

    But for all-to-alls inside a domain, whose protocol follows the size of messages: logs show that step.
    """
    machine = machine_of(build(16, server, "infiniband", **({"sharp": True} if sharp else {})))
    shape = Shape.grid(domains, per_domain, scale_up=machine.scale_up)
    for kind in Kind:
        if kind == Kind.ALL_TO_ALL and domains == 1:
            continue
        chosen = choose_many(kind, SIZES, shape, machine)
        growth = chosen.time_us[1:] / chosen.time_us[:-1]
        assert growth.min() > 1 - 1e-9, (kind, SIZES[growth.argmin()])
        assert growth.max() < 1.36, (kind, SIZES[growth.argmax()])
        case = Case(machine, shape, kind)
        for name, protocol in chosen.candidates:
            if machine.library == "nccl" and tuner.nccl_offers(name, case):
                assert (chosen.time_us <= predicted_us(case, name, protocol, SIZES) + 1e-9).all(), (kind, name)


def test_64_b200_at_14_mib(build):
    """Once 404 us by an NVLS tree, where the tree takes 344; 886 us at 16 MiB of 512; 3.0 and 6.3 times with SHARP."""
    plain, sharp = (machine_of(build(64, "hgx-b200", "infiniband", **own)) for own in ({}, {"sharp": True}))
    for domains, most in ((8, 2.0), (64, 2.5)):
        shape = Shape.grid(domains, 8)
        size = np.array([14.0, 16.0]) * (1 << 20)
        without = choose_many(Kind.ALL_REDUCE, size, shape, plain).time_us
        found = choose_many(Kind.ALL_REDUCE, size, shape, sharp).time_us
        assert (without < 420).all()
        assert without[1] / without[0] < 1.25
        assert (without / found > 1.3).all()
        assert (without / found < most).all()


@pytest.mark.parametrize(
    ("server", "domains", "ring", "switch"),
    [
        ("dgx-a100", 1, (12, 20), None),
        ("hgx-h100", 1, (12, 30), (8, 40)),
        ("hgx-h100", 2, (8, 45), None),
        ("hgx-b200", 1, (18, 40), (8, 90)),
        ("dgx-a100", 2, (8, 24), None),
    ],
)
def test_graphs_that_logs_show(build, server, domains, ring, switch):
    machine = machine_of(build(8 * domains, server, "roce"))
    shape = Shape.grid(domains, 8)
    plan = ring_plan(machine, shape)
    assert (plan.channels, min(plan.intra, plan.inter)) == ring
    if switch is not None:
        assert (switch_plan(machine, shape).channels, switch_plan(machine, shape).intra) == switch


def test_protocol_follows_the_size(build):
    """Small messages want flags in the data, large ones want the wire: LL, then LL128 or Simple."""
    machine = machine_of(build(16, "hgx-h100", "roce"))
    size = np.array([8, 4 << 10, 1 << 20, 4 * GIB], np.float64)
    chosen = choose_many(Kind.ALL_GATHER, size, Shape.grid(2, 8), machine)
    spoken = [chosen.candidates[index][1] for index in chosen.index]
    assert spoken[:2] == ["ll", "ll"]
    assert spoken[-1] == "simple"


def test_trees_win_where_latency_counts(build):
    machine = machine_of(build(64, "hgx-h100", "roce"))
    assert choose(Kind.ALL_REDUCE, 8, Shape.grid(8, 8), machine).algorithm == "tree"
    assert choose(Kind.ALL_REDUCE, 8, Shape.grid(1, 8), machine).algorithm == "ring"


def test_one_rank_a_server_gathers_by_aggregated_trees_when_small(build):
    machine = machine_of(build(64, "hgx-h100", "roce"))
    shape = Shape.grid(8, 1)
    assert choose(Kind.ALL_GATHER, 4 * GIB, shape, machine).algorithm == "ring"
    case = Case(machine, shape, Kind.ALL_GATHER)
    assert [name for name in ("ring", "pat", "nvls", "tree") if tuner.nccl_offers(name, case)] == ["ring", "pat"]


def test_amd_meshes_run_over_all_links(build):
    machine = machine_of(build(8, "mi300x-8", "roce"))
    shape = Shape.grid(1, 8, scale_up="mesh")
    chosen = choose(Kind.ALL_REDUCE, 16 * GIB, shape, machine)
    assert chosen.algorithm == "direct"
    assert _bus_gbs(chosen.time_ps / 1e6, 16 * GIB, 8) == pytest.approx(330, rel=0.08)  # fabrics: 8 x MI300X 330 GB/s


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("server", ["hgx-h100", "mi300x-8", "tpu-v5p-host", "aws-trn2"])
def test_every_machine_has_an_algorithm_for_everything(build, kind, server):
    from railyard.collective import shape_of

    cluster = build(32, server, "roce")
    shape = shape_of(cluster, np.arange(32, dtype=np.int32))
    chosen = choose(kind, 1 << 24, shape, cluster)
    assert chosen.time_ps > 0


@pytest.mark.parametrize(("kind", "bus_gbs"), [(Kind.ALL_REDUCE, 322.0), (Kind.ALL_GATHER, 322.0)])
def test_a_mesh_carries_92_hundredths_of_its_plan(build, kind, bus_gbs):
    """8 x MI300X: 350 GB/s x 0.92 = 322 of bus bandwidth over its 7 links; 8 GiB less 4 GiB have no floor."""
    machine = machine_of(build(8, "mi300x-8", "roce"))
    case = Case(machine, Shape.grid(1, 8, scale_up="mesh"), kind)
    less, more = predicted_us(case, "direct", "simple", np.array([4.0 * GIB, 8.0 * GIB]))
    passes = 2 if kind == Kind.ALL_REDUCE else 1
    assert passes * 7 / 8 * 4 * GIB / (more - less) / 1e3 == pytest.approx(bus_gbs, rel=1e-9)


# NCCL's cost model by hand: bandwidths and speeds of `tuning.cc` and the graph search at uneasy shapes.

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


# What users may fix, and how they are told when it cannot be.


def test_the_most_precise_key_wins(build):
    policy = CollectivePolicy(algorithm={"all-reduce": "ring", "dp": "tree", "dp all-reduce": "hierarchical"})
    cluster = build(32, "hgx-h100", "roce")
    shape = Shape.grid(4, 8)
    assert choose(Kind.ALL_REDUCE, 1 << 20, shape, cluster, policy, group="dp").algorithm == "hierarchical"
    assert choose(Kind.ALL_REDUCE, 1 << 20, shape, cluster, policy, group="tp").algorithm == "ring"


def test_a_group_key_is_silent_about_other_kinds(build):
    policy = CollectivePolicy(algorithm={"ep": "ring"})
    chosen = choose(Kind.ALL_TO_ALL, 1 << 20, Shape.grid(4, 8), build(32, "hgx-h100", "roce"), policy, group="ep")
    assert chosen.algorithm == "pairwise"


def test_best_is_at_least_as_good_as_the_library(build):
    cluster = build(32, "hgx-h100", "roce")
    shape = Shape.grid(4, 8)
    for kind in Kind:
        for exponent in range(3, 34, 3):
            library = choose(kind, 2**exponent, shape, cluster)
            best = choose(kind, 2**exponent, shape, cluster, CollectivePolicy(selector="best"))
            assert best.time_ps <= library.time_ps


@pytest.mark.parametrize(
    ("machine", "algorithm", "reason"),
    [
        (("dgx-a100", 8), "nvls", "cannot reduce"),
        (("hgx-h100", 16), "collnet-direct", "does not reduce in its switches"),
        (("hgx-h100", 8), "nvls-tree", "one domain only"),
        (("hgx-h100", 8), "torus", "fill a torus"),
    ],
)
def test_what_cannot_run_says_why(build, group, machine, algorithm, reason):
    server, ranks = machine
    policy = CollectivePolicy(algorithm={"all-reduce": algorithm})
    request = (np.zeros(1), np.zeros(1), np.ones(1), np.ones(1))
    request = tuple(column.astype(np.int64) for column in request)
    with pytest.raises(InputError, match=reason):
        lower_collectives(build(ranks, server, "roce"), group(np.arange(ranks)), request, policy=policy)


def test_a_protocol_that_the_algorithm_does_not_speak(build):
    policy = CollectivePolicy(algorithm={"all-reduce": "nvls"}, protocol={"all-reduce": "ll"})
    with pytest.raises(InputError, match="does not speak") as caught:
        choose(Kind.ALL_REDUCE, 8, Shape.grid(1, 8), build(8, "hgx-h100", "roce"), policy)
    assert caught.value.problems[0].allowed == "simple"


def test_launching_and_slow_stacks_cost_what_is_said(build, group):
    cluster = build(16, "hgx-h100", "roce")
    request = (np.zeros(1, int), np.zeros(1, int), np.array([8]), np.array([3]))
    everyone = group(np.arange(16))
    plain = lower_collectives(cluster, everyone, request)
    slow = lower_collectives(
        cluster, everyone, request, policy=CollectivePolicy(launch_ps=5_000_000, network_overhead_ps=10_000_000)
    )
    assert slow.latency_ps[0] - plain.latency_ps[0] == 3 * (5_000_000 + 2 * 10_000_000)  # a tree: up and down


def test_policies_compare_by_what_they_say():
    one, other = CollectivePolicy(algorithm={"dp": "ring"}), CollectivePolicy(algorithm={"dp": "ring"})
    assert one == other
    assert len({one, other, CollectivePolicy()}) == 2


@pytest.mark.parametrize(
    ("version", "algorithm"), [("2.20", "ring"), ("2.22.3", "ring"), ("2.23", "pat"), ("2.30", "pat")]
)
def test_a_library_from_before_pat_chooses_none(build, version, algorithm):
    """NCCL 2.23 brought PAT, for groups of one rank a server: 113 MB is what a layer of GPT 22B reduces on each."""
    cluster, policy = build(512, "hgx-h800", "roce"), CollectivePolicy(version=version)
    chosen = choose(Kind.REDUCE_SCATTER, 113_309_184, Shape.grid(64, 1), cluster, policy, group="dp")
    assert chosen.algorithm == algorithm
