"""A dead spine, and one that dies: the rest of the network carries what it can, and no switch feeds a dead port."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from railyard.kit.errors import SimulationError
from railyard.work.scenario.packet import assign, fabric
from railyard.work.traffic.simulate import TrafficRun, run

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.work.traffic.played import Report

ADAPTIVE = ("spectrum-x", "infiniband")
SPRAYING = (*ADAPTIVE, "uec", "scheduled")


def lines_of(path: Path, source: list[int], target: list[int], size_bytes: int) -> Path:
    rows = [f"{a},{b},{size_bytes},0" for a, b in zip(source, target, strict=True)]
    path.write_text("\n".join(["source,target,size_bytes,start_us", *rows]) + "\n")
    return path


def faults_of(path: Path, *rows: str) -> Path:
    path.write_text("\n".join(["faults:", *(f"- {{{row}}}" for row in rows)]) + "\n")
    return path


def of(name: str, traffic: Path, faults: Path | None, *sets: str, seed: int = 0) -> Report:
    preset = fabric(name)
    return run(TrafficRun(traffic, None, preset, assign(preset.settings, sets), seed=seed, faults=faults))


def counts(report: Report) -> dict[str, int]:
    return {**report.packets, **report.record.meta["packets"]}


def permutation(path: Path, hosts: int, size_bytes: int, seed: int) -> Path:
    order = np.random.default_rng(seed).permutation(hosts).tolist()
    return lines_of(path, order, [*order[1:], order[0]], size_bytes)


@pytest.mark.parametrize(
    ("shape", "where", "size_bytes", "seed"),
    [((2, 32), "spine1", 2_000_000, 0), ((2, 128), "spine6", 1_300_000, 3), ((3, 16), "core2", 3_100_000, 1)],
)
def test_with_a_dead_spine_fabrics_that_spray_beat_hashing(
    tmp_path: Path, shape: tuple[int, int], where: str, size_bytes: int, seed: int
) -> None:
    tiers, hosts = shape
    traffic = permutation(tmp_path / "permutation.csv", hosts, size_bytes, seed)
    faults = faults_of(tmp_path / "faults.yaml", f"kind: switch-down, switch: {where}")
    sets = (f"hosts={hosts}", f"tiers={tiers}")
    hashed = of("roce", traffic, faults, *sets, seed=seed).fct_us()
    for name in SPRAYING:
        found = of(name, traffic, faults, *sets, seed=seed).fct_us()
        assert found["max"] <= hashed["max"], name
        assert found["mean"] <= hashed["mean"], name


@pytest.mark.parametrize("name", ADAPTIVE)
def test_a_spine_that_dies_costs_one_timeout(tmp_path: Path, name: str) -> None:
    traffic = permutation(tmp_path / "permutation.csv", 32, 2_000_000, 0)
    faults = faults_of(tmp_path / "faults.yaml", "kind: switch-down, switch: spine1, at: 17 us")
    shape = ("hosts=32", "tiers=2")
    well = of(name, traffic, None, *shape).fct_us()["max"]
    found = of(name, traffic, faults, *shape)
    packets = counts(found)
    assert packets["timeouts"] > 0
    assert found.fct_us()["max"] < 4194.3 + 2 * well
    # What was on its way is lost, and nothing after it.
    assert packets["retransmitted"] < 0.05 * packets["new"]


def test_hashing_waits_for_routes_when_a_spine_dies_in_the_run(tmp_path: Path) -> None:
    """Routes know after 100 ms on `roce`, 1 ms where switches adapt, 100 us on `uec`, 1 us on `scheduled`."""
    traffic = permutation(tmp_path / "permutation.csv", 32, 2_000_000, 0)
    faults = faults_of(tmp_path / "faults.yaml", "kind: switch-down, switch: spine1, at: 17 us")
    took = {name: of(name, traffic, faults, "hosts=32", "tiers=2").fct_us()["max"] for name in ("roce", *SPRAYING)}
    assert 100_000 < took["roce"] < 104_500  # and on to the next try, 4.19 ms at most
    for name in ADAPTIVE:
        assert 4194 < took[name] < 4400
    assert took["uec"] < 250
    assert took["scheduled"] < 150


@pytest.mark.parametrize(
    ("timer", "reroute", "expected"), [("2.1ms", "50us", 2.1), ("2.1ms", "5ms", 6.3), ("67ms", "1ms", 67)]
)
def test_the_stall_is_the_first_try_after_routes_know(
    tmp_path: Path, timer: str, reroute: str, expected: float
) -> None:
    traffic = permutation(tmp_path / "permutation.csv", 32, 200_000, 0)
    faults = faults_of(tmp_path / "faults.yaml", "kind: switch-down, switch: spine1, at: 2 us")
    found = of("roce", traffic, faults, "hosts=32", "tiers=2", f"rdma_rto={timer}", f"reroute={reroute}")
    assert found.fct_us()["max"] / 1000 == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("reroute", ["80us", "100us", "1ms"])
def test_a_request_that_was_lost_and_sent_again_as_a_packet_ends_its_flow(tmp_path: Path, reroute: str) -> None:
    """The receiver had everything and answered a request beyond it without taking it: the sender asked for ever."""
    traffic = permutation(tmp_path / "permutation.csv", 32, 2_000_000, 0)
    faults = faults_of(tmp_path / "faults.yaml", "kind: switch-down, switch: spine1, at: 17 us")
    found = of("uec", traffic, faults, "hosts=32", "tiers=2", f"reroute={reroute}")
    assert found.fct_us()["max"] < 250
    assert counts(found)["requests"] > 0


def test_an_empty_queue_before_a_dead_link_draws_nothing(tmp_path: Path) -> None:
    traffic = permutation(tmp_path / "permutation.csv", 32, 2_000_000, 0)
    faults = faults_of(tmp_path / "faults.yaml", "kind: switch-down, switch: spine1, at: 17 us")
    known = counts(of("spectrum-x", traffic, faults, "hosts=32", "tiers=2", "reroute=1us"))
    late = counts(of("spectrum-x", traffic, faults, "hosts=32", "tiers=2", "reroute=never"))
    assert late["dropped"] <= known["dropped"] + 32


def test_routes_know_what_was_dead_before_the_run(tmp_path: Path) -> None:
    traffic = permutation(tmp_path / "permutation.csv", 32, 1_000_000, 0)
    faults = faults_of(tmp_path / "faults.yaml", "kind: switch-down, switch: spine1")
    packets = counts(of("roce", traffic, faults, "hosts=32", "tiers=2"))
    assert packets["dropped"] == packets["lost"] == packets["retransmitted"] == 0


@pytest.mark.parametrize("name", ["uec", "roce", "spectrum-x"])
def test_a_run_that_no_packet_gets_through_ends_with_flow_and_cause(tmp_path: Path, name: str) -> None:
    traffic = lines_of(tmp_path / "flows.csv", [3, 5], [9, 9], 40_000)
    faults = faults_of(tmp_path / "faults.yaml", "kind: bit-errors, cable: h9 - leaf4, ratio: 1e-2, at: 1 us")
    cause = r"flow 0 \(host 3 to host 9\).* bit errors of 0.01 on the link .* lose every packet of \d+ bytes"
    with pytest.raises(SimulationError, match=cause):
        of(name, traffic, faults, "hosts=16", "switching=lossy")
