import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.errors import InputError
from railyard.workload.replay.chakra import read
from railyard.workload.replay.collective_flows import LAYOUTS, Collective
from railyard.workload.replay.flows import FlowBuilder

from .checks import check, finish_times

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
    flows = read(trace(tmp_path, sender, target))
    check(flows)
    assert flows.size_bytes[flows.travels].tolist() == [4000]
    assert finish_times(flows, lambda row: 1000 * int(flows.size_bytes[row])).max() == 5_000_000 + 4_000_000 + 2_000_000


def test_a_ring_all_reduce_takes_what_the_ring_takes(tmp_path):
    # Thakur et al. 2005: 2 (n - 1) steps of size / n.
    ranks = [
        [node(0, COMPUTE, us=rank), node(1, COLLECTIVE, after=(0,), comm_type=0, comm_size=4000)] for rank in range(4)
    ]
    flows = read(trace(tmp_path, *ranks) / "t.2.et")
    check(flows)
    sent = flows.travels
    assert sent.sum() == 4 * 6
    assert flows.size_bytes[sent].sum() == 4 * 6 * 1000
    assert finish_times(flows, lambda row: 1_000_000).max() == 3_000_000 + 6_000_000


def test_collectives_of_two_groups_run_beside_each_other(tmp_path):
    def rank(group):
        return [node(0, COLLECTIVE, comm_type=7, comm_size=800, pg_name=group)]

    flows = read(trace(tmp_path, rank("a"), rank("b"), rank("a"), rank("b")))
    pairs = {(int(s), int(t)) for s, t in zip(flows.source, flows.target, strict=True) if s != t}
    assert pairs == {(0, 2), (2, 0), (1, 3), (3, 1)}


SENT = {  # bytes that all members together send of 1000 bytes each, n members
    "ALL_REDUCE": lambda n: 2 * (n - 1) * n * -(-1000 // n),
    "REDUCE": lambda n: (n - 1) * 1000,
    "ALL_GATHER": lambda n: (n - 1) * n * 1000,
    "GATHER": lambda n: (n - 1) * 1000,
    "SCATTER": lambda n: (n - 1) * -(-1000 // n),
    "BROADCAST": lambda n: (n - 1) * 1000,
    "ALL_TO_ALL": lambda n: (n - 1) * n * -(-1000 // n),
    "REDUCE_SCATTER": lambda n: (n - 1) * n * -(-1000 // n),
    "REDUCE_SCATTER_BLOCK": lambda n: (n - 1) * n * -(-1000 // n),
    "BARRIER": lambda n: (n - 1) * n,
}
DEPTH = {  # flows one after another
    "ALL_REDUCE": lambda n: 2 * (n - 1),
    "REDUCE": lambda n: max(place.bit_count() for place in range(n)),
    "BROADCAST": lambda n: max(place.bit_count() for place in range(n)),
    "ALL_GATHER": lambda n: n - 1,
    "REDUCE_SCATTER": lambda n: n - 1,
    "REDUCE_SCATTER_BLOCK": lambda n: n - 1,
}


@settings(deadline=None, max_examples=60)
@given(name=st.sampled_from(sorted(LAYOUTS)), members=st.integers(2, 9), data=st.data())
def test_every_collective_sends_its_bytes_in_its_steps(name, members, data):
    builder = FlowBuilder(members)
    entry = [builder.work(host, 0, start_ps=0) for host in range(members)]
    layout = Collective(builder, range(members), 1000, entry, root=data.draw(st.integers(0, members - 1)))
    LAYOUTS[name](layout)
    flows = builder.build()
    check(flows)
    assert flows.size_bytes.sum() == SENT[name](members)
    assert finish_times(flows, lambda row: 1).max() == DEPTH.get(name, lambda n: 1)(members)


GOOD = node(0, COMPUTE, us=1)


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        (([node(0, SEND, comm_size=1, comm_dst=1)], [GOOD]), "do not match"),
        (([node(0, SEND, comm_size=1, comm_dst=5)], [GOOD]), "out of range"),
        (([node(0, SEND, comm_size=1)], [GOOD]), "no attribute `comm_dst`"),
        (
            ([node(0, COLLECTIVE, comm_type=0, comm_size=8)], [node(0, COLLECTIVE, comm_type=2, comm_size=8)]),
            "disagree",
        ),
        (
            ([node(0, COLLECTIVE, comm_type=0)] * 1, [node(k, COLLECTIVE, comm_type=0) for k in (0, 1)]),
            "different numbers",
        ),
        (([node(0, COLLECTIVE, comm_type=77)], [GOOD]), "out of range"),
        (([GOOD, GOOD], [GOOD]), "the same number"),
        (([node(0, COMPUTE, after=(4,))], [GOOD]), "not there"),
        (([node(0, 55)], [GOOD]), "no known type"),
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


def test_nodes_that_wait_for_each_other_never_run(tmp_path):
    flows = read(trace(tmp_path, [node(0, COMPUTE, after=(1,)), node(1, COMPUTE, after=(0,)), node(2, COMPUTE, us=3)]))
    assert len(flows) == 1
    assert len(flows.never) == 2


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
        flows = read(trace(tmp_path, [send], [node(0, RECV, comm_src=0)]))
        assert flows.size_bytes.max() == 600
