"""Channels and chunks against measured times and NCCL's rules: what limits the middle of the curves."""

from __future__ import annotations

import numpy as np
import pytest

from railyard.collective import ALGORITHMS, Case, Shape, choose, connections, lower_transfers, machine_of
from railyard.collective.choice import predicted_us
from railyard.collective.chunks import tree_chunk_bytes
from railyard.collective.timing import timing
from railyard.graph import CollectiveKind as Kind

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


def _send_us(build, size, ranks):
    cluster = build(8, "hgx-b200", "roce")
    first, count = np.zeros(1, np.int32), np.ones(1, np.int32)
    table = lower_transfers(cluster, first, first + 1, np.array([size]), count, ranks=ranks)
    return table.alone_ps[0] / 1e6


def _us(cluster, kind, size, shape):
    return choose(kind, size, shape, cluster).time_ps / 1e6


@pytest.mark.parametrize(
    ("size", "measured_us"),
    [
        (128 * KIB, 15.9),
        (512 * KIB, 35.1),
        (8 * MIB, 118.0),
        (64 * MIB, 793.1),
        (256 * MIB, 809.8),
        (512 * MIB, 859.0),
        (4 * GIB, 6522.4),
    ],
)
def test_a_single_send_has_few_channels(build, size, measured_us):
    """Ring of sends over 8 B200 (published nccl-tests): 64 and 256 MiB take the same time."""
    assert _send_us(build, size, 8) == pytest.approx(measured_us, rel=0.1)


@pytest.mark.parametrize(
    ("size", "measured_us"), [(2 * MIB, 23.9), (64 * MIB, 121.3), (512 * MIB, 787.1), (4 * GIB, 5183.9)]
)
def test_an_all_to_all_of_four_has_eight_channels_a_peer(build, size, measured_us):
    """4 GB300 (published nccl-tests)."""
    cluster = build(4, "gb300-nvl72", "roce")
    assert _us(cluster, Kind.ALL_TO_ALL, size, Shape.grid(1, 4)) == pytest.approx(measured_us, rel=0.1)


@pytest.mark.parametrize(
    ("ranks", "message", "channels"),
    [(8, 64 * MIB, 4), (8, 64 * MIB + 1, 8), (4, 128 * MIB, 8), (2, 1, 16), (64, 1, 1), (8, 64 * GIB, 32)],
)
def test_channels_double_while_a_part_is_above_16_mib(ranks, message, channels):
    """NCCL 2.30: as many as let all peers share 32, doubled above 32 steps of 512 KiB."""
    assert connections.channels_of_peer(ranks, np.array([float(message)]))[0] == channels


@pytest.mark.parametrize(("server", "domains"), [("dgx-a100", 4), ("hgx-h100", 16)])
def test_chunks_of_a_tree_follow_the_rule(server, domains):
    """LL128: to 128 KiB while data is less than steps x 64 / ranks chunks, to 32 KiB below steps x 16 / ranks."""
    steps = 1 + np.log2(domains) + 0.8
    data = np.array([64 * KIB, 512 * KIB, 4 * MIB, 1 * GIB], np.float64)
    chunk = tree_chunk_bytes(data, steps, 8, "ll128")
    assert chunk[0] == 32 * KIB
    assert chunk[-1] == 512 * KIB
    assert np.all(np.diff(chunk) >= 0)
    short = (chunk > 128 * KIB) & (data < steps * 8 * chunk)
    assert not short.any()


@pytest.mark.parametrize(
    ("size", "measured_us"), [(1 * MIB, (135, 143)), (8 * MIB, (298, 320)), (16 * MIB, (381, 448))]
)
def test_a_tree_over_four_servers_is_filled(build, size, measured_us):
    """32 A100 on four servers, published twice (DGX A100 with HDR200; CoreWeave 2023); unfilled 110, 205, 320 us."""
    time_us = _us(build(32, "dgx-a100", "infiniband"), Kind.ALL_REDUCE, size, Shape.grid(4, 8))
    assert measured_us[0] * 0.8 <= time_us <= measured_us[1] * 1.2


def test_in_switch_reduction_speeds_up_as_its_chunk_grows(build):
    """8 GB300: 346 GB/s at 32 MiB, 597 at 128 MiB; 725 at 1 GiB, 823 at 2 GiB (published nccl-tests)."""
    shape, machine = Shape.grid(1, 8), machine_of(build(8, "hgx-b300", "roce"))
    sizes = np.array([32 * MIB, 128 * MIB, GIB, 2 * GIB], np.float64)
    bus = sizes * 1.75 / 1e3 / predicted_us(Case(machine, shape, Kind.ALL_REDUCE), "nvls", "simple", sizes)
    assert bus == pytest.approx([346, 597, 725, 823], rel=0.12)
    assert bus[1] / bus[0] > 1.25
    assert bus[3] / bus[2] > 1.08


def test_synchronisation_hides_behind_slower_nics(build):
    """4 x 8 B200 over EFA of 8 x 400 Gb/s: 382 GB/s at 16 GiB, 98 % of what the NICs leave."""
    cluster = build(32, "aws-p6-b200", "uec")
    time_us = _us(cluster, Kind.ALL_REDUCE, 16 * GIB, Shape.grid(4, 8))
    assert 16 * GIB * 2 * 31 / 32 / time_us / 1e3 == pytest.approx(382, rel=0.05)


@pytest.mark.parametrize(("server", "protocol"), [("aws-p4d", "simple"), ("aws-p5", "ll")])
def test_the_first_efa_speaks_simple_only(build, server, protocol):
    """Its plugin sets NCCL_PROTO to Simple and exempts P5; 161 us for 8 bytes on 2 x 8 A100, 65 us on 2 x 8 H100."""
    chosen = choose(Kind.ALL_REDUCE, 8, Shape.grid(2, 8), build(16, server, "uec"))
    assert chosen.protocol == protocol
    inside = choose(Kind.ALL_REDUCE, 8, Shape.grid(1, 8), build(16, server, "uec"))
    assert inside.protocol == "ll"


def test_two_ranks_of_a_mesh_take_no_ll_for_large_data(build):
    """2 of 8 MI350X move 28 MB of a reduce-scatter in 354 us; LL would double the bytes on their one link: 530 us."""
    case = Case(machine_of(build(8, "mi350x-8", "roce")), Shape.grid(1, 2), Kind.REDUCE_SCATTER)
    chosen = choose(case.kind, 28311552, Shape(ranks=2, domains=1, per_domain=2, scale_up="mesh"), case.machine)
    assert chosen.protocol != "ll"
    assert chosen.time_ps / 1e6 < 354


@pytest.mark.parametrize(("kind", "name"), [(Kind.BROADCAST, "broadcast"), (Kind.REDUCE, "reduce")])
def test_a_chain_of_an_a100_takes_nvlinks_steps(build, kind, name):
    """8.4 us, 7 steps of 3.4 us, not 1.7 times that as rings do; 7 chunks of a twelfth of 120 kB at 240 GB/s."""
    case = Case(machine_of(build(8, "dgx-a100", "roce")), Shape.grid(1, 8), kind)
    found = timing(case, ALGORITHMS.get(name), "simple", np.array([120_000.0]))
    assert found.latency_us[0] == pytest.approx(8.4 + 7 * 3.4 + 7 * 10_000 / 240e3, rel=1e-9)
    assert found.network_steps == 0
