import json
import struct
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.face.cli import guard
from railyard.graph import CollectiveKind, Kind
from railyard.kit.errors import InputError
from railyard.work.trace import chakra_protobuf
from railyard.work.trace.chakra import read
from railyard.work.traffic.hosts import laid_out

from .checks import check, check_traffic, finish_times, sent

COMPUTE, SEND, RECV, COLLECTIVE = 4, 5, 6, 7


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def whole(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def block(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def node(
    number: int, kind: int, *, us: int = 0, after: tuple[int, ...] = (), packed: bool = True, **attributes
) -> bytes:
    data = whole(1, number) + block(2, b"node %d" % number) + whole(3, kind) + whole(7, us)
    data += block(5, b"".join(map(varint, after))) if packed else b"".join(whole(5, other) for other in after)
    for name, value in attributes.items():
        text = isinstance(value, str)
        data += block(10, block(1, name.encode()) + (block(29, value.encode()) if text else whole(9, value)))
    return data


def trace(folder: Path, *ranks: list[bytes]) -> Path:
    for rank, nodes in enumerate(ranks):
        messages = [block(1, b"0.0.4"), *nodes]
        (folder / f"t.{rank}.et").write_bytes(b"".join(varint(len(message)) + message for message in messages))
    return folder


def test_compute_send_receive_compute(tmp_path):
    sender = [node(0, COMPUTE, us=5), node(1, SEND, after=(0,), comm_size=4000, comm_dst=1, comm_tag=3)]
    target = [node(7, RECV, comm_size=4000, comm_src=0, comm_tag=3), node(9, COMPUTE, us=2, after=(7,), packed=False)]
    flows = sent(read(trace(tmp_path, sender, target)))
    check_traffic(flows)
    assert flows.size_bytes[flows.travels].tolist() == [4000]
    assert finish_times(flows, lambda row: 1000 * int(flows.size_bytes[row])).max() == 5_000_000 + 4_000_000 + 2_000_000


def test_a_ring_all_reduce_takes_what_the_ring_takes(tmp_path):
    # Thakur et al. 2005: 2 (n - 1) steps of size / n.
    ranks = [
        [node(0, COMPUTE, us=rank), node(1, COLLECTIVE, after=(0,), comm_type=0, comm_size=4000)] for rank in range(4)
    ]
    found = read(trace(tmp_path, *ranks) / "t.2.et")
    check(found)
    assert (found.graph.kind == Kind.COLLECTIVE).sum() == 1
    flows = sent(found)
    travels = flows.travels
    assert travels.sum() == 4 * 6
    assert flows.size_bytes[travels].sum() == 4 * 6 * 1000
    assert finish_times(flows, lambda row: 1_000_000).max() == 3_000_000 + 6_000_000


def test_collectives_of_two_groups_run_beside_each_other(tmp_path):
    def rank(group):
        return [node(0, COLLECTIVE, comm_type=7, comm_size=800, pg_name=group)]

    flows = sent(read(trace(tmp_path, rank("a"), rank("b"), rank("a"), rank("b"))))
    pairs = {(int(s), int(t)) for s, t in zip(flows.source, flows.target, strict=True) if s != t}
    assert pairs == {(0, 2), (2, 0), (1, 3), (3, 1)}


SENT = {  # bytes that all members together send of 1000 bytes in the larger of a member's two buffers
    CollectiveKind.ALL_REDUCE: lambda n: 2 * (n - 1) * n * -(-1000 // n),
    CollectiveKind.REDUCE: lambda n: (n - 1) * 1000,
    CollectiveKind.ALL_GATHER: lambda n: (n - 1) * n * -(-1000 // n),
    CollectiveKind.BROADCAST: lambda n: (n - 1) * 1000,
    CollectiveKind.ALL_TO_ALL: lambda n: (n - 1) * n * -(-1000 // n),
    CollectiveKind.REDUCE_SCATTER: lambda n: (n - 1) * n * -(-1000 // n),
}
DEPTH = {  # flows one after another
    CollectiveKind.ALL_REDUCE: lambda n: 2 * (n - 1),
    CollectiveKind.REDUCE: lambda n: max(place.bit_count() for place in range(n)),
    CollectiveKind.BROADCAST: lambda n: max(place.bit_count() for place in range(n)),
    CollectiveKind.ALL_GATHER: lambda n: n - 1,
    CollectiveKind.REDUCE_SCATTER: lambda n: n - 1,
    CollectiveKind.ALL_TO_ALL: lambda n: 1,
}


@settings(deadline=None, max_examples=60)
@given(kind=st.sampled_from(CollectiveKind), members=st.integers(2, 9))
def test_every_collective_sends_its_bytes_in_its_steps(kind, members):
    layout = laid_out(kind, range(members), 1000, 0)
    assert sum(size for _, _, size in layout.flows) == SENT[kind](members)
    ends = []
    for waits in layout.waits:
        ends.append(1 + max((ends[row] for row, _ in waits), default=0))
    assert max(ends) == DEPTH[kind](members)


TYPES = [
    "ALL_REDUCE",
    "REDUCE",
    "ALL_GATHER",
    "GATHER",
    "SCATTER",
    "BROADCAST",
    "ALL_TO_ALL",
    "REDUCE_SCATTER",
    "REDUCE_SCATTER_BLOCK",
    "BARRIER",
]
MOVED = {  # bytes on the wire of three members that put in 1000 bytes each
    "ALL_REDUCE": 4 * 3 * 334, "REDUCE": 2000, "ALL_GATHER": 6000, "GATHER": 2000, "SCATTER": 668, "BROADCAST": 2000,
    "ALL_TO_ALL": 6 * 334, "REDUCE_SCATTER": 6 * 334,
    "REDUCE_SCATTER_BLOCK": 6 * 334, "BARRIER": 6,
}  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_every_type_moves_what_its_members_put_in(tmp_path, name):
    nodes = [node(0, COLLECTIVE, comm_type=TYPES.index(name), comm_size=1000, root_rank=1)]
    flows = sent(read(trace(tmp_path, nodes, nodes, nodes)))
    check_traffic(flows)
    assert flows.size_bytes.sum() == MOVED[name]
    if name in {"BROADCAST", "SCATTER"}:
        assert set(flows.source[flows.travels].tolist()) <= {1, 2, 0}
        assert 1 not in flows.target[flows.travels]
    if name in {"REDUCE", "GATHER"}:
        assert 1 not in flows.source[flows.travels]


def test_ranks_enter_and_leave_a_collective_by_themselves(tmp_path):
    """A broadcast from rank 0 to 1 and 2: rank 1 has it after one flow and goes on while rank 2 waits."""
    ranks = [
        [node(0, COMPUTE, us=2), node(1, COLLECTIVE, after=(0,), comm_type=5, comm_size=64), node(2, COMPUTE, us=10)]
        for _ in range(3)
    ]
    for rank, late in enumerate((1, 7, 40)):
        ranks[rank][0] = node(0, COMPUTE, us=late)
        ranks[rank][2] = node(2, COMPUTE, us=10, after=(1,))
    found = read(trace(tmp_path, *ranks))
    flows = sent(found)
    ends = finish_times(flows, lambda row: 3_000_000)
    last = [2, 5, 8]
    assert [int(ends[row]) for row in last] == [14_000_000, 17_000_000, 50_000_000]


GOOD = node(0, COMPUTE, us=1)


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        (([node(0, SEND, comm_size=1)], [GOOD]), "no attribute `comm_dst`"),
        (
            ([node(0, COLLECTIVE, comm_type=0, comm_size=8)], [node(0, COLLECTIVE, comm_type=2, comm_size=8)]),
            "disagree",
        ),
        (([node(0, COLLECTIVE, comm_type=77)], [GOOD]), "out of range"),
        (([GOOD, GOOD], [GOOD]), "the same number"),
        (([node(0, COMPUTE, us=1 << 60)], [GOOD]), "takes too long"),
        (([], [GOOD]), "no nodes"),
    ],
)
def test_traces_that_do_not_fit_are_refused(tmp_path, ranks, message):
    with pytest.raises(InputError, match=message):
        read(trace(tmp_path, *ranks))


def test_a_missing_rank_is_named(tmp_path):
    trace(tmp_path, [GOOD], [GOOD], [GOOD])
    (tmp_path / "t.1.et").unlink()
    with pytest.raises(InputError, match="no file of rank 1"):
        read(tmp_path)
    with pytest.raises(InputError, match="holds no trace"):
        read(tmp_path / "..")


def test_a_dependency_cycle_is_opened_where_it_points_forward(tmp_path):
    nodes = [node(0, COMPUTE, us=4, after=(1,)), node(1, COMPUTE, us=5, after=(0,)), node(2, COMPUTE, us=3)]
    found = read(trace(tmp_path, nodes))
    assert found.graph.dependencies(1).tolist() == [0]
    assert found.graph.dependencies(0).tolist() == []
    assert found.lacks == ("1 data dependencies lie on dependency cycles and point to later nodes: they are left out",)


@settings(deadline=None, max_examples=60)
@given(at=st.integers(0, 200), patch=st.binary(max_size=4))
def test_a_damaged_trace_is_read_or_refused(tmp_path_factory, at, patch):
    nodes = [node(0, COMPUTE, us=3), node(1, COLLECTIVE, after=(0,), comm_type=0, comm_size=64, pg_name="x")]
    folder = trace(tmp_path_factory.mktemp("et"), nodes, nodes)
    whole_file = (folder / "t.0.et").read_bytes()
    at %= len(whole_file)
    for data in (whole_file[:at] + patch + whole_file[at + len(patch) :], whole_file[:at] + patch):
        (folder / "t.0.et").write_bytes(data)
        try:
            check(read(folder))
        except InputError:
            continue


def test_numbers_of_every_type_are_read(tmp_path):
    one = block(1, b"comm_size")
    forms = [whole(9, 600), whole(13, 600), whole(17, 1200), varint(21 << 3 | 1) + struct.pack("<Q", 600)]
    forms += [varint(19 << 3 | 5) + struct.pack("<I", 600), varint(3 << 3 | 1) + struct.pack("<d", 600.0)]
    for form in forms:
        send = whole(1, 0) + whole(3, SEND) + block(10, one + form) + block(10, block(1, b"comm_dst") + whole(7, 1))
        found = read(trace(tmp_path, [send], [node(0, RECV, comm_src=0)]))
        assert found.graph.size_bytes.max() == 600


GAPS = [
    (([node(0, COMPUTE, us=5, after=(4, 9))], [GOOD]), "2 dependencies are on nodes that the trace does not hold"),
    (([node(0, 55, us=5)], [GOOD]), "1 nodes are of a type that is not known"),
    (([node(0, SEND, comm_size=1, comm_dst=1)], [GOOD]), "1 sends and receives have no peer"),
    (([node(0, SEND, comm_size=1, comm_dst=5)], [node(0, RECV, comm_src=3)]), "2 sends and receives have no peer"),
    (([node(0, COLLECTIVE, us=9)], [GOOD]), "1 communication nodes are calls on the host"),
    (([node(0, COMPUTE)], [GOOD]), "1 computations have no measured time"),
    (([node(0, COMPUTE, num_ops=7)], [GOOD]), "1 computations have operations"),
    (([node(0, 2, us=8)], [GOOD]), "1 loads and stores of memory"),
    (
        ([node(0, COLLECTIVE, comm_type=0)], [node(k, COLLECTIVE, comm_type=0, us=4) for k in (0, 1)]),
        "1 collectives are missing on other ranks",
    ),
    (
        ([node(0, COLLECTIVE, comm_type=0, comm_size=8)], [node(0, COLLECTIVE, comm_type=0, comm_size=9)]),
        "1 collectives have different sizes",
    ),
]


@pytest.mark.parametrize(("ranks", "sentence"), GAPS)
def test_what_a_trace_lacks_is_listed(tmp_path, ranks, sentence):
    found = read(trace(tmp_path, *ranks))
    check(found)
    assert any(text.startswith(sentence) for text in found.lacks), found.lacks


def test_operations_without_a_time_take_what_the_speed_says(tmp_path):
    found = read(trace(tmp_path, [node(0, COMPUTE, num_ops=700)]), flops=3.5e12)
    assert found.graph.duration_ps.tolist() == [200]
    assert found.lacks == ()


def test_one_file_stands_for_all_ranks(tmp_path):
    nodes = [node(0, COMPUTE, us=5), node(1, COLLECTIVE, after=(0,), comm_type=0, comm_size=900, pg_name="0")]
    found = read(trace(tmp_path, nodes), ranks=3)
    assert found.ranks == 3
    assert found.graph.communicators.members(0).tolist() == [0, 1, 2]
    assert found.graph.communicators.group == ["0"]
    assert sent(found).size_bytes.sum() == 3 * 4 * 300
    with pytest.raises(InputError, match="a file for each rank"):
        read(trace(tmp_path, nodes, nodes), ranks=3)


def jsonized(nodes: list[dict]) -> str:
    """What `chakra_jsonizer` writes: one object after another, 64-bit integers as text."""
    return "".join(json.dumps(entry, indent=2) for entry in [{"version": "0.0.4"}, *nodes])


JSONIZED = [
    {"id": "3", "name": "gemm", "type": "COMP_NODE", "durationMicros": "17"},
    {
        "id": "5",
        "name": "sum",
        "type": "COMM_COLL_NODE",
        "ctrlDeps": ["3"],
        "dataDeps": ["3"],
        "attr": [
            {"name": "comm_type", "int64Val": "0"},
            {"name": "comm_size", "int64Val": "600"},
            {"name": "pg_name", "stringVal": "7"},
            {"name": "is_cpu_op", "boolVal": False},
        ],
    },
]


def test_json_of_the_jsonizer_is_the_same_trace(tmp_path):
    (tmp_path / "j").mkdir()
    for rank in (0, 1):
        (tmp_path / "j" / f"t.{rank}.json").write_text(jsonized(JSONIZED))
    nodes = [
        node(3, COMPUTE, us=17),
        node(5, COLLECTIVE, after=(3,), comm_type=0, comm_size=600, pg_name="7", is_cpu_op=0),
    ]
    text, packed = read(tmp_path / "j"), read(trace(tmp_path, nodes, nodes))
    for name in ("kind", "rank", "size_bytes", "duration_ps", "dep_ptr", "dep_idx", "collective"):
        assert getattr(text.graph, name).tolist() == getattr(packed.graph, name).tolist()
    assert text.graph.communicators.group == ["7"]
    assert text.lacks == packed.lacks == ()


def test_a_workload_graph_says_how_many_ranks_there_are():
    """MLCommons' own file: seven nodes of eight GPUs, dependencies on nodes that were cut off."""
    found = read(Path(__file__).parent / "data" / "small_chakra.0.json")
    assert found.ranks == 8
    assert len(found.graph) == 8 * 7
    assert found.graph.duration_ps[:7].tolist() == [us * 10**6 for us in (318, 28, 4, 85, 79, 28, 153)]
    assert found.lacks[0].startswith("7 dependencies are on nodes that the trace does not hold")


def test_traces_in_archives_are_those_in_folders(tmp_path):
    nodes = [node(0, COMPUTE, us=5), node(1, COLLECTIVE, after=(0,), comm_type=0, comm_size=64)]
    folder = trace(tmp_path, nodes, nodes)
    with tarfile.open(tmp_path / "t.tar.gz", "w:gz") as tar:
        for rank in (1, 0):
            tar.add(folder / f"t.{rank}.et", arcname=f"deep/t.{rank}.et")
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as packed:
        for rank in (0, 1):
            packed.write(folder / f"t.{rank}.et", arcname=f"t.{rank}.et")
    found = [read(tmp_path / name) for name in ("t.0.et", "t.tar.gz", "t.zip")]
    assert [len(one.graph) for one in found] == [len(found[0].graph)] * 3
    assert {one.ranks for one in found} == {2}


@settings(deadline=None, max_examples=80)
@given(at=st.integers(0, 2000), patch=st.text('{}[]":,0123456789eE-.nulltrueabIdx ', max_size=4), cut=st.booleans())
def test_damaged_json_is_read_or_refused(tmp_path_factory, at, patch, cut):
    text = jsonized(JSONIZED)
    at %= len(text)
    file = tmp_path_factory.mktemp("json") / "t.json"
    file.write_text(text[:at] + patch + ("" if cut else text[at + len(patch) :]))
    try:
        check(read(file))
    except InputError:
        return


@settings(deadline=None, max_examples=60)
@given(at=st.integers(0, 10**6), flip=st.integers(1, 255), cut=st.booleans(), kind=st.sampled_from(["tar.gz", "zip"]))
def test_a_damaged_archive_is_read_or_refused(tmp_path_factory, at, flip, cut, kind):
    folder = trace(tmp_path_factory.mktemp("arc"), [GOOD], [GOOD])
    file = folder / f"t.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
            packed.write(folder / "t.0.et", arcname="t.0.et")
    else:
        with tarfile.open(file, "w:gz") as tar:
            tar.add(folder / "t.0.et", arcname="t.0.et")
    data = bytearray(file.read_bytes())
    at %= len(data)
    data[at] ^= flip
    file.write_bytes(data[:at] if cut else data)
    try:
        check(read(file))
    except InputError:
        return


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_any_graph_of_dependencies_becomes_one_that_ends(tmp_path_factory, data):
    """Random dependencies, forward and to nowhere: what is left has no cycle, and every node runs."""
    count = data.draw(st.integers(1, 9))
    ids = st.integers(0, count + 2)
    waits = [tuple(data.draw(st.lists(ids, max_size=3))) for _ in range(count)]
    nodes = [node(number, COMPUTE, us=number + 1, after=after) for number, after in enumerate(waits)]
    found = read(trace(tmp_path_factory.mktemp("et"), nodes))
    assert len(found.graph) == count
    assert found.graph.duration_ps.tolist() == [10**6 * (number + 1) for number in range(count)]


def test_without_protocol_buffers_the_extra_that_brings_them_is_named(monkeypatch, capsys):
    chakra_protobuf.schema.cache_clear()
    for name in ("google", "google.protobuf", "google.protobuf.message"):
        monkeypatch.setitem(sys.modules, name, None)
    assert (
        guard.run(["diagnose", str(Path(__file__).parents[3] / "examples" / "traces" / "mlcommons-pytorch.tar.gz")])
        == 2
    )
    assert "railyard[chakra]" in capsys.readouterr().err
