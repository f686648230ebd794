"""Columns of records: order, reading each once, replacing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from railyard import catalog
from railyard.model.machine import Machine, MachineColumns, RecordColumns, Slowdowns, table_of


@dataclass(frozen=True)
class Item:
    size: float | None
    flag: bool = True
    twice: float = -1.0


def test_each_distinct_record_is_read_once_and_keeps_its_rows():
    read = []

    def derive(item):
        read.append(item)
        return {"twice": 2 * item.size}

    first, second = Item(3.5), Item(7, flag=False)
    found = RecordColumns([first, second, first, Item(3.5)], derive)
    assert found.twice.tolist() == [7.0, 14.0, 7.0, 7.0]  # takes the place of the attribute
    assert found.size.tolist() == [3.5, 7.0, 3.5, 3.5]
    assert found.flag.tolist() == [1.0, 0.0, 1.0, 1.0]
    assert read == [Item(3.5), second, Item(3.5)]


def test_columns_that_no_record_has_are_errors_and_none_is_not_a_number():
    found = RecordColumns([Item(None), Item(2.0)])
    assert np.isnan(found.size[0])
    assert found.size[1] == 2.0
    with pytest.raises(AttributeError, match="sise"):
        _ = found.sise


def test_replaced_columns_leave_the_others_as_they_were():
    found = RecordColumns([Item(1.0), Item(2.0)])
    other = found.replace(size=np.array([5.0, 6.0]))
    assert (found.size.tolist(), other.size.tolist(), other.twice.tolist()) == ([1.0, 2.0], [5.0, 6.0], [-1.0, -1.0])


def test_items_of_one_key_are_worked_out_once():
    worked = []
    table = table_of([5, 12, 15, 2], lambda n: worked.append(n) or (n % 10, n % 10 + 0.5), key=lambda n: n % 10)
    assert table.tolist() == [[5, 5.5], [2, 2.5], [5, 5.5], [2, 2.5]]
    assert worked == [5, 12]


def test_a_class_of_communicators_is_slowed_by_others():
    machine = Machine.of_device(catalog.load().accelerator("h100-sxm"), 400e9)
    slowed = Slowdowns({"dp": np.array([1.5, 1.0])}, {"dp": np.array([4.0, 2.0])}, {"dp": np.array([4.0, 2.0])})
    met = MachineColumns.of([machine] * 2, slowed).seen_by("dp")
    assert met.out_bytes_s == pytest.approx([400e9 / 8 / 4, 400e9 / 8 / 2])
    assert met.up_bytes_s == pytest.approx(machine.scale_up_bps / 8 / np.array([1.5, 1.0]))
