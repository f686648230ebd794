"""Direction and range of published effects, in small settings."""

import pytest

from railyard_validation.placement.crux import crux
from railyard_validation.placement.effects import arnold, cassini, racks


def test_crux_gains_what_is_published():
    """8.3 to 14.8 % on a testbed; at a share of traffic of a seventh it is here too, and nearly all of it is paths."""
    found = crux(3, 0.15)
    gains = [one["both"][0] for one in found.values()]
    assert 0.06 < min(gains) < max(gains) < 0.23
    for one in found.values():
        assert abs(one["priorities"][0]) < 0.04
        assert one["paths"][0] > 0.04
        assert one["both"][1] < -0.05  # GPT is faster


def test_priorities_count_where_paths_are_short():
    """GPT goes first: it gains more than by paths alone, the two BERT less."""
    (found,) = crux(3, 0.2, "2:1", ["GPT 48, BERT 16, 16, ResNet 8, 8 (figure 20)"]).values()
    assert found["both"][1] < found["paths"][1] - 0.03


@pytest.mark.parametrize(("jobs", "share"), [(2, 0.45), (3, 0.3)])
def test_cassini_steps_that_fit_lose_nothing(jobs, share):
    """In phase every job waits for all others: 1 + (n - 1) shares; shifted, none does."""
    found = cassini(jobs, share)
    assert found["shifted"] == pytest.approx(1.0, abs=0.005)
    assert found["in phase"] == pytest.approx(1 + (jobs - 1) * found["share"], abs=0.01)
    assert 1.05 < found["any phase"] < found["in phase"]
    assert found["shifted"] < found["drifting"] < 1.03


def test_arnold_aligned_groups_are_faster_the_more_is_oversubscribed():
    """10.6 % in production; here between packing without alignment and random order."""
    even, tight = (arnold(["communication", "slurm-tree", "random"], oversubscription=one) for one in ("1:1", "4:1"))
    gain = {name: one["step_s"] / tight["communication"]["step_s"] - 1 for name, one in tight.items()}
    assert 0.03 < gain["slurm-tree"] < 0.106 < gain["random"] < 0.25
    assert even["slurm-tree"]["step_s"] / even["communication"]["step_s"] - 1 < 0.01
    assert tight["communication"]["spread"] <= 2 < tight["random"]["spread"]


def test_racks_are_kept_by_going_by_racks_first():
    """kueue 10406: least free by nodes leaves few racks whole, by racks nearly all that could be."""
    by_nodes, by_racks = racks("kueue", moves=1500, racks=10), racks("domain", moves=1500, racks=10)
    assert by_racks["least"] == by_nodes["least"] == 7
    assert by_nodes["idle"] < 0.5 * by_racks["idle"]
    assert by_racks["idle"] > 0.85 * by_racks["least"]
