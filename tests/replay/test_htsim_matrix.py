from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.engine.packet import Traffic
from railyard.graph import AT_RECEIVER, AT_SENDER
from railyard.kit.errors import InputError
from railyard.work.trace.htsim_matrix import read

from .checks import check, sent

DATA = Path(__file__).parents[1] / "packet" / "data"


def written(tmp_path: Path, *lines: str) -> Path:
    file = tmp_path / "m.cm"
    file.write_text("\n".join(lines))
    return file


def waits(table: Traffic, row: int) -> list[int]:
    return table.dep_idx[table.dep_ptr[row] : table.dep_ptr[row + 1]].tolist()


def test_a_matrix_of_htsim_is_read_as_it_stands():
    trace = read(DATA / "perm_128n_128c_2MB.cm")
    flows = sent(trace)
    assert (flows.hosts, len(flows)) == (128, 128)
    assert (flows.source[0], flows.target[0], flows.size_bytes[0], flows.start_ps[0]) == (103, 32, 2_000_000, 0)
    assert sorted(flows.source) == sorted(flows.target) == list(range(128))
    assert flows.dep_idx.size == 0
    assert trace.line[0] == 3


@pytest.mark.parametrize(("unit", "start_ps"), [("us", 40_000_000), ("ps", 40)])
def test_start_has_two_readings(unit, start_ps):
    flows = sent(read(DATA / "incast_3-1_overlapped.tm", start_unit=unit))
    assert flows.start_ps.tolist() == [0, start_ps, start_ps]


def test_large_starts_keep_every_picosecond(tmp_path):
    # htsim reads starts with 24 bits; 16777217 is the first integer that such a reading loses.
    file = written(tmp_path, "Nodes 2", "Connections 1", "0->1 start 16777217 size 1")
    assert read(file, start_unit="ps").graph.release_ps[0] == 16_777_217


def test_oneshot_triggers_chain_flows():
    flows = sent(read(DATA / "foo2.cm"))
    assert [waits(flows, row) for row in range(4)] == [[], [0], [1], []]
    assert flows.start_ps.tolist() == [0, -1, -1] * 4
    assert set(flows.dep_at) == {AT_SENDER}


def test_multishot_starts_one_more_each_time(tmp_path):
    lines = ["Nodes 4", "Connections 5", "Triggers 1"]
    lines += [f"0->{k} id {k} start 0 size 9 send_done_trigger 1" for k in (1, 2, 3)]
    lines += ["1->2 id 7 trigger 1 size 9", "1->3 id 8 trigger 1 size 9", "trigger id 1 multishot"]
    flows = sent(read(written(tmp_path, *lines)))
    assert [waits(flows, row) for row in (3, 4)] == [[0, 1, 2], [0, 1, 2]]
    assert flows.need.tolist() == [0, 0, 0, 1, 2]


def test_a_barrier_waits_for_its_count(tmp_path):
    lines = ["Nodes 4", "Connections 3", "Triggers 1"]
    lines += [f"0->{k} id {k} start 0 size 9 recv_done_trigger 1" for k in (1, 2)]
    lines += ["1->2 id 7 trigger 1 size 9", "trigger id 1 barrier count 2"]
    flows = sent(read(written(tmp_path, *lines)))
    assert flows.need.tolist() == [0, 0, 2]
    assert flows.dep_at.tolist() == [AT_RECEIVER, AT_RECEIVER]


def test_flows_that_nothing_starts_are_named_and_left_out(tmp_path):
    lines = ["Nodes 4", "Connections 4", "Triggers 3", "0->1 id 1 start 0 size 9"]
    lines += ["0->2 id 2 trigger 1 size 9 send_done_trigger 2", "0->3 id 3 trigger 2 size 9 send_done_trigger 3"]
    lines += ["1->2 id 4 trigger 3 size 9", *(f"trigger id {k} oneshot" for k in (1, 2, 3))]
    trace = read(written(tmp_path, *lines))
    assert len(trace.graph) == 1
    assert trace.never == (5, 6, 7)


def test_triggers_at_the_receiver_never_fire_in_htsim_and_may_be_made_to_do_so_here(tmp_path):
    lines = ["Nodes 4", "Connections 2", "Triggers 1", "0->1 id 1 start 0 size 9 recv_done_trigger 1"]
    file = written(tmp_path, *lines, "1->2 id 2 trigger 1 size 9", "trigger id 1 oneshot")
    assert sent(read(file)).dep_at.tolist() == [AT_RECEIVER]
    assert read(file, recv_done_trigger="ignore").never == (5,)


