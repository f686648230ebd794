"""Goal."""

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.graph import AT_RECEIVER
from railyard.kit.errors import InputError
from railyard.work.trace.formats import read_flows
from railyard.work.trace.goal import read

from .checks import check, finish_times, sent

PING = """
num_ranks 2
rank 0 { // the sender
  l1: calc 1000
  l2: send 4096b to 1 tag 7 cpu 0 nic 0
  l2 requires l1
  l3: recv 8b from 1 tag 9
}
rank 1 {
  /* waits, works,
     answers */
  l1: recv 4096b from 0 tag 7
  l2: calc 500 cpu 1
  l3: send 8b to 0 tag 9
  l2 requires l1
  l3 requires l2
}
"""


def schedule(tmp_path: Path, text: str | bytes) -> Path:
    file = tmp_path / "s.goal"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def test_a_ping_and_its_answer(tmp_path):
    flows = sent(read(schedule(tmp_path, PING)))
    assert flows.hosts == 2
    rows = np.flatnonzero(flows.travels)
    assert flows.size_bytes[rows].tolist() == [4096, 8]
    # With flows that take 1 us + 1 ns a byte: 1 us of calculation, 5.096 us, 0.5 us, 1.008 us.
    ends = finish_times(flows, lambda row: 1_000_000 + 1000 * int(flows.size_bytes[row]))
    assert ends.max() == 1_000_000 + 5_096_000 + 500_000 + 1_008_000


def test_irequires_waits_for_the_beginning_only(tmp_path):
    text = "num_ranks 1\nrank 0 {\n a: calc 300\n b: calc 1000\n c: calc 10\n b requires a\n c irequires b\n}\n"
    ends = finish_times(sent(read(schedule(tmp_path, text))), lambda row: 0)
    assert sorted(ends.tolist())[-3:] == [300_000, 310_000, 1_300_000]


def test_messages_match_in_order_and_by_tag(tmp_path):
    text = (
        "num_ranks 2\nrank 0 {\n send 1b to 1 tag 2\n send 2b to 1 tag 1\n send 3b to 1 tag 2\n}\n"
        "rank 1 {\n x: recv 2b from 0 tag 1\n y: recv 1b from 0 tag 2\n z: recv 3b from -1 tag -1\n}\n"
    )
    flows = sent(read(schedule(tmp_path, text)))
    receives = [row for row in range(len(flows)) if not flows.travels[row]]
    assert [flows.size_bytes[flows.dep_idx[flows.dep_ptr[row]]] for row in receives] == [2, 1, 3]
    assert set(flows.dep_at) == {AT_RECEIVER}


def test_markers_of_schedgen_are_no_messages(tmp_path):
    text = "num_ranks 1\nrank 0 {\n a: calc 5\n b: send 0b to 9999999\n b requires a\n c: calc 2\n c requires b\n}"
    flows = sent(read(schedule(tmp_path, text)))
    assert not flows.travels.any()
    assert finish_times(flows, lambda row: 0).max() == 7000


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("rank 0 {}", "unexpected word", 1),
        ("num_ranks 0", "expected a number in range", 1),
        ("num_ranks \u00b2", "expected a number in range", 1),
        ("num_ranks 1\nrank 1 {\n}", "expected a number in range", 2),
        ("num_ranks 1\nrank 0 {\n}\nrank 0 {\n}", "given twice", 4),
        ("num_ranks 1\nrank 0 {\n calc 5", "ends within a rank", 3),
        ("num_ranks 1\nrank 0 {\n calc -1\n}", "expected a number", 3),
        ("num_ranks 1\nrank 0 {\n a: calc 1\n a: calc 2\n}", "given twice", 4),
        ("num_ranks 1\nrank 0 {\n a: calc 1\n a requires b\n}", "labelled `b`", 4),
        ("num_ranks 1\nrank 0 {\n a: clac 1\n}", "unexpected word", 3),
        ("num_ranks 1\nrank 0 {\n a needs b\n}", "unexpected word", 3),
        ("num_ranks 2\nrank 0 {\n send 8 to 1\n}", "unexpected word", 3),
        ("num_ranks 2\nrank 0 {\n send 8b from 1\n}", "unexpected word", 3),
        ("num_ranks 2\nrank 0 {\n send 8b to 2\n}", "not a rank", 3),
        ("num_ranks 2\nrank 0 {\n send 8b to 0\n}", "to itself", 3),
        ("num_ranks 2\nrank 0 {\n send 8b to -1\n}", "expected a number", 3),
        ("num_ranks 2\nrank 0 {\n send 8b to 1 tag 4\n}", "nobody receives", 3),
        ("num_ranks 2\nrank 0 {\n recv 8b from 1 tag 4\n}", "nobody sends", 3),
        ("num_ranks 1\nrank 0 {\n ? \n}", "unexpected word", 3),
        (b"num_ranks 1\n\xff", "not text", None),
    ],
)
def test_malformed_schedules_name_the_line(tmp_path, text, message, line):
    with pytest.raises(InputError, match=message) as caught:
        read(schedule(tmp_path, text))
    assert caught.value.problems[0].line == line
    assert caught.value.problems[0].file.endswith("s.goal")


