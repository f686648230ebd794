"""Patch panels: every port once, trunks from panel to panel, light within the budget, the bill to the item."""

from __future__ import annotations

from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.ask.deploy.emit import tables
from railyard.cluster.bill import bill_of
from railyard.cluster.network_table import DIALECTS

from .scenarios import draft, planned


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
    for side, device in (("a", cables.a), ("b", cables.b)):
        panel, port = getattr(one, f"{side}_panel")[mine], getattr(one, f"{side}_port")[mine]
        assert (one.panel_rack[panel] == racks.rack[device[mine]]).all()
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
