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


@settings(deadline=None, max_examples=60)
@given(st.lists(st.text('0123456789,. "#-x', max_size=20), max_size=6))
def test_any_lines_are_read_or_refused(tmp_path_factory, lines):
    file = written(tmp_path_factory.mktemp("csv"), HEAD, *lines)
    try:
        check(read_flows(file))
    except InputError:
        return
