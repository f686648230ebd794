"""The lab on this machine: short runs. Times are asserted to be possible, never to be quick."""

import dataclasses
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.engine.lab import yard

from railyard import engine
from railyard.cluster.fault import DegradeLink, SlowAccelerator
from railyard.collective.machine import Shape
from railyard.engine import Jitter, Probes
from railyard.engine.lab import blueprint
from railyard.engine.lab.engine import LabEngine
from railyard.engine.lab.program import LibraryCall, parts
from railyard.engine.lab.switches import execute
from railyard.engine.lab.wiring import hashes, jenkins, laid_out, siphash, source_port, taken
from railyard.face.cli import guard
from railyard.graph import CollectiveKind, Job
from railyard.kit.errors import InputError
from railyard.work.trace.builder import GraphBuilder


def ran(graph, cluster, **more):
    return LabEngine().simulate([Job(graph)], cluster, policy=yard.ONE, **more)


def expected(graph, cluster, **more):
    return engine.get("flow").simulate([Job(graph)], cluster, policy=yard.ONE, **more)


@yard.needs_lab
def test_a_ring_takes_the_paths_that_were_drawn_and_no_less_time_than_its_bytes(tmp_path):
    cluster, graph = yard.cluster(tmp_path, 8, yard.CLOS, "400 Mb/s"), yard.collectives(8, "ALL_REDUCE", yard.MIB, 2)
    found, flow = ran(graph, cluster, probes=Probes(full=True)), expected(graph, cluster)
    sent, drawn = found.table("links")["bytes"], flow.table("links")["bytes"][: cluster.links.physical]
    np.testing.assert_allclose(sent[drawn > 1e5], drawn[drawn > 1e5], rtol=0.02)
    assert (sent[drawn == 0] < 1e5).all()
    # 2 x 7/8 MiB through each NIC, less the burst that its shaper lets go at once
    least_ps = (2 * 7 / 8 * yard.MIB * 8 / 400e6 - 0.003) * 1e12
    assert (found.duration_ps > least_ps).all()
    assert found.column("blocker").tolist() == [-1, 0]
    assert found.start_ps[1] >= found.end_ps[0]
    assert found.meta["engine"] == "lab"
    assert (found.table("links")["full_ps"] <= found.makespan_ps * 1.2).all()


@yard.needs_lab
def test_computations_transfers_and_waits_across_ranks(tmp_path):
    builder = GraphBuilder(3)
    first = builder.work(0, 20 * 10**9)
    sent = builder.transfer(0, 2, 1_000_000)
    elsewhere = builder.work(1, 5 * 10**9)
    last = builder.work(2, 10**9)
    builder.wait(sent, [(first, 1)])
    builder.wait(elsewhere, [(sent, 1)])
    builder.wait(last, [(elsewhere, 1), (sent, 1)])
    found = ran(
        builder.build().graph, yard.cluster(tmp_path, 3, yard.STAR), faults=[SlowAccelerator(rank=1, factor=0.5)]
    )
    took, start, end = found.duration_ps / 1e9, found.start_ps, found.end_ps
    assert took[first] >= 20
    assert took[elsewhere] >= 10
    assert took[sent] >= 40 - 5  # bits over the rate, less what shapers let go at once
    assert start[sent] >= end[first]
    assert start[elsewhere] >= end[sent]
    assert start[last] >= end[elsewhere]


@yard.needs_lab
def test_a_slower_link_makes_a_ring_slower_and_its_queue_is_seen(tmp_path):
    cluster, graph = yard.cluster(tmp_path, 4, yard.STAR, "400 Mb/s"), yard.collectives(4, "ALL_GATHER", yard.MIB)
    link = int(cluster.back_end.port_links(int(cluster.back_end.port_of_rank[0, 0]))[0][0])
    found = ran(graph, cluster, probes=Probes(full=True), faults=[DegradeLink(factor=0.2, link=link)])
    assert found.duration_ps[0] > (3 / 4 * yard.MIB * 8 / 80e6 - 0.005) * 1e12
    assert int(np.argmax(found.table("links")["full_ps"])) == link


