"""A record holds what its columns declare, and says what a measure misses."""

import re
from dataclasses import replace

import numpy as np
import pytest

from railyard.graph import Record
from railyard.graph.columns import COLUMNS, CORE, TABLES
from railyard.kit.errors import InputError


def bare(**more: object) -> Record:
    """Three rows of a measured cluster, of which nothing but the core is known."""
    core = {name: np.array([2, 0, 7], column.dtype) for name, column in CORE.items()}
    return Record(rows="tasks", **core, **more)


def test_the_core_is_there_by_name_and_as_attribute() -> None:
    record = bare()
    assert record.column("end_ps") is record.end_ps
    assert (len(record), record.makespan_ps) == (3, 7)


def test_nothing_is_missing() -> None:
    bare(tables={"links": {"bytes": np.zeros(2)}}).require("the load of links", tables=["links"])


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"optional": {"blocker": np.zeros(3, np.int64)}}, "blocker.*int64.*int32"),
        ({"optional": {"blocker": np.zeros(2, np.int32)}}, "blocker.*2 rows.*3 rows"),
        ({"optional": {"bloker": np.zeros(3, np.int32)}}, "bloker.*blocker"),
        ({"end_ps": np.zeros(3)}, "end_ps.*float64.*int64"),
        ({"tables": {"links": {"byte": np.zeros(3)}}}, "links.*byte"),
        ({"tables": {"sampled_links": {"link": np.zeros(3, np.int32), "rate_bps": np.zeros(2)}}}, "2 rows"),
        ({"rows": "task"}, "task"),
    ],
)
def test_what_is_not_declared_is_refused(change: dict, match: str) -> None:
    with pytest.raises(InputError) as caught:
        replace(bare(), **change)
    assert re.search(match, str(caught.value).replace("\n", " "))


def test_every_column_has_a_type_of_numpy_and_a_sentence() -> None:
    columns = [*CORE.values(), *(column for _, column in COLUMNS.items())]
    columns += [column for _, kind in TABLES.items() for column in kind.columns.values()]
    for column in columns:
        assert np.dtype(column.dtype).name == column.dtype
        assert column.sentence.endswith((".", "1."))
    assert CORE["size_bytes"].unit == "bytes"
    assert CORE["who"].unit == ""
