"""Plans: every port once, the bill to the item, lengths by route, racks within their limits."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from railyard.ask.audit.audit import audit_plan
from railyard.ask.deploy.cabling import capital_of, dialects, drawn
from railyard.ask.deploy.emit import tables
from railyard.ask.deploy.tenants import demands
from railyard.catalog import Range, load
from railyard.cluster.bill import NOTHING, bill_of
from railyard.cluster.fault.cluster_places import ClusterPlaces
from railyard.cluster.hall.racks import bought
from railyard.cluster.network_table import DIALECTS
from railyard.face.cli import guard
from railyard.measure.cost.capital import NICS, OPTICS, parts_of_rows
from railyard.measure.cost.power import power_with
from railyard.work.operate.tree import NodeTree
from railyard.work.scenario.load import dump
from railyard.work.scenario.load import load as load_scenario

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
    ends = Counter(zip(cables.a.tolist(), cables.network.tolist(), cables.port[:, 0].tolist(), strict=True))
    ends += Counter(zip(cables.b.tolist(), cables.network.tolist(), cables.port[:, 1].tolist(), strict=True))
    assert set(ends.values()) == {1}
    lanes = Counter(zip(cables.b.tolist(), cables.cage[:, 1].tolist(), cables.lane[:, 1].tolist(), strict=True))
    assert set(lanes.values()) == {1}
    assert (cables.lane < cables.lanes).all()
    assert len(set(plan.devices.name)) == len(plan.devices)


def modules_of(plan) -> Counter[str]:
    """Optical modules by name as the schedule has them: of a cage with two links one, else one an end of a cable."""
    rows, frame = plan.cables, tables.cables(plan, DIALECTS["eos"])
    found: set[tuple[object, ...]] = set()
    for at in range(len(rows)):
        for side, column in enumerate(("a_module", "b_module")):
            name = frame[column][int(plan.order[at])]
            device, cage, lanes = (int(column[at, side]) for column in (rows.ends, rows.cage, rows.lanes))
            if name and plan.cluster.catalog.cable(name).rate_bps >= 2 * rows.rate_bps[at] and lanes == 2:
                found.add((name, device, cage))
            elif name:
                found.add((name, int(rows.tier[at]), int(rows.number[at]), side))
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
    lengths = plan.length_m[np.isin(plan.cables.tier, long)]
    assert set(lengths.tolist()) == {80_000.0}
    assert plan.length_m[~np.isin(plan.cables.tier, long)].max() < 100
    assert any("sites are drawn on one floor" in words for words in plan.remarks)


def test_a_hundred_thousand_accelerators_are_columns():
    plan = planned(draft(102_400, "three-tier", "spectrum-x"))
    assert len(plan.cables) == 3 * 102_400
    columns = [value for value in vars(plan.cables).values() if isinstance(value, np.ndarray)]
    assert sum(column.nbytes for column in columns) < 40 << 20


# Halls: racks within their limits, switches in the middle of what they serve, short ways.

HALL_CASES = [
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
@given(st.sampled_from([8, 96, 256, 1024]), st.sampled_from(HALL_CASES), SHAPE)
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
    metres = {tier.name: plan.length_m[plan.cables.tier == at] for at, tier in enumerate(plan.tiers)}
    assert plan.length_m.sum() / 1e3 < 7700
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
    assert words[0] == "a server of 10.4 kW is more than the 8 kW of a rack"  # eight NIC modules draw 72 W
    assert "`hall.row_power` 0.005 MW" in words[1]
    assert "`hall.zone_power`" in words[2]


# Patch panels: every port once, trunks from panel to panel, light within the budget, the bill to the item.


def patched(size=256, which="switches", topology="leaf-spine", fabric="roce", lengths=None, **more):
    one = draft(size, topology, fabric, **more)
    values = {"cluster.back_end.patch_panels": which}
    values |= {f"cluster.back_end.cable_length.{tier}": metres for tier, metres in (lengths or {}).items()}
    return planned(one.with_values(values, "a test"))


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from([64, 256, 1024]),
    st.sampled_from(["switches", "all"]),
    st.sampled_from([("leaf-spine", "roce"), ("rail-optimized", "spectrum-x"), ("three-tier", "infiniband")]),
)
def test_every_panel_port_is_used_once_and_trunks_join_panels_of_two_racks(size, which, case):
    plan = patched(size, which, *case, lengths={"nic": "20 m"})
    one, cables, racks = plan.racks.patching, plan.cables, plan.racks
    if one is None:  # copper, or all in one rack
        assert all(not tier.fibre for tier in plan.tiers if which == "all" or not tier.access)
        return
    mine = np.flatnonzero(one.trunk >= 0)
    legs = set(zip(one.trunk[mine].tolist(), one.leg[mine].tolist(), strict=True))
    physical = set(zip(cables.tier[mine].tolist(), cables.number[mine].tolist(), strict=True))
    assert len(legs) == len(physical)
    ports = Counter()
    assert (one.panel_rack[one.panel[mine]] == racks.rack[cables.ends[mine]]).all()
    for side in range(2):
        panel, port = one.panel[mine, side], one.port[mine, side]
        assert port.min(initial=1) >= 1
        assert port.max(initial=1) <= one.ports
        ports.update({(int(p), int(q)) for p, q in zip(panel, port, strict=True)})
    assert set(ports.values()) <= {1}
    assert sum(ports.values()) == 2 * len(physical)
    sides = one.panel_rack[one.trunk_panels]
    assert (sides[:, 0] != sides[:, 1]).all()
    taken = Counter(zip(one.panel_rack.tolist(), one.panel_unit.tolist(), strict=True))
    for rack, unit, height in zip(racks.rack, racks.unit, plan.devices.height_u, strict=True):
        taken.update((int(rack), int(unit) + k) for k in range(int(height)))
    assert set(taken.values()) == {1}
    assert one.panel_unit.max(initial=1) <= racks.spec.rack_units


@settings(max_examples=15, deadline=None)
@given(st.sampled_from([64, 256, 512]), st.sampled_from(["switches", "all"]))
def test_the_bill_of_panels_is_the_plan(size, which):
    plan = patched(size, which, "rail-optimized", "roce", lengths={"nic": "20 m", "leaf-spine": "20 m"})
    one = plan.racks.patching
    bill = bill_of(plan.cluster)
    assert bill.count("panel") == len(one.panel_rack)
    assert bill.count("trunk") == len(one.trunk_tier) == len(tables.trunk_table(plan))
    through = {(int(t), int(n)) for t, n in zip(plan.cables.tier, plan.cables.number, strict=True)}
    cords = sum(1 for _ in through) + len(set(zip(one.trunk[one.trunk >= 0], one.leg[one.trunk >= 0], strict=True)))
    assert bill.count("fibre") == cords


def test_a_small_hall_by_hand():
    """256 H100: 256 links between a rack of leafs and one of spines: 22 trunks, which take six panels at each end."""
    plan = patched(256)
    one = plan.racks.patching
    assert int((one.trunk >= 0).sum()) == 256
    frame = tables.trunk_table(plan)
    assert (len(frame), frame["used"].sum(), frame["legs"].unique().to_list()) == (22, 256, [12])
    assert frame["used"].to_list() == [12] * 21 + [4]
    assert sorted(Counter(one.panel_rack.tolist()).values()) == [6, 6]


def test_light_is_reckoned_with_two_connections_and_the_fibre():
    plan = patched(256)
    frame = tables.cables(plan, DIALECTS["eos"]).filter(pl.col("tier") == "leaf-spine")
    row = frame.row(0, named=True)
    # 400GBASE-SR4 bears 1.8 dB; two connections at 0.75 dB and OM4 at 3.5 dB/km.
    assert row["budget_db"] == 1.8
    assert row["loss_db"] == pytest.approx(1.5 + row["length_m"] * 0.0035, abs=1e-3)
    assert not any("lose up to" in words for words in plan.remarks)
    dim = patched(256, hall={"patch_loss": "0.9 dB"})
    assert any("256 of 256 cables of back-end leaf-spine lose up to 1.8" in words for words in dim.remarks)
    straight = tables.cables(planned(draft(256, "leaf-spine", "roce")), DIALECTS["eos"]).filter(
        pl.col("tier") == "leaf-spine"
    )
    assert straight["trunk"].null_count() == len(straight)
    assert straight["loss_db"].max() < 0.1


def test_port_maps_name_both_ends():
    plan = patched(256)
    ports = tables.panel_table(plan, DIALECTS["eos"])
    cables = tables.cables(plan, DIALECTS["eos"]).filter(pl.col("trunk").is_not_null())
    assert len(ports) == 2 * len(cables)
    one = cables.row(0, named=True)
    panel, port = one["a_panel"].split(":")
    found = ports.filter((pl.col("panel") == panel) & (pl.col("port") == int(port))).row(0, named=True)
    assert (found["device"], found["device_port"]) == (one["a_device"], one["a_port"])
    assert (found["far_device"], found["far_port"], found["far_panel"]) == (
        one["b_device"],
        one["b_port"],
        one["b_panel"],
    )
    assert found["rack"] == panel.split("-")[0] == one["a_rack"]


# What tenants take of the tables of switches, counted by hand on four leafs of two servers and two spines.

TENANTS = [
    {"name": "blue", "servers": "0,2,4"},
    {"name": "green", "servers": "1,6-7"},
    {"name": "red", "servers": "3,5"},
]


def rows(by, switch=None):
    back_end = {
        "topology": {"kind": "leaf-spine", "ports_per_leaf": 2, "spines": 2},
        "fabric": "roce",
        "switch": switch,
    }
    tenancy = {"by": by, "tenants": TENANTS}
    plan = planned(draft(8, server="gh200-node", tenancy=tenancy, back_end=back_end))
    return {(one.role, one.table): one for one in demands(plan)}


@pytest.mark.parametrize(
    ("by", "counts"),
    [
        # six loopbacks and eight prefixes; two servers, two sessions; lists: 3 permits of blue, 2 of green, last rows
        ("acl", {"leaf routes": 14, "leaf neighbours": 4, "leaf rules": 7, "spine routes": 14, "spine neighbours": 4}),
        # leaf 0 has blue and green: 6 + 3 + 3; two servers, two sessions, and two more for each of the two tenants
        (
            "vrf",
            {
                "leaf routes": 12, "leaf neighbours": 8, "leaf vrfs": 2,
                "spine routes": 14, "spine neighbours": 11, "spine vrfs": 3,
            },
        ),
        # blue is on three leafs, green on two: 2 + 1 far ends of tunnels; spines have nothing but loopbacks
        (
            "evpn",
            {
                "leaf routes": 12, "leaf neighbours": 7, "leaf vrfs": 2, "leaf vnis": 2,
                "spine routes": 6, "spine neighbours": 4,
            },
        ),
    ],
)  # fmt: skip
def test_rows_by_hand(by, counts):
    assert {f"{role} {table}": one.rows for (role, table), one in rows(by).items()} == counts


def test_without_tenants_nothing_is_counted():
    assert (
        demands(planned(draft(8, "leaf-spine", "roce", {"ports_per_leaf": 2, "spines": 2}, server="gh200-node"))) == []
    )


def test_partition_keys_are_one_more_than_tenants_of_a_port():
    tenants = [{"name": "blue", "servers": "0"}]
    plan = planned(draft(32, "leaf-spine", "infiniband", tenancy={"by": "pkey", "tenants": tenants}))
    assert {(one.role, one.table): one.rows for one in demands(plan)}["leaf", "partition_keys"] == 2


def test_what_a_box_has_is_the_catalogue_s():
    assert load().switch("spectrum-3-sn4700").tables == {"routes": 82_000, "neighbours": 41_000, "vrfs": 255}
    found = rows("vrf", "spectrum-4-sn5600")
    assert {one.most for (_, table), one in found.items() if table == "vrfs"} == {255}
    assert {one.most for (_, table), one in found.items() if table == "routes"} == {82_000}
    assert all("Cumulus Linux" in one.source for one in found.values() if one.most)
    assert all(one.most is None and one.fits for one in rows("vrf").values())  # none is published for Tomahawk 5


def test_more_than_a_box_has_does_not_fit():
    one = next(iter(rows("vrf", "spectrum-4-sn5600").values()))
    assert one.fits
    assert not replace(one, rows=(one.most or 0) + 1).fits
    assert replace(one, rows=one.most or 0).fits


def test_cables_longer_than_their_medium_are_counted_and_named(tmp_path, capsys):
    """Copper of 400 Gb/s reaches 3 m; of 4 m on all 128 cables of NICs are too long as drawn."""
    one = draft(128, "leaf-spine", "infiniband").with_values({"cluster.back_end.cable_length.nic": "3 m"}, "a test")
    plan = planned(one)
    reach = np.array([tier.reach_m for tier in plan.tiers])[plan.cables.tier]
    assert plan.too_long.tolist() == (plan.length_m > reach).tolist()
    assert plan.too_long.any()
    path = tmp_path / "one.json"
    path.write_text(json.dumps(dump(one.scenario)))
    assert guard.run(["deploy", str(path), "--out", str(tmp_path / "hall")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    long = f"But {plan.too_long.sum()} of {len(plan.cables)} cables are longer than their medium reaches"
    assert said.startswith("Build ")
    assert long in said


# One medium for a tier in every view: schedule, bill, capital, power and racks.


def scheduled(plan):
    frame = tables.cables(plan, DIALECTS["eos"])
    return {(tier, medium): count for tier, medium, count in frame.group_by("tier", "medium").len().rows()}


def bought_parts(plan):
    kinds = ("cable", "optic", "fibre")
    return {(row.tier, row.name): row.count for row in bill_of(plan.cluster) if row.kind in kinds}


def test_media_follow_lengths_in_every_view():
    """64 links of 2 m: passive copper, $130. 64 of 60 m: DR4 from 64 shared cages, $1,250 each, and 64 fibres of $80.

    Power, typical and most: 128 ends of copper 0.1 and 0.2 W, 64 modules 16 and 17 W.
    """
    lengths = {"nic": "2 m", "leaf-spine": "60 m"}
    values = {f"cluster.back_end.cable_length.{tier}": metres for tier, metres in lengths.items()}
    one = draft(64, "rail-optimized", "roce").with_values(values, "a test")
    plan = planned(one)
    assert scheduled(plan) == {("nic", "dac-400g"): 64, ("leaf-spine", "optic-400g-dr4"): 64}
    assert modules_of(plan) == {"optic-800g-dr8": 64}
    assert bought_parts(plan) == {
        ("nic", "dac-400g"): 64,
        ("leaf-spine", "optic-800g-dr8"): 64,
        ("leaf-spine", "fibre-mpo-12"): 64,
    }
    assert capital_of(one, plan.cluster).line(OPTICS).typical == pytest.approx(64 * (130 + 1250 + 80))
    parts = parts_of_rows(bill_of(plan.cluster))
    drawn = {line.name: line.power_w for line in power_with(NOTHING, 0.0, parts, Range(1, 1, 1), 1.0).lines}
    assert drawn["optics"].typical == pytest.approx(128 * 0.1 + 64 * 16)
    bare = sum(row.total_w.high for row in bill_of(plan.cluster) if row.kind not in ("cable", "optic"))
    assert plan.racks.power_w.sum() - bare == pytest.approx(128 * 0.2 + 64 * 17)


@pytest.mark.parametrize(
    ("topology", "size", "medium", "pieces", "usd"),
    [
        ("leaf-spine", 128, "aec-400g", 128, 230),  # routes of 4 to 7 m
        ("leaf-spine", 512, "optic-400g-sr4", 512, 480),  # routes of 5 to 15 m
    ],
)
def test_a_tier_without_a_length_is_bought_for_its_longest_route(topology, size, medium, pieces, usd):
    """The family's usual 3 m is within a rack; leafs stand in the middle of their row."""
    plan = planned(draft(size, topology, "roce"))
    assert scheduled(plan)["nic", medium] == size
    assert bought_parts(plan)["nic", medium] == pieces
    assert plan.cluster.catalog.cable(medium).price_usd.typical == usd
    assert not plan.too_long.any()
    assert plan.cluster.plans["back_end"].runs[0].length_m == 3.0  # the engines' propagation is the scenario's