@yard.needs_lab
def test_a_dilated_lab_gives_the_time_of_the_cluster(tmp_path):
    cluster = yard.cluster(tmp_path, 2, yard.STAR, "400 Gb/s")
    graph = yard.collectives(2, "ALL_REDUCE", yard.MIB)
    found = LabEngine(dilation=1000).simulate([Job(graph)], cluster, policy=yard.ONE)
    assert 15e6 < found.duration_ps[0] < 2.1e9  # 21 us at 400 Gb/s


@yard.needs_lab
def test_several_accelerators_of_a_server_share_a_namespace(tmp_path):
    cluster = yard.cluster(tmp_path, 16, yard.STAR, server="hgx-h100")
    found = ran(yard.collectives(16, "ALL_GATHER", 256 * 1024), cluster)
    nics = [int(cluster.back_end.port_links(int(port))[0][0]) for port in cluster.back_end.port_of_rank[:, 0]]
    flow = expected(yard.collectives(16, "ALL_GATHER", 256 * 1024), cluster)
    sent, drawn = found.table("links")["bytes"][nics].sum(), flow.table("links")["bytes"][nics].sum()
    assert sent == pytest.approx(drawn, rel=0.1)


@yard.needs_lab
def test_what_is_ended_leaves_nothing_behind(tmp_path):
    script = (
        "import sys; sys.path.insert(0, sys.argv[2]);"
        "from pathlib import Path; from tests.engine.lab import yard; from railyard.engine.lab.engine import LabEngine;"
        "from railyard.graph import Job;"
        "LabEngine().simulate([Job(yard.collectives(4, 'ALL_REDUCE', 64 << 20))],"
        " yard.cluster(Path(sys.argv[1]), 4, yard.STAR), policy=yard.ONE)"
    )
    root = str(Path(__file__).parents[3])
    process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path), root])
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    until = time.monotonic() + 60
    family: set[int] = set()
    while len(family) < 5 and time.monotonic() < until:
        family = descendants(children)
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    while any(alive(pid) for pid in family) and time.monotonic() < until:
        time.sleep(0.05)
    assert len(family) >= 5
    assert not any(alive(pid) for pid in family)


def descendants(children):
    try:
        pids = [int(word) for word in children.read_text().split()]
    except OSError:
        return set()
    deeper = [descendants(Path(f"/proc/{pid}/task/{pid}/children")) for pid in pids]
    return set(pids).union(*deeper)


def alive(pid):
    try:
        return "(zombie)" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


@yard.needs_lab
@pytest.mark.skipif(
    bool(blueprint.missing()) or not all(path.exists() for path in blueprint.FRR), reason="FRR is not here"
)
@pytest.mark.slow
def test_bgp_finds_the_same_paths(tmp_path):
    cluster, graph = yard.cluster(tmp_path, 8, yard.CLOS, "400 Mb/s"), yard.collectives(8, "ALL_REDUCE", yard.MIB)
    found = LabEngine(routing="frr").simulate([Job(graph)], cluster, policy=yard.ONE)
    sent = found.table("links")["bytes"]
    drawn = expected(graph, cluster).table("links")["bytes"][: cluster.links.physical]
    np.testing.assert_allclose(sent[drawn > 1e5], drawn[drawn > 1e5], rtol=0.03)
    assert (sent[drawn == 0] < 1e5).all()


def test_every_member_sends_what_the_ring_asks():
    call = LibraryCall("ring", CollectiveKind.ALL_REDUCE, Shape.grid(4, 1), 4e6, 3, 2, 1e5)
    members = parts(call)
    for member in members:
        assert sum(size for _, size, _ in member.script.sends) == 2 * 3 / 4 * 4e6
        assert sum(size for _, size in member.script.receives) == 2 * 3 / 4 * 4e6
        assert member.script.rounds == 3
        assert len(member.to) == len(member.of) == 2  # a connection for each of two lanes
    first = members[0].script.sends
    assert [after for _, _, after in first[:5]] == [()] * 5  # 0.5 MB in pieces of 0.1 MB wait for nothing
    assert first[5][2] == (0,)  # and those of the second step for their like