def test_operations_that_wait_for_each_other_never_begin(tmp_path):
    text = "num_ranks 1\nrank 0 {\n a: calc 1\n b: calc 2\n a requires b\n b requires a\n c: calc 3\n}"
    trace = read(schedule(tmp_path, text))
    assert len(trace.graph) == 1
    assert trace.never == (3, 4)


def node(*fields):
    waits, kind, peer, size, tag, after, first = fields
    return struct.pack("<IBIQIBBIIII", waits, kind, peer, size, tag, 0, 0, after, first, 0, 0)


def binary(ranks):
    """What LogGOPSim's `serialize_mmap` writes: `ranks` holds (roots, nodes, numbers of followers)."""
    blocks = []
    for roots, nodes, tail in ranks:
        head = struct.pack(f"<II{len(roots)}I", len(nodes), len(roots), *roots)
        blocks.append(head + b"".join(nodes) + struct.pack(f"<{len(tail)}I", *tail))
    start = 6 + 16 * len(blocks)
    table = b""
    for block in blocks:
        table += struct.pack("<QQ", start, start + len(block))
        start += len(block)
    return struct.pack("<QIBB", 4223, len(blocks), 0, 0) + table + b"".join(blocks)


PING_BINARY = binary(
    [
        ([0, 2], [node(0, 3, 0, 1000, 0, 1, 0), node(1, 1, 1, 4096, 7, 0, 1), node(0, 2, 1, 8, 9, 0, 1)], [1]),
        ([0], [node(0, 2, 0, 4096, 7, 1, 0), node(1, 3, 0, 500, 0, 1, 1), node(1, 1, 0, 8, 9, 0, 2)], [1, 2]),
    ]
)


def test_the_binary_form_is_the_same_schedule(tmp_path):
    text, packed = (sent(read(schedule(tmp_path, form))) for form in (PING, PING_BINARY))
    for name in ("source", "target", "size_bytes", "start_ps", "need", "dep_ptr", "dep_idx", "dep_at", "delay_ps"):
        assert getattr(text, name).tolist() == getattr(packed, name).tolist()


@settings(deadline=None, max_examples=60)
@given(st.integers(8, len(PING_BINARY)), st.binary(max_size=4))
def test_a_damaged_binary_is_read_or_refused(tmp_path_factory, at, patch):
    damaged = PING_BINARY[:at] + patch + PING_BINARY[at + len(patch) :]
    for data in (damaged, PING_BINARY[:at] + patch):
        try:
            flows = read(schedule(tmp_path_factory.mktemp("goal"), data))
        except InputError:
            continue
        check(flows)


VOCABULARY = "num_ranks rank { } : send recv calc b to from tag cpu requires irequires l1 l2 0 1 2 -1 ? // /* */"
WORDS = st.sampled_from([*VOCABULARY.split(), "\n"])


@settings(deadline=None, max_examples=60)
@given(st.lists(WORDS, max_size=30).map(" ".join))
def test_any_words_are_a_schedule_or_an_input_error(tmp_path_factory, words):
    file = schedule(tmp_path_factory.mktemp("goal"), "num_ranks 2\nrank 0 { " + words)
    try:
        check(read(file))
    except InputError:
        return


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