@pytest.mark.parametrize(
    ("example", "outside"),
    [
        ("first.yaml", {}),
        ("optical.yaml", {"optical circuit switches and their modules": 300.0}),
        ("scale-up.yaml", {"scale-up switches": 92_160.0}),
        ("two-sites-diloco.yaml", {"lines between sites": 800.0}),
        ("reference/dgx-superpod-h100.yaml", {"management": 19_619.2}),
    ],
)
def test_racks_and_what_is_outside_them_draw_what_the_bill_does(example, outside):
    one = load_scenario(Path("examples") / example)
    plan = planned(one)
    found = {what: watts.high for what, watts in plan.outside_w.items()}
    assert found == pytest.approx(outside)
    assert plan.racks.power_w.sum() + sum(found.values()) == pytest.approx(bill_of(plan.cluster).total_w.high)


def test_modules_draw_in_the_rack_of_their_port():
    """A server of 64 H100 on rails: eight SR4 of 9 W; a leaf: four cages of NICs and four of spines, 11 W each."""
    plan = planned(draft(64, "rail-optimized", "roce"))
    bare = {row.kind: row.power_w.high for row in bill_of(plan.cluster) if row.kind in ("server", "accelerator", "nic")}
    watts, role = plan.devices.power_w, plan.devices.role
    assert watts[0] == pytest.approx(bare["server"] + 8 * (bare["accelerator"] + bare["nic"]) + 8 * 9)
    leaf = plan.cluster.catalog.switch(plan.devices.box[role == "leaf"][0])
    assert set(watts[role == "leaf"].tolist()) == {leaf.power_w.high + 8 * 11}