def test_every_port_is_shaped_and_every_address_is_reached_from_every_switch(tmp_path):
    cluster = yard.cluster(tmp_path, 8, yard.CLOS)
    lab = laid_out(cluster, cluster.links.line_bps)
    assert lab.wires.hosts == 8
    assert len(lab.wires.nodes) == 8 + 4 + 2
    assert len(lab.wires.ports) == 2 * (8 + 8)
    assert all(port.rate_bps == 200e6 for port in lab.wires.ports)
    assert all(lab.wires.ports[port.peer].peer == number for number, port in enumerate(lab.wires.ports))
    for node in lab.wires.nodes[8:]:
        assert len(node.routes) == 8
    leaf = lab.wires.nodes[8]
    assert sorted(len(interfaces) for _, interfaces in leaf.routes) == [1, 1, 2, 2, 2, 2, 2, 2]


@yard.needs_lab
@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"jitter": Jitter(sigma=0.1)}, "jitter of its own"),
        ({"faults": [DegradeLink(factor=0.5, link=0, at_ps=5)]}, "from the first moment to the last"),
        ({"faults": [SlowAccelerator(rank=0, factor=0.5, at_ps=5)]}, "for the whole run"),
    ],
)
def test_what_a_lab_cannot_do_is_refused(tmp_path, more, words):
    with pytest.raises(InputError, match=words):
        ran(yard.collectives(4, "ALL_REDUCE", yard.MIB), yard.cluster(tmp_path, 4, yard.STAR), **more)


@yard.needs_lab
def test_what_would_take_for_ever_is_refused(tmp_path):
    with pytest.raises(InputError, match="too long"):
        ran(yard.collectives(4, "ALL_REDUCE", 1 << 34), yard.cluster(tmp_path, 4, yard.STAR))


def test_a_machine_that_cannot_is_told_why(monkeypatch):
    monkeypatch.setattr(blueprint, "_capabilities", lambda: 0)
    monkeypatch.setattr(sys, "platform", "linux")
    with pytest.raises(InputError, match="CAP_NET_ADMIN") as caught:
        blueprint.need()
    assert caught.value.exit_code == 2
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(InputError, match="Linux"):
        blueprint.need()


def test_the_engine_is_registered():
    assert engine.get("lab").name == "lab"
    assert dataclasses.asdict(LabEngine()) == {"dilation": 1.0, "routing": "static"}


@yard.needs_lab
def test_a_program_runs_as_every_rank_with_the_variables_of_torchrun(tmp_path):
    script = (
        "import os, socket, sys;"
        "end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM);"
        "end.connect((os.environ['MASTER_ADDR'], 9));"
        "open(sys.argv[1] + os.environ['RANK'], 'w').write("
        "' '.join([end.getsockname()[0], os.environ['WORLD_SIZE'], os.environ['GLOO_SOCKET_IFNAME']]));"
        "sys.exit(os.environ['RANK'] == '2')"
    )
    words = [sys.executable, "-c", script, str(tmp_path / "said-")]
    done = execute(yard.cluster(tmp_path, 3, yard.STAR), words, lambda: None)
    said = [(tmp_path / f"said-{rank}").read_text() for rank in range(3)]
    assert said == ["10.0.0.1 3 eth0", "10.0.0.2 3 eth0", "10.0.0.3 3 eth0"]
    assert done.statuses == (0, 0, 1)


@yard.needs_lab
def test_the_command_line_says_what_links_did_and_fails_with_a_rank(tmp_path, capsys):
    yard.cluster(tmp_path, 2, yard.STAR)
    file = str(tmp_path / "cluster.yaml")
    assert guard.run(["lab", "exec", file, "--json", "--", "true"]) == 0
    assert json.loads(capsys.readouterr().out)["statuses"] == [0, 0]
    assert guard.run(["lab", "exec", file, "--", "false"]) == 1
    assert "rank 0 ended with status 1" in capsys.readouterr().err
    assert guard.run(["lab", "exec", file, "--routing", "rip", "--", "true"]) == 2


