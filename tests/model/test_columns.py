"""Columns of records: order, reading each once, rows by number."""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass

import numpy as np
import pytest

from railyard import catalog
from railyard.model.machine import Machine, MachineColumns, Slowdowns, columns_of, table_of, take

Columns = make_dataclass("Columns", ["twice", "name"])


@dataclass(frozen=True)
class Nested:
    inner: object
    other: np.ndarray


def test_each_distinct_object_is_read_once_and_keeps_its_rows():
    read = []

    def row(item):
        read.append(item)
        return {"name": item[0], "twice": 2 * item[0], "left out": 9}

    first, second = [3.5], [7]
    found = columns_of(Columns, [first, second, first, [3.5]], row)
    assert found.twice.tolist() == [7.0, 14.0, 7.0, 7.0]
    assert found.name.tolist() == [3.5, 7.0, 3.5, 3.5]
    assert read == [[3.5], [7], [3.5]]


def test_items_of_one_key_are_worked_out_once():
    worked = []
    table = table_of([5, 12, 15, 2], lambda n: worked.append(n) or (n % 10, n % 10 + 0.5), key=lambda n: n % 10)
    assert table.tolist() == [[5, 5.5], [2, 2.5], [5, 5.5], [2, 2.5]]
    assert worked == [5, 12]


def test_rows_are_taken_at_every_depth():
    columns = Nested(Columns(np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])), np.array([7.0, 8.0, 9.0]))
    found = take(columns, np.array([2, 0]))
    assert found.inner.twice.tolist() == [3.0, 1.0]
    assert found.inner.name.tolist() == [6.0, 4.0]
    assert found.other.tolist() == [9.0, 7.0]


def test_rows_are_taken_of_what_others_slow_and_where_nobody_does():
    machine = Machine.of_device(catalog.load().accelerator("h100-sxm"), 400e9)
    slowed = Slowdowns(
        {"dp": np.array([1.0, 1.25, 1.5])}, {"dp": np.array([2.0, 2.5, 4.0])}, {"dp": np.array([2.0, 2.5, 4.0])}
    )
    alone, met = (take(MachineColumns.of([machine] * 3, each), np.array([2, 0])) for each in (None, slowed))
    assert alone.slowed is None
    assert met.slowed.outside["dp"].tolist() == [4.0, 2.0]
    assert met.seen_by("dp").out_bytes_s == pytest.approx([400e9 / 8 / 4, 400e9 / 8 / 2])
