"""NCCL's choice against what NCCL's own model and published logs say."""

from __future__ import annotations

import numpy as np
import pytest

from railyard.collective import Case, Shape, choose, choose_many, machine_of
from railyard.collective.choice import predicted_us
from railyard.collective.tuner import nccl, rccl
from railyard.collective.tuner.plan import ring_plan, switch_plan
from railyard.graph import CollectiveKind as Kind

GIB = 1 << 30


def _bus_gbs(time_us, size, ranks):
    return size * 2 * (ranks - 1) / ranks / time_us / 1e3


@pytest.mark.parametrize(
    ("server", "domains", "algorithm", "plateau"),
    [
        ("hgx-h100", 1, "nvls", 476),
        ("hgx-h200", 1, "nvls", 476),
        ("dgx-a100", 1, "ring", 240),
        ("hgx-h100", 2, "nvls-tree", 461),
        ("hgx-h100", 8, "nvls-tree", 359),
    ],
)
def test_plateaus_of_the_independent_reimplementation(build, server, domains, algorithm, plateau):
    """What an independent implementation of the same model gave for five machines whose logs are public."""
    machine = machine_of(build(8 * domains, server, "roce"))
    case = Case(machine, Shape.grid(domains, 8), Kind.ALL_REDUCE)
    size = np.array([4096.0 * GIB])
    times = nccl.estimates(case, size)
    (name, protocol), time_us = min(times.items(), key=lambda item: item[1][0])
    assert (name, protocol) == (algorithm, "simple")
    assert _bus_gbs(time_us[0], size[0], 8 * domains) == pytest.approx(plateau, rel=0.015)


@pytest.mark.parametrize(
    ("server", "domains", "floor"), [("hgx-h100", 1, 15.0), ("dgx-a100", 1, 15.0), ("hgx-h100", 2, 25.2)]
)
def test_floors_of_the_independent_reimplementation(build, server, domains, floor):
    machine = machine_of(build(8 * domains, server, "roce"))
    times = nccl.estimates(Case(machine, Shape.grid(domains, 8), Kind.ALL_REDUCE), np.array([8.0]))
    assert min(time[0] for time in times.values()) == pytest.approx(floor, rel=0.02)


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
    names = {name for name, _ in nccl.estimates(Case(machine, shape, Kind.ALL_GATHER), np.array([8.0]))}
    assert names == {"ring", "pat"}


def test_amd_meshes_run_over_all_links(build):
    machine = machine_of(build(8, "mi300x-8", "roce"))
    shape = Shape.grid(1, 8, scale_up="mesh")
    chosen = choose(Kind.ALL_REDUCE, 16 * GIB, shape, machine)
    assert chosen.algorithm == "direct"
    assert _bus_gbs(chosen.time_ps / 1e6, 16 * GIB, 8) == pytest.approx(330, rel=0.08)  # fabrics: 8 x MI300X 330 GB/s


def test_rccl_fixes_protocols_by_range_across_servers(build):
    machine = machine_of(build(16, "mi300x-8", "roce"))
    case = Case(machine, Shape.grid(2, 8, scale_up="mesh"), Kind.ALL_REDUCE)
    times = rccl.estimates(case, np.array([1 << 10, 1 << 20, 1 << 30], np.float64))
    finite = {key: np.isfinite(value).tolist() for key, value in times.items()}
    assert finite["ring", "ll"] == [True, False, False]
    assert finite["ring", "ll128"] == [False, True, False]
    assert finite["ring", "simple"] == [False, False, True]


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("server", ["hgx-h100", "mi300x-8", "tpu-v5p-host", "aws-trn2"])
def test_every_machine_has_an_algorithm_for_everything(build, kind, server):
    from railyard.collective import shape_of

    cluster = build(32, server, "roce")
    shape = shape_of(cluster, np.arange(32, dtype=np.int32))
    chosen = choose(kind, 1 << 24, shape, cluster)
    assert chosen.time_ps > 0


def test_a_larger_collective_never_takes_less_time(build):
    """In steps of two: within a factor the model's switches of protocol and chunk may cost or save a little."""
    machine = machine_of(build(16, "hgx-h100", "roce"))
    size = 2.0 ** np.arange(3, 35)
    for kind in Kind:
        time_us = choose_many(kind, size, Shape.grid(2, 8), machine).time_us
        assert (np.diff(time_us) > -0.15 * time_us[:-1]).all(), kind


@pytest.mark.parametrize(("kind", "bus_gbs"), [(Kind.ALL_REDUCE, 322.0), (Kind.ALL_GATHER, 322.0)])
def test_a_mesh_carries_92_hundredths_of_its_plan(build, kind, bus_gbs):
    """8 x MI300X: 350 GB/s x 0.92 = 322 of bus bandwidth over its 7 links; 8 GiB less 4 GiB have no floor."""
    machine = machine_of(build(8, "mi300x-8", "roce"))
    case = Case(machine, Shape.grid(1, 8, scale_up="mesh"), kind)
    less, more = predicted_us(case, "direct", "simple", np.array([4.0 * GIB, 8.0 * GIB]))
    passes = 2 if kind == Kind.ALL_REDUCE else 1
    assert passes * 7 / 8 * 4 * GIB / (more - less) / 1e3 == pytest.approx(bus_gbs, rel=1e-9)