@yard.needs_lab
@pytest.mark.slow
def test_the_slow_link_of_a_run_is_found(tmp_path, capsys):
    """What docs/how-to/lab.md shows: a cable at 40 %, named from the record and the cluster's file alone."""
    scenario = str(Path(__file__).parents[3] / "examples" / "lab" / "slow-link.yaml")
    assert guard.run(["run", scenario, "-q", "--json", "--out", str(tmp_path)]) == 0
    capsys.readouterr()
    (run,) = (file.parent for file in tmp_path.rglob("timeline.parquet"))
    assert guard.run(["diagnose", str(run), "--cluster", scenario, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["part"] for one in found["verdict"]] == ["leaf 0 - spine 1"]


@yard.needs_lab
@pytest.mark.slow
def test_an_unmodified_torch_program_runs_and_its_traces_are_read(tmp_path, capsys):
    pytest.importorskip("torch", reason="PyTorch is not here")
    yard.cluster(tmp_path, 2, yard.STAR)
    script = str(Path(__file__).parents[3] / "examples" / "lab" / "train.py")
    words = [sys.executable, script, str(tmp_path / "traces")]
    assert guard.run(["lab", "exec", str(tmp_path / "cluster.yaml"), "--", *words]) == 0
    capsys.readouterr()
    assert guard.run(["observe", str(tmp_path / "traces"), "--json"]) == 0
    assert "all_reduce" in capsys.readouterr().out


# Linux's choice among equal next hops, as counters of ports showed it (Linux 6.18, seed 12345, two next
# hops).

SEEN = "0010110001000000010000"
"""The next hop of TCP from 10.0.0.1 to 10.0.0.2 port 5000, from source ports 20014, 20021, and so on."""


def test_hops_are_those_that_the_kernel_took():
    ports = 20014 + 7 * np.arange(len(SEEN))
    found = taken(hashes("10.0.0.1", "10.0.0.2", ports, 5000, 12345), 2)
    assert "".join(map(str, found.tolist())) == SEEN


def test_both_directions_are_hashed_alike():
    one = hashes("10.0.0.9", "10.0.0.2", np.array([31000]), 5003, 7)
    assert hashes("10.0.0.2", "10.0.0.9", np.array([5003]), 31000, 7).tolist() == one.tolist()


def test_siphash_is_that_of_its_authors():
    # INDOCRYPT 2012, appendix A, has key 00..0f and 15 bytes; ours has equal halves: the reference program gives this
    words = np.array([[0x0706050403020100, 0x0F0E0D0C0B0A0908]], np.uint64)
    assert int(siphash(words, 16, 0x0706050403020100)[0]) == _reference(bytes(range(16)), 0x0706050403020100)


def _reference(data, key):
    """SipHash-2-4 by its definition, in plain integers."""
    mask = (1 << 64) - 1

    def turned(value, bits):
        return ((value << bits) | (value >> (64 - bits))) & mask

    v = [key ^ one for one in (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)]

    def mixed():
        for a, b, c, d, first, second in ((0, 1, 2, 3, 13, 16), (2, 1, 0, 3, 17, 21)):
            v[a] = (v[a] + v[b]) & mask
            v[c] = (v[c] + v[d]) & mask
            v[b], v[d] = turned(v[b], first) ^ v[a], turned(v[d], second) ^ v[c]
            v[a] = turned(v[a], 32)

    words = [int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data), 8)] + [len(data) << 56]
    for word in words:
        v[3] ^= word
        mixed()
        mixed()
        v[0] ^= word
    v[2] ^= 0xFF
    for _ in range(4):
        mixed()
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def test_jenkins_spreads_over_31_bits():
    found = jenkins(np.arange(4096, dtype=np.uint64)) >> np.uint64(1)
    assert len(set(found.tolist())) > 4090
    assert 0.45 < float((found >> np.uint64(30)).mean()) < 0.55


def test_three_hops_have_a_third_each():
    third = (1 << 31) // 3
    assert taken(np.array([0, third, third + 1, 2 * third, 2 * third + 2, (1 << 31) - 1]), 3).tolist() == [
        0,
        0,
        1,
        1,
        2,
        2,
    ]


def test_a_source_port_takes_the_wanted_hop_at_every_switch():
    choices = [(11, 4, 2), (12, 4, 0), (13, 3, 1)]
    port = source_port("10.0.0.1", "10.0.0.7", 5006, choices, {10_000})
    for seed, width, wanted in choices:
        assert taken(hashes("10.0.0.1", "10.0.0.7", np.array([port]), 5006, seed), width).tolist() == [wanted]
    again = source_port("10.0.0.1", "10.0.0.7", 5006, choices, {port})
    assert again > port