def test_messages_of_a_connection_are_one_flow():
    trace = read(DATA / "test_cr_1f10m1p.cm")
    assert trace.graph.size_bytes.tolist() == [40_860]
    assert "9 messages" in trace.left_out[0]


HEAD = ("Nodes 4", "Connections 1", "Triggers 1")
GOOD = "0->1 id 1 start 0 size 9"
TRIGGER = "trigger id 1 oneshot"


@pytest.mark.parametrize(
    ("lines", "message", "line"),
    [
        ((GOOD,), "before `Nodes`", 1),
        (("Nodes 4", GOOD), "lacks `Connections`", None),
        (("Nodes 4", "Connections 2", GOOD), "says 2, but the file holds 1", 2),
        (("Nodes 4", "Connections 1", "Triggers 2", GOOD, TRIGGER), "says 2, but the file holds 1", 3),
        (("Nodes 4", "Connections 1", GOOD, TRIGGER), "says 0, but the file holds 1", None),
        (("Nodes 4", "Nodes 4"), "given twice", 2),
        (("Nodes four",), "integer", 1),
        (("Nodes 99999999999999999999",), "integer", 1),
        (("Nodes 0",), "out of range", 1),
        (("nodes 4",), "did you mean `Nodes`", 1),
        ((*HEAD, "0->4 start 0 size 9"), "out of range", 4),
        ((*HEAD, "0->0 start 0 size 9"), "to itself", 4),
        ((*HEAD, "0->1->2 start 0 size 9"), "begins with", 4),
        ((*HEAD, "0->1 start 0"), "no `size`", 4),
        ((*HEAD, "0->1 start 0 size 0"), "out of range", 4),
        ((*HEAD, "0->1 start 0 size 1e6"), "integer", 4),
        ((*HEAD, "0->1 size 9"), "neither", 4),
        ((*HEAD, "0->1 id 1 start 0 trigger 1 size 9"), "both", 4),
        ((*HEAD, "0->1 trigger 1 size 9"), "needs an `id`", 4),
        ((*HEAD, "0->1 id 0 start 0 size 9"), "out of range", 4),
        ((*HEAD, "0->1 start nan size 9"), "expected a number", 4),
        ((*HEAD, "0->1 start -1 size 9"), "expected a number", 4),
        ((*HEAD, "0->1 start 0 size 9 send_done_triger 1"), "did you mean `send_done_trigger`", 4),
        ((*HEAD, "0->1 start 0 size"), "needs a value", 4),
        ((*HEAD, GOOD + " send_done_trigger 2", TRIGGER), "there is no such trigger", 4),
        ((*HEAD, GOOD, "trigger id 1"), "without a kind", 5),
        ((*HEAD, GOOD, "trigger oneshot"), "without `id`", 5),
        ((*HEAD, GOOD, "trigger id 1 barrier"), "needs `count`", 5),
        ((*HEAD, GOOD, "trigger id 1 twoshot"), "unknown word", 5),
        ((*HEAD, GOOD, TRIGGER, TRIGGER), "declared twice", 6),
        (("Nodes 4", "Connections 2", GOOD, GOOD), "is used twice", 4),
        ((*HEAD, GOOD, "failure switch_type LEAF switch_id 0 link_id 0"), "unknown type", 5),
        ((*HEAD, GOOD, "failure switch_type AGG"), "a failure is", 5),
    ],
)
def test_malformed_matrices_name_the_line(tmp_path, lines, message, line):
    file = written(tmp_path, *lines)
    with pytest.raises(InputError, match=message) as caught:
        read(file)
    assert caught.value.problems[0].file == str(file)
    assert caught.value.problems[0].line == line


VOCABULARY = (
    "Nodes Connections Triggers Failures 0->1 1->2 3->9 id start size trigger send_done_trigger recv_done_trigger prio "
    "msg oneshot multishot barrier count failure switch_type AGG switch_id link_id 0 1 2 4 -1 1e9 nan # x"
)
WORDS = st.sampled_from(VOCABULARY.split())


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(WORDS, max_size=9).map(" ".join), max_size=8))
def test_any_file_is_read_or_refused(tmp_path_factory, lines):
    file = written(tmp_path_factory.mktemp("cm"), "Nodes 4", *lines)
    try:
        trace = read(file)
    except InputError:
        return
    check(trace)


@settings(deadline=None, max_examples=60)
@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(tmp_path_factory, data):
    file = tmp_path_factory.mktemp("cm") / "m.cm"
    file.write_bytes(data)
    with pytest.raises(InputError):
        read(file)
