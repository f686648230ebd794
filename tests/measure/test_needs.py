"""Every measure of a record either works with what a measured cluster has or says exactly what is missing."""

import numpy as np
import pytest

from railyard.graph import Record
from railyard.graph.columns import CORE
from railyard.kit.errors import InputError
from railyard.measure import bottleneck
from railyard.measure.decompose import decompose
from railyard.measure.network import network_use, packet_section
from railyard.measure.picture import tracks

MISSING = [
    (decompose, "column blocker, column alone_ps, column latency_ps, task graph"),
    (lambda record: network_use(record, None, None), "table links, task graph"),
    (lambda record: bottleneck.resources(None, record), "table links, task graph"),
    (lambda record: packet_section(record, {}), "column target"),
    (lambda record: tracks(record, [0]), "task graph"),
]


@pytest.mark.parametrize(("measure", "missing"), MISSING)
def test_a_bare_record_lacks(measure, missing):
    bare = Record(rows="tasks", **{name: np.zeros(2, column.dtype) for name, column in CORE.items()})
    with pytest.raises(InputError, match="of a measured cluster") as caught:
        measure(bare)
    assert str(caught.value).splitlines()[0].endswith(f"does not have: {missing}")
    assert "column end_ps, column size_bytes" in str(caught.value)


def test_a_decomposition_needs_no_more_than_it_says(yard):
    job = yard(1)
    job.compute(0, 7)
    line = job.play()
    kept = {name: line.column(name) for name in ("blocker", "alone_ps", "latency_ps")}
    assert decompose(Record.of_tasks(line.graph, line.start_ps, line.end_ps, optional=kept)).step_ps == 7
