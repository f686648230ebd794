"""Fabrics that imitate a simulator: what that simulator says of the same traffic. RoCE and Spectrum-X beside them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from railyard.work.scenario.packet import assign, fabric
from railyard.work.traffic.simulate import TrafficRun, run

if TYPE_CHECKING:
    from railyard.work.traffic.played import PacketReport

DATA = Path(__file__).parents[3] / "tests" / "engine" / "packet" / "data"
HTSIM_PAUSES = ("pfc_xoff=249000", "pfc_xon=199200")


def of(name: str, matrix: str, *sets: str, seed: int = 0) -> PacketReport:
    preset = fabric(name)
    return run(TrafficRun(DATA / matrix, None, preset, assign(preset.settings, sets), seed=seed))


@pytest.mark.parametrize("name", ["roce", "roce-htsim", "roce-ns3", "dcqcn-ns3", "spectrum-x"])
def test_every_flow_arrives_and_nothing_is_lost(name: str) -> None:
    found = of(name, "g_incast32_128n_2MB.cm")
    assert found.ended.all()
    assert found.packets["retransmitted"] == found.packets["dropped"] == 0
    floor = 32 * 2_000_000 * 8 / 400e9 * 1e6
    assert floor < found.fct_us()["max"] < 1.5 * floor
    assert fabric(name).sources


def test_the_incast_of_htsims_roce() -> None:
    found = [of("roce-htsim", "g_incast32_128n_2MB.cm", *HTSIM_PAUSES, seed=seed).fct_us() for seed in range(6)]
    assert np.mean([one["mean"] for one in found]) == pytest.approx(1032.1, rel=0.10)
    assert found[0]["max"] == pytest.approx(1312.36, rel=0.001)


def test_the_permutation_of_htsims_roce() -> None:
    found = [of("roce-htsim", "g_perm128_2MB.cm", *HTSIM_PAUSES, seed=seed).fct_us() for seed in range(10)]
    assert np.mean([one["mean"] for one in found]) == pytest.approx(113.42, rel=0.12)
    assert min(one["p99"] for one in found) < 205
    assert max(one["p99"] for one in found) > 164


def test_the_incast_of_ns3s_dcqcn() -> None:
    found = [of("dcqcn-ns3", "g_incast32_128n_2MB.cm", seed=seed).fct_us() for seed in range(10)]
    assert np.mean([one["mean"] for one in found]) == pytest.approx(1204, rel=0.10)
    assert np.mean([one["max"] for one in found]) == pytest.approx(1749, rel=0.05)


def test_adaptive_routing_finds_what_hashing_leaves_empty() -> None:
    hashed = of("roce", "g_perm128_2MB.cm").fct_us()
    adaptive = of("spectrum-x", "g_perm128_2MB.cm").fct_us()
    assert adaptive["p99"] < 0.5 * hashed["p99"]
    alone = 2_000_000 * 8 / 400e9 * 1e6
    assert adaptive["mean"] < 1.5 * alone


def test_more_queue_pairs_come_closer() -> None:
    tails = [
        of("roce", "g_perm128_2MB.cm", f"qps={pairs}", "rdma_control=line-rate").fct_us()["p99"] for pairs in (1, 16)
    ]
    assert tails[1] < 0.6 * tails[0]


@pytest.mark.parametrize("name", ["hpcc-htsim", "hpcc-ns3", "swift"])
def test_fabrics_of_delay_and_telemetry_finish_an_incast(name: str) -> None:
    found = of(name, "incast.cm")
    assert found.ended.all()
    assert found.fct_us()["max"] > 15 * 2_000_000 * 8 / 400e9 * 1e6


def test_one_flow_takes_as_long_as_in_htsim() -> None:
    # 490 packets of 4150 bytes (the last one shorter) at 100 Gb/s over six links of 1 us, the acknowledgement back.
    found = of("uec-htsim", "one.cm", "link_rate=100Gb/s").fct_us()["max"]
    last = 2_000_000 - 489 * (4150 - 64) + 64
    assert found == pytest.approx(176.2, abs=0.05)  # htsim prints 176.2
    assert found >= 8 * (489 * 4150 + last) / 100e9 * 1e6 + 12 + 5 * 8 * last / 100e9 * 1e6
