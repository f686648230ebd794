"""Plans: every port once, the bill to the item, lengths by route, racks within their limits."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.ask.audit.audit import audit_plan
from railyard.ask.deploy.cabling import dialects, drawn
from railyard.cluster.bill import bill_of

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


def modules_of(plan) -> Counter[str]:
    """Optical modules by name: of a cage with two links one, else one an end; by the drawn cables alone."""
    rows, catalog = plan.cables, plan.cluster.catalog
    found: set[tuple[object, ...]] = set()
    for at in range(len(rows)):
        tier = plan.tiers[int(rows.tier[at])]
        for side in "ab" if tier.fibre else "":
            device, cage, lanes = (int(getattr(rows, side + key)[at]) for key in ("", "_cage", "_lanes"))
            twin = catalog.cable(tier.medium).twin
            if twin and lanes == 2:
                found.add((twin, device, cage))
            else:
                found.add((tier.medium, int(rows.tier[at]), int(rows.number[at]), side))
    return Counter(str(one[0]) for one in found)


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
    optics: Counter[str] = Counter()
    for row in bill_of(plan.cluster).of("optic"):
        optics[row.name] += row.count
    assert modules_of(plan) == optics
    switches = Counter(plan.devices.box[plan.devices.level > 0].tolist())
    bill = Counter()
    for row in bill_of(plan.cluster).of("switch"):
        bill[row.name] += row.count
    assert switches == bill


def test_a_plan_audited_as_it_was_drawn_has_no_fault():
    one = draft(256, "rail-optimized", "spectrum-x")
    plan = planned(one)
    for dialect in dialects(plan, 0):
        assert not audit_plan(drawn(plan, 0, dialect), one).findings


def test_lines_between_sites_are_as_long_as_the_scenario_has_them():
    plan = planned(draft(128, "multi-site", "roce", parts={"sites": 2, "distance": "80 km"}))
    long = [at for at, tier in enumerate(plan.tiers) if tier.reach_m > 10_000 or not tier.medium]
    lengths = plan.cables.length_m[np.isin(plan.cables.tier, long)]
    assert set(lengths.tolist()) == {80_000.0}
    assert plan.cables.length_m[~np.isin(plan.cables.tier, long)].max() < 100
    assert any("sites are drawn in one hall" in words for words in plan.remarks)


def test_a_hundred_thousand_accelerators_are_columns():
    plan = planned(draft(102_400, "three-tier", "spectrum-x"))
    assert len(plan.cables) == 3 * 102_400
    columns = [value for value in vars(plan.cables).values() if isinstance(value, np.ndarray)]
    assert sum(column.nbytes for column in columns) < 40 << 20
