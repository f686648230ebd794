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


def test_a_measure_says_everything_that_is_missing_and_what_is_there() -> None:
    record = bare(optional={"latency_ps": np.zeros(3, np.int64)}, meta={"engine": "flow"})
    with pytest.raises(InputError) as caught:
        record.require("exposed communication", "blocker", "latency_ps", "alone_ps", tables=["links"], graph=True)
    text = str(caught.value)
    assert "exposed communication needs" in text
    assert "of the engine `flow`" in text
    assert "column blocker, column alone_ps, table links, task graph" in text
    assert "column who, column what, column start_ps, column end_ps, column size_bytes, column latency_ps" in text


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


def test_a_column_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(InputError, match="of a measured cluster") as caught:
        bare().column("alone_ps")
    assert "size_bytes" in str(caught.value)
    with pytest.raises(InputError, match="no task graph"):
        _ = bare().graph


def test_every_column_has_a_type_of_numpy_and_a_sentence() -> None:
    columns = [*CORE.values(), *(column for _, column in COLUMNS.items())]
    columns += [column for _, kind in TABLES.items() for column in kind.columns.values()]
    for column in columns:
        assert np.dtype(column.dtype).name == column.dtype
        assert column.sentence.endswith((".", "1."))
    assert CORE["size_bytes"].unit == "bytes"
    assert CORE["who"].unit == ""
