"""Against uet-htsim 40ccb05: what it prints for runs whose outcome hardly depends on its random numbers."""

from pathlib import Path

import numpy as np
import pytest

from railyard.engine.packet import Settings, Traffic, fat_tree, run

G100, G400 = 100 * 10**9, 400 * 10**9


def fct_us(network, traffic, **settings):
    return np.sort(run(network, traffic, Settings(**settings)).duration_ps) / 1e6


@pytest.mark.parametrize(("control", "expected"), [("nscc", 176.2), ("rccc", 177.368)])
def test_one_flow_of_2_mb_across_pods(control, expected):
    network = fat_tree(16, rate_bps=G100)
    found = fct_us(network, Traffic.of(16, 0, 13, 2_000_000), congestion_control=control)
    assert found[0] == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(("size", "expected"), [(40_860, 17.0107), (408_600, 46.8907)])
def test_short_flows(size, expected):
    found = fct_us(fat_tree(2, rate_bps=G100), Traffic.of(2, 0, 1, size))
    assert found[0] == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(("control", "expected_us"), [("nscc", 5276), ("rccc", 5283)])
def test_incast_of_128(control, expected_us):
    network = fat_tree(1024, rate_bps=G400)
    found = fct_us(network, Traffic.of(1024, np.arange(512, 640), 0, 2_000_000), congestion_control=control)
    assert found[-1] == pytest.approx(expected_us, rel=0.02)


def test_incast_of_32():
    network = fat_tree(128, rate_bps=G400)
    traffic = Traffic.of(128, np.arange(64, 96), 0, 2_000_000)
    nscc = [fct_us(network, traffic, seed=seed) for seed in range(4)]
    assert np.mean([found.mean() for found in nscc]) == pytest.approx(1130, rel=0.03)
    assert nscc[0][-1] == pytest.approx(1339.6, rel=0.02)
    rccc = fct_us(network, traffic, congestion_control="rccc")
    assert (rccc[0], rccc.mean(), rccc[-1]) == pytest.approx((1300.6, 1314.0, 1320.1), rel=0.01)


@pytest.mark.parametrize(
    ("settings", "mean", "highest"),
    [
        ({}, 59.08, 64.69),
        ({"congestion_control": "rccc"}, 59.02, 64.93),
        ({"load_balancing": "adaptive"}, 55.32, 57.86),
        ({"load_balancing": "bitmap"}, 59.78, 65.13),
        ({"load_balancing": "spray"}, 60.73, 69.47),
        ({"load_balancing": "reps"}, 61.06, 68.2),
    ],
)
def test_a_permutation_of_128(settings, mean, highest):
    network = fat_tree(128, rate_bps=G400)
    source, target = np.loadtxt(Path(__file__).with_name("permutation_128.txt"), int).T
    traffic = Traffic.of(128, source, target, 2_000_000)
    found = [fct_us(network, traffic, seed=seed, **settings) for seed in range(4)]
    assert np.mean(found) == pytest.approx(mean, rel=0.03 if "reps" in settings.values() else 0.02)
    assert np.mean([times[-1] for times in found]) == pytest.approx(highest, rel=0.05)


def test_all_to_all_of_16_is_bound_by_its_receivers():
    hosts = np.random.default_rng(0).permutation(128)[:16]
    pairs = [(a, b) for a in hosts for b in hosts if a != b]
    source, target = np.array(pairs).T
    found = fct_us(fat_tree(128, rate_bps=G400), Traffic.of(128, source, target, 1_000_000))
    assert (found.mean(), found[-1]) == pytest.approx((317.07, 318.45), rel=0.01)


def test_constants_are_derived_as_there():
    found = run(fat_tree(128, rate_bps=G400), Traffic.of(128, 0, 127, 1), Settings())
    assert found.meta["constants"]["base_rtt_ps"] == 12_505_680
    assert found.meta["constants"]["queue_bytes"] == 151 * 4150
    assert found.meta["constants"]["ecn_low_bytes"] == 31 * 4150
    assert found.meta["constants"]["ecn_high_bytes"] == 121 * 4150
    assert found.meta["constants"]["window_bytes"] == 937_926
    assert found.meta["constants"]["min_rto_ps"] == pytest.approx(90.198e6, rel=1e-6)
