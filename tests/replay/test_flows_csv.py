import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.graph import AT_RECEIVER
from railyard.kit.errors import InputError
from railyard.work.trace.formats import read_flows

from .checks import check, sent

HEAD = "source,target,size_bytes,start_us,after,delay_us"


def written(folder, *lines):
    file = folder / "f.csv"
    file.write_text("\n".join(lines))
    return file


def test_flows_starts_and_waits(tmp_path):
    trace = read_flows(written(tmp_path, "# a comment", HEAD, "0,5,2000000,1.5,,", "", "5,9,10,,1,2.5", "1,2,3,,1 2,"))
    assert trace.ranks == 10
    assert trace.graph.release_ps.tolist() == [1_500_000, 0, 0]
    flows = sent(trace)
    assert flows.start_ps.tolist() == [1_500_000, -1, -1]
    assert flows.delay_ps.tolist() == [0, 2_500_000, 0]
    assert flows.dep_idx.tolist() == [0, 0, 1]
    assert flows.need.tolist() == [0, 1, 2]
    assert set(flows.dep_at) == {AT_RECEIVER}
    assert trace.line.tolist() == [3, 5, 6]


def test_three_columns_are_enough_and_their_order_is_free(tmp_path):
    flows = sent(read_flows(written(tmp_path, "size_bytes,target,source", "7,1,0"), hosts=64))
    assert (flows.hosts, flows.size_bytes[0], flows.source[0], flows.target[0]) == (64, 7, 0, 1)


@pytest.mark.parametrize(
    ("lines", "message", "line"),
    [
        ((), "the table is empty", None),
        (("source,target",), "the column `size_bytes` is missing", 1),
        (("source,target,size_bytes,size_bytes",), "two columns are called `size_bytes`", 1),
        (("source,target,size",), "there is no column `size`", 1),
        ((HEAD, "0,1,2"), "as many cells", 2),
        ((HEAD, "0,1,x,,,"), "integer", 2),
        ((HEAD, "0,1,0,,,"), "out of range", 2),
        ((HEAD, "1,1,5,,,"), "to itself", 2),
        ((HEAD, "0,1,5,inf,,"), "expected a number", 2),
        ((HEAD, "0,1,5,,2,"), "out of range", 2),
        ((HEAD, "0,1,5,,,", "0,1,5,3,1,"), "not both", 3),
    ],
)
def test_malformed_files_name_the_line(tmp_path, lines, message, line):
    with pytest.raises(InputError, match=message) as caught:
        read_flows(written(tmp_path, *lines))
    assert caught.value.problems[0].line == line


def test_hosts_beyond_the_network_are_refused(tmp_path):
    with pytest.raises(InputError, match="a host 9, but only 8 hosts"):
        read_flows(written(tmp_path, HEAD, "0,9,5,,,"), hosts=8)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.text('0123456789,. "#-x', max_size=20), max_size=6))
def test_any_lines_are_read_or_refused(tmp_path_factory, lines):
    file = written(tmp_path_factory.mktemp("csv"), HEAD, *lines)
    try:
        check(read_flows(file))
    except InputError:
        return