def test_nics_are_one_line_of_the_capital_and_draw_in_their_servers():
    """Sixteen servers with eight NICs on the back-end and two on the front-end, in the bill by network."""
    one = draft(128, "rail-optimized", "roce", front_end={"topology": "leaf-spine"})
    plan = planned(one)
    rows = bill_of(plan.cluster).of("nic")
    assert {row.network: row.count for row in rows} == {"back-end": 128, "front-end": 32}
    usd = sum(row.total_usd.typical for row in rows)
    assert capital_of(one, plan.cluster).line(NICS).typical == pytest.approx(usd)
    listed = tables.bill(plan).filter(pl.col("kind") == "nic")
    assert listed["total_usd"].sum() == pytest.approx(usd)


def test_schedulers_take_the_names_of_the_plan():
    plan = planned(draft(128))
    tree = NodeTree.of(plan.cluster)
    assert (
        list(tree.names) == plan.devices.name[: plan.devices.servers] == [f"node{number:02d}" for number in range(16)]
    )
    assert tree.number["node05"] == tree.number["node5"] == 5  # lists of nodes without the zero are read still
    assert "node16" not in tree.number


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([], ", as in `railyard run`, "),
        (
            ["workload.serving.pools.decode.server=hgx-h200"],
            ", without the hardware of `workload.serving.pools.decode.server`, ",
        ),
    ],
)
def test_the_capital_is_that_of_a_run_unless_pools_have_their_own_servers(changes, said, tmp_path, capsys):
    scenario = "examples/serving/two-kinds.yaml"
    sets = [word for change in changes for word in ("--set", change)]
    assert guard.run(["deploy", scenario, *sets, "--out", str(tmp_path / "hall")]) == 0
    assert said in " ".join(capsys.readouterr().out.split())


def test_faults_take_the_names_that_the_plan_prints():
    places = ClusterPlaces.of(planned(draft(128)).cluster)
    wanted = places.cable("server 5 nic 3 - leaf 1").tolist()
    for ends in ("node05 be3 - be-leaf1", "node5 be3 - leaf 1", "server 5 NIC 3 - be-leaf1"):
        assert places.cable(ends).tolist() == wanted
    assert places.switch("be-spine1").tolist() == places.switch("spine 1").tolist()
