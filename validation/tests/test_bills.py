"""Bills of published designs: every difference has its cause, and sums of rows are what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from railyard.cluster.bill import NOTHING, BillOfMaterials, BillRow
from railyard.kit.errors import InputError
from railyard_validation.bills import compare, counted

TABLE = Path(__file__).parents[1] / "data" / "bills" / "bills.csv"


@pytest.fixture(scope="module")
def items():
    return compare(TABLE)


def test_every_difference_has_its_cause(items):
    assert all(one.cause for one in items if one.difference)
    assert sum(one.difference == 0 for one in items) == 80
    assert len(items) == 91


def test_switches_and_cables_of_the_compute_fabric_are_the_published_ones(items):
    judged = [one for one in items if one.table in ("table 3", "table 4")]
    assert len(judged) == 46
    assert not [one for one in judged if one.difference]


def test_sums():
    rows = [
        BillRow("optic", "a", 10, NOTHING, NOTHING, "back-end", "nic"),
        BillRow("optic", "b", 7, NOTHING, NOTHING, "storage", "nic"),
        BillRow("switch", "c", 3, NOTHING, NOTHING, "back-end", "leaf"),
    ]
    bill = BillOfMaterials(tuple(rows))
    assert counted(bill, "optic/*/nic") == 17
    assert counted(bill, "0.5 optic/back-end/nic + switch/*/*") == 8
    assert counted(bill, "optic/*/nic/b + -2 switch/*/*") == 1
    with pytest.raises(InputError, match="kind/network/tier"):
        counted(bill, "optic")


def test_a_wrong_table_is_said(tmp_path):
    table = tmp_path / "t.csv"
    head = TABLE.read_text(encoding="utf-8").splitlines()[0]
    table.write_text(f"{head}\nd,t,c,x.yaml,,i,many,a/b/c,\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        compare(table)
    assert caught.value.problems[0].key == "published"
