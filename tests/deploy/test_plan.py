"""Plans: every port once, the bill to the item, lengths by route, racks within their limits."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.cluster.bill import bill_of
from railyard.deploy.audit.audit import audit_plan
from railyard.deploy.plan import racks
from railyard.deploy.plan.drawn import dialects, drawn

from .scenarios import draft, planned

SIZES = st.sampled_from([8, 32, 96, 128, 256])
CASES = [
    ("leaf-spine", "infiniband"),
    ("rail-optimized", "spectrum-x"),
    ("fat-tree", "roce"),
    ("leaf-spine", "scheduled"),
    ("rail-only", "roce"),
]


@settings(max_examples=20, deadline=None)
@given(SIZES, st.sampled_from(CASES))
def test_every_port_is_used_once_and_lies_on_its_box(size, case):
    plan = planned(draft(size, *case))
    cables = plan.cables
    ends = Counter(zip(cables.a.tolist(), cables.network.tolist(), cables.a_port.tolist(), strict=True))
    ends += Counter(zip(cables.b.tolist(), cables.network.tolist(), cables.b_port.tolist(), strict=True))
    assert set(ends.values()) == {1}
    lanes = Counter(zip(cables.b.tolist(), cables.b_cage.tolist(), cables.b_lane.tolist(), strict=True))
    assert set(lanes.values()) == {1}
    assert (cables.b_lane < cables.b_lanes).all()
    assert len(set(plan.devices.name)) == len(plan.devices)


@settings(max_examples=20, deadline=None)
@given(SIZES, st.sampled_from(CASES))
def test_the_bill_is_the_economics(size, case):
    plan = planned(draft(size, *case, front_end={"topology": "leaf-spine"}))
    mine: Counter[tuple[str, str, str]] = Counter()
    for number, tier in enumerate(plan.tiers):
        if tier.medium:
            pulled = len(np.unique(plan.cables.number[plan.cables.tier == number]))
            mine[tier.network, tier.name, "cable"] = pulled
    for row in bill_of(plan.cluster):
        if row.kind == "cable":
            assert mine[row.network, row.tier, "cable"] == row.count
        if row.kind == "fibre":
            assert mine[row.network, row.tier, "cable"] == row.count
    switches = Counter(plan.devices.box[plan.devices.level > 0].tolist())
    bill = Counter()
    for row in bill_of(plan.cluster).of("switch"):
        bill[row.name] += row.count
    assert switches == bill


def test_racks_hold_what_power_and_height_allow():
    plan = planned(draft(1024))
    assert plan.racks.power_w.max() <= racks.AIR_W
    server = plan.devices.role == "server"
    # Four HGX H100 of 10.4 kW are within 44 kW, a fifth is not; four of 8 U are 32 of 42.
    assert set(Counter(plan.racks.rack[server].tolist()).values()) == {4}
    top = plan.racks.unit + plan.devices.height_u - 1
    assert top.max() <= racks.UNITS
    taken = Counter()
    for rack, unit, height in zip(plan.racks.rack, plan.racks.unit, plan.devices.height_u, strict=True):
        taken.update((int(rack), int(unit) + k) for k in range(int(height)))
    assert set(taken.values()) == {1}


def test_a_route_goes_over_the_trays_with_slack():
    plan = planned(draft(1024))
    one, other = (np.array([plan.devices.name.index(name)], np.int32) for name in ("node000", "node127"))
    # Rack A01 unit 1 and rack B12 (the 32nd of 20 a row) unit 25: 11 racks of 0.6 m, a row of 2.4 m, twice 2.6 m up
    # less 26 units of 44.45 mm, half a metre left over at each end.
    assert plan.racks.names()[int(plan.racks.rack[other][0])] == "B12"
    assert plan.racks.metres(one, other)[0] == pytest.approx(11 * 0.6 + 2.4 + 5.2 - 26 * 0.04445 + 1.0)
    assert racks.bought(np.array([0.4, 2.01, 20.0, 501.2])).tolist() == [0.5, 2.5, 20.0, 502.0]


def test_a_plan_audited_as_it_was_drawn_has_no_fault():
    one = draft(256, "rail-optimized", "spectrum-x")
    plan = planned(one)
    for dialect in dialects(plan, 0):
        assert not audit_plan(drawn(plan, 0, dialect), one).findings


def test_a_hundred_thousand_accelerators_are_columns():
    plan = planned(draft(102_400, "three-tier", "spectrum-x"))
    assert len(plan.cables) == 3 * 102_400
    columns = [value for value in vars(plan.cables).values() if isinstance(value, np.ndarray)]
    assert sum(column.nbytes for column in columns) < 40 << 20
