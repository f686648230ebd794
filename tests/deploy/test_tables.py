"""What tenants take of the tables of switches, counted by hand on four leafs of two servers and two spines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from railyard.ask.deploy.tenants import demands
from railyard.catalog import load

from .scenarios import draft, planned

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
