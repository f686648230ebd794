"""Incasts end when their receiver's link has carried them, whatever their size: no cliff where buffers end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from railyard.work.scenario.packet import assign, fabric
from railyard.work.traffic.simulate import TrafficRun, run

if TYPE_CHECKING:
    from pathlib import Path

RATE_BPS = 400e9


def over_ideal(folder: Path, name: str, senders: list[int], size_bytes: int, *sets: str, seed: int = 0) -> float:
    """The last finish over the time of all bytes on the receiver's link, headers left out."""
    traffic = folder / "incast.csv"
    rows = [f"{source},64,{size_bytes},0" for source in senders]
    traffic.write_text("\n".join(["source,target,size_bytes,start_us", *rows]) + "\n")
    preset = fabric(name)
    found = run(TrafficRun(traffic, None, preset, assign(preset.settings, ["hosts=128", *sets]), seed=seed))
    assert found.ended.all()
    return found.last_finish_us * 1e-6 * RATE_BPS / (8 * size_bytes * len(senders))


@pytest.mark.parametrize("size_bytes", [2_000_000, 2_500_000, 4_000_000])
@pytest.mark.parametrize("name", ["spectrum-x", "infiniband", "uec", "scheduled"])
def test_eight_senders_fill_the_link(tmp_path: Path, name: str, size_bytes: int) -> None:
    assert 1 < over_ideal(tmp_path, name, list(range(8)), size_bytes, "tiers=2") < 1.15


@pytest.mark.parametrize(
    ("senders", "size_bytes", "tiers", "seed"),
    [
        ([7, 101], 13_100_000, 2, 5),
        ([7, 101], 5_900_000, 2, 8),
        ([0, 17, 66, 70, 90], 7_700_000, 3, 2),
        (list(range(3, 60, 5)), 3_300_000, 3, 1),
        (list(range(1, 49, 2)), 1_700_000, 2, 4),
    ],
)
def test_spectrum_x_has_no_cliff(tmp_path: Path, senders: list[int], size_bytes: int, tiers: int, seed: int) -> None:
    assert 1 < over_ideal(tmp_path, "spectrum-x", senders, size_bytes, f"tiers={tiers}", seed=seed) < 1.15


@pytest.mark.parametrize(
    "constant",
    [
        "spectrum_threshold=13us",
        "spectrum_threshold=25us",
        "spectrum_responsiveness=0.3",
        "spectrum_first_cut=0.25",
        "spectrum_first_cut=1",
        "spectrum_notified_kept=0.97",
        "spectrum_most_delay=150us",
        "spectrum_hyper_interval=200us",
    ],
)
def test_no_unpublished_constant_brings_it_back(tmp_path: Path, constant: str) -> None:
    assert over_ideal(tmp_path, "spectrum-x", list(range(8)), 4_000_000, "tiers=2", constant) < 1.2
