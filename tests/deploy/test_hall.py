"""Halls: racks within their limits, switches in the middle of what they serve, short ways."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from railyard.cluster.hall.racks import bought

from .scenarios import draft, planned

CASES = [
    ("leaf-spine", "infiniband"),
    ("rail-optimized", "spectrum-x"),
    ("three-tier", "roce"),
    ("rail-only", "roce"),
    ("torus", "roce"),
    ("multi-site", "roce"),
    ("dragonfly", "roce"),
]
SHAPE = st.fixed_dictionaries(
    {},
    optional={
        "row_racks": st.integers(3, 30),
        "banks": st.integers(1, 5),
        "row_power": st.sampled_from(["300 kW", "900 kW", "3 MW"]),
        "network_units": st.integers(8, 42),
    },
)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([8, 96, 256, 1024]), st.sampled_from(CASES), SHAPE)
def test_every_device_has_a_place_of_its_own_within_the_limits(size, case, shape):
    assume(size > 8 or case[0] != "multi-site")  # one server is on one site
    plan = planned(draft(size, *case, front_end={"topology": "leaf-spine"}, hall=shape))
    racks, devices, spec = plan.racks, plan.devices, plan.racks.spec
    top = racks.unit + devices.height_u - 1
    assert racks.unit.min() >= 1
    assert top.max() <= spec.rack_units
    taken = Counter()
    for rack, unit, height in zip(racks.rack, racks.unit, devices.height_u, strict=True):
        taken.update((int(rack), int(unit) + k) for k in range(int(height)))
    assert set(taken.values()) == {1}
    assert np.allclose(np.bincount(racks.rack, weights=devices.power_w), racks.power_w)
    assert racks.power_w.max() <= spec.air_w
    assert len(set(racks.names())) == len(racks) == len(set(racks.rack.tolist()))
    rows = Counter(racks.floor.row.tolist())
    assert max(rows.values()) <= spec.row_racks
    power = np.bincount(racks.floor.row, weights=racks.power_w)
    assert power.max() <= spec.row_w or max(rows.values()) == 1
    zones = np.bincount(racks.floor.zone, weights=racks.power_w)
    alone = {zone for zone in range(len(zones)) if len(set(racks.floor.row[racks.floor.zone == zone].tolist())) == 1}
    assert all(watts <= spec.zone_w or zone in alone for zone, watts in enumerate(zones.tolist()))


@settings(max_examples=20, deadline=None)
@given(st.sampled_from([256, 1024, 4096]), st.integers(1, 6))
def test_racks_do_not_stand_in_one_another_or_in_aisles(size, banks):
    plan = planned(draft(size, "three-tier", "roce", hall={"banks": banks}))
    floor, spec = plan.racks.floor, plan.racks.spec
    places = set(zip(np.round(floor.x_m, 3).tolist(), np.round(floor.y_m, 3).tolist(), strict=True))
    assert len(places) == len(plan.racks)
    depths = np.unique(np.round(floor.y_m, 6))
    gaps = set(np.round(np.diff(depths), 6).tolist())
    assert gaps <= {round(spec.rack_depth_m + aisle, 6) for aisle in (spec.cold_aisle_m, spec.hot_aisle_m)}
    for row in range(int(floor.row.max()) + 1):
        x = np.sort(floor.x_m[floor.row == row])
        assert np.allclose(np.diff(x), spec.rack_width_m)


def test_leafs_and_spines_stand_in_the_middle_of_what_they_serve():
    """1,024 in two rows of 16 racks of servers: leafs in the middle of each, spines beside those of the first."""
    plan = planned(draft(1024))
    floor, devices, rack = plan.racks.floor, plan.devices, plan.racks.rack
    assert Counter(floor.row.tolist()) == {0: 18, 1: 17}
    for role, row, column in (("leaf", 0, 8), ("leaf", 1, 8), ("spine", 0, 9)):
        mine = rack[(devices.role == role) & (floor.row[rack] == row)]
        assert set(floor.column[mine].tolist()) == {column}
    assert plan.racks.unit[devices.role == "leaf"].max() == 42  # 1 U each, from the top


def test_a_route_goes_over_the_trays_with_slack():
    plan = planned(draft(1024))
    one, other = (np.array([plan.devices.name.index(name)], np.int32) for name in ("node000", "node127"))
    # Rack A01 unit 1 and rack B17 unit 25. Row A has 18 racks, row B 17 about the same middle: 16.5 widths of 0.6 m and
    # a rack's depth with a cold aisle, twice 2.6 m up less 26 units of 44.45 mm, half a metre left over at each end.
    assert plan.racks.names()[int(plan.racks.rack[other][0])] == "B17"
    assert plan.racks.metres(one, other)[0] == pytest.approx(16.5 * 0.6 + 1.2 + 1.2 + 5.2 - 26 * 0.04445 + 1.0)
    assert bought(np.array([0.4, 2.01, 20.0, 501.2])).tolist() == [0.5, 2.5, 20.0, 502.0]
    wide = planned(
        draft(1024, hall={"rack_width": "0.8 m", "cold_aisle": "1.8 m", "slack": "1 m", "tray_height": "3 m"})
    )
    assert wide.racks.metres(one, other)[0] == pytest.approx(16.5 * 0.8 + 1.2 + 1.8 + 6.0 - 26 * 0.04445 + 2.0)


def test_a_hall_of_a_hundred_thousand_is_laid_out_in_pods():
    """25 pods of 512 servers: eight rows with their leafs, spines in a row among them, cores in the middle of the hall.

    In one strip of 160 rows of racks, with all spines and cores in a row between, the same links took 21,681 km.
    """
    plan = planned(draft(102_400, "three-tier", "spectrum-x"))
    floor, devices, rack = plan.racks.floor, plan.devices, plan.racks.rack
    metres = {tier.name: plan.cables.length_m[plan.cables.tier == at] for at, tier in enumerate(plan.tiers)}
    assert plan.cables.length_m.sum() / 1e3 < 7700
    assert metres["leaf-spine"].max() <= 15
    assert metres["spine-core"].mean() < 56
    assert floor.banks == 5
    core = rack[devices.role == "core"]
    for axis in (floor.x_m, floor.y_m):
        assert (
            abs(axis[core].mean() - (axis.max() + axis.min()) / 2) < 11
        )  # pods stay whole: half of one, 9 rows of 2.3 m
    assert len(set(floor.row[rack[devices.role == "spine"]].tolist())) == 25
    assert not plan.remarks or all("longer than" in words for words in plan.remarks)


def test_the_shortest_of_all_banks_is_taken_or_nearly_so():
    total = {}
    for banks in (None, *range(1, 9)):
        plan = planned(draft(16_384, "three-tier", "roce", hall={} if banks is None else {"banks": banks}))
        total[banks] = plan.racks.metres(plan.cables.a, plan.cables.b).sum()
    assert total[None] <= 1.05 * min(total.values())


def test_what_does_not_keep_to_the_limits_is_said():
    words = planned(draft(256, hall={"rack_power": "8 kW", "row_power": "5 kW", "zone_power": "5 kW"})).racks.remarks
    assert words[0] == "a server of 10.3 kW is more than the 8 kW of a rack"
    assert "`hall.row_power` 0.005 MW" in words[1]
    assert "`hall.zone_power`" in words[2]
