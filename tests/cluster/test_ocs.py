"""Cubes of a torus with and without optical circuit switches: counts, prices, and how many slices can be promised."""

from math import comb

import pytest

from railyard.catalog import load
from railyard.cluster.bill import bill_of
from railyard.cluster.build import build
from railyard.cluster.ocs import slices_kept
from railyard.cluster.spec import ClusterSpec, OcsSpec
from railyard.kit.errors import InputError

CATALOG = load()
# Share of 64 cubes in slices of 1, 4, 8, 16 and 32, at 97 %: switched, static (16 hosts a cube; computed by hand from
# binomial sums; the cell of 16 at 0.999 is the 75 % against 25 % that Lightwave, SIGCOMM 2023, turned into "3 times").
SHARES = {
    0.990: ((0.765625, 0.75, 0.75, 0.75, 0.5), (0.765625, 0.3125, 0, 0, 0)),
    0.995: ((0.859375, 0.8125, 0.75, 0.75, 0.5), (0.859375, 0.5, 0.25, 0, 0)),
    0.999: ((0.953125, 0.9375, 0.875, 0.75, 0.5), (0.953125, 0.8125, 0.625, 0.25, 0)),
}


def pod(accelerators=4096, server="tpu-v5p-host", **ocs):
    return build(ClusterSpec(accelerators=accelerators, server=server, ocs=OcsSpec(**ocs)), CATALOG)


@pytest.mark.parametrize("host", SHARES)
@pytest.mark.parametrize("switched", [True, False])
def test_slices_that_can_be_promised(host, switched):
    found = [size * slices_kept(64, size, host**16, 0.97, switched=switched) / 64 for size in (1, 4, 8, 16, 32)]
    assert found == list(SHARES[host][not switched])


def test_a_promise_is_a_binomial_tail():
    """130 of 144 cubes in 95 of 100 cases (Google, 2026) means that a cube is up 93.5 % of the time."""
    up = 0.9347
    tail = sum(comb(144, k) * up**k * (1 - up) ** (144 - k) for k in range(130, 145))
    assert tail == pytest.approx(0.95, abs=5e-4)
    assert slices_kept(144, 1, up + 0.001, 0.95, switched=True) == 130
    assert slices_kept(144, 1, up - 0.002, 0.95, switched=True) == 129


def test_a_pod_of_4096_is_that_of_the_paper():
    cubes = pod().cubes
    assert (cubes.grid, cubes.fibres, cubes.switches) == ((4, 4, 4), 96, 48)
    bill = bill_of(pod())
    assert bill.count("optical-switch") == 48
    assert [row.count for row in bill.of("optic") if row.tier == "scale-up"] == [6144]  # 1.5 an accelerator
    assert [row.count for row in bill.of("fibre") if row.tier == "scale-up"] == [6144]
    wired = bill_of(pod(wiring="static"))
    assert not wired.count("optical-switch")
    assert [row.count for row in wired.of("fibre") if row.tier == "scale-up"] == [3072]
    boxes = bill.of("optical-switch")[0]
    assert boxes.total_w.typical == 48 * 108
    assert boxes.total_w.typical / bill.total_w.typical < 0.03  # ISCA 2023: below 3 % of the power, 5 % of the cost
    assert boxes.total_usd.typical / bill.total_usd.typical < 0.05


def test_slices_wait_for_light_and_links():
    assert pod().cubes.dead_ps == 3_000_000_000 + 5_670_000_000_000
    assert pod(relink_ps=0, switch="polatis-384").cubes.dead_ps == 46_800_000_000
    assert pod(wiring="static").cubes.dead_ps == 0


def test_blocks_divide_the_grid():
    cubes = pod(wiring="static").cubes
    shapes = {1: (1, 1, 1), 2: (1, 1, 2), 3: (1, 2, 2), 5: (2, 2, 2), 8: (2, 2, 2), 16: (2, 2, 4), 33: (4, 4, 4)}
    assert {count: cubes.block(count) for count in shapes} == shapes
    for count, shape in shapes.items():
        blocks = list(cubes.blocks(count))
        assert sorted(cube for block in blocks for cube in block) == list(range(64)), shape
    assert next(cubes.blocks(8)) == [0, 1, 4, 5, 16, 17, 20, 21]


@pytest.mark.parametrize(
    ("given", "key", "words"),
    [
        ({"accelerators": 9216, "server": "tpu-v7-host"}, "ocs.switch", "polatis-384"),
        ({"switch": "palomer"}, "ocs.switch", "palomar"),
        ({"cube": 96}, "ocs.cube", "96"),
        ({"cube": 4096}, "ocs.cube", "two cubes"),
        ({"accelerators": 64, "server": "hgx-h100"}, "ocs", "tpu-v5p-host"),
    ],
)
def test_refusals(given, key, words):
    with pytest.raises(InputError) as refused:
        pod(**given)
    assert refused.value.problems[0].key == key
    assert words in str(refused.value)


def test_ironwood_takes_switches_of_300_ports():
    cubes = pod(9216, "tpu-v7-host", switch="r300").cubes
    assert (cubes.count, cubes.switches) == (144, 48)
    assert cubes.optic.rate_bps == 800e9  # 100 GB/s a link
