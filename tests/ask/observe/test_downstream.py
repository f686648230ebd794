"""Ports that wait are followed to who lets them wait; what erring and waiting ports cost where the cluster is known."""

import json
from dataclasses import replace

import numpy as np
import pytest

from railyard.ask.observe.answer import cluster_of, price_of_parts, traced_usd_per_hour
from railyard.ask.observe.diagnosis.simulated import diagnose, slowed_ps
from railyard.ask.observe.expected import Constants, Drift, TimedClass, expected_s
from railyard.ask.observe.readers.nccl import _noted_s
from railyard.cluster.fault.kinds import DegradeLink
from railyard.cluster.names import node_name
from railyard.engine import Probes
from railyard.engine.flow import FLOW
from railyard.engine.packet.assembly import full_ps, samples_of, thinned
from railyard.engine.packet.engine import PACKET
from railyard.face.cli import guard
from railyard.graph import Job
from railyard.work.scenario.load import from_values
from railyard.work.study.study import prepare

FABRIC = """
Switch  40 "S-000000000000000a"  # "leaf1" enhanced port 0 lid 11 lmc 0
[1]  "H-0000000000000101"[1](101)  # "n1 mlx5_0" lid 1 4xNDR
[2]  "H-0000000000000102"[1](102)  # "n2 mlx5_0" lid 2 4xNDR
[9]  "S-000000000000000c"[1]  # "spine1" lid 13 4xNDR

Switch  40 "S-000000000000000b"  # "leaf2" enhanced port 0 lid 12 lmc 0
[1]  "H-0000000000000103"[1](103)  # "n3 mlx5_0" lid 3 4xNDR
[2]  "H-0000000000000104"[1](104)  # "n4 mlx5_0" lid 4 4xNDR
[9]  "S-000000000000000c"[2]  # "spine1" lid 13 4xNDR

Switch  40 "S-000000000000000c"  # "spine1" enhanced port 0 lid 13 lmc 0
[1]  "S-000000000000000a"[9]  # "leaf1" lid 11 4xNDR
[2]  "S-000000000000000b"[9]  # "leaf2" lid 12 4xNDR

Ca  1 "H-0000000000000101"  # "n1 mlx5_0"
[1](101)  "S-000000000000000a"[1]  # lid 1 lmc 0 "leaf1" lid 11 4xNDR
Ca  1 "H-0000000000000102"  # "n2 mlx5_0"
[1](102)  "S-000000000000000a"[2]  # lid 2 lmc 0 "leaf1" lid 11 4xNDR
Ca  1 "H-0000000000000103"  # "n3 mlx5_0"
[1](103)  "S-000000000000000b"[1]  # lid 3 lmc 0 "leaf2" lid 12 4xNDR
Ca  1 "H-0000000000000104"  # "n4 mlx5_0"
[1](104)  "S-000000000000000b"[2]  # lid 4 lmc 0 "leaf2" lid 12 4xNDR
"""
CLUSTER = """
cluster:
  accelerators: 16
  server: hgx-h100
  back_end: {topology: {kind: leaf-spine, ports_per_leaf: 16, spines: 4}, fabric: infiniband}
"""


def perfquery(ports):
    return "".join(
        f"# Port counters: Lid {lid} port {port} (CapMask: 0x1300)\nPortXmitWait:....................{waited}\n"
        f"SymbolErrorCounter:....................{errors}\n"
        for lid, port, waited, errors in ports
    )


@pytest.fixture
def diagnosed(tmp_path, capsys):
    def call(ports, *, fabric=True, cluster=False):
        folder = tmp_path / "counters"
        folder.mkdir()
        (folder / "perfquery.txt").write_text(perfquery(ports), encoding="utf-8")
        if fabric:
            (folder / "ibnetdiscover.txt").write_text(FABRIC, encoding="utf-8")
        (tmp_path / "cluster.yaml").write_text(CLUSTER, encoding="utf-8")
        more = ["--cluster", str(tmp_path / "cluster.yaml")] if cluster else []
        assert guard.run(["diagnose", str(folder), "--json", *more]) == 0
        shown = capsys.readouterr()
        return json.loads(shown.out), shown.err

    return call


def test_waiting_is_followed_to_the_host_that_takes_slowly(diagnosed):
    """n1 waits for leaf1, whose uplink waits for spine1, whose port waits for leaf2, whose port waits for n3."""
    ports = [(1, 1, 5000, 0), (11, 9, 8000, 0), (13, 2, 9000, 0), (12, 1, 10000, 0), (12, 2, 40, 0), (2, 1, 0, 0)]
    answer, _ = diagnosed(ports)
    (suspect,) = answer["verdict"]
    assert (suspect["part"], suspect["kind"], suspect["confidence"]) == ("n3 mlx5_0", "nic", 0.6)
    assert "100% of all waiting" in suspect["evidence"]
    assert not answer["unknown"]


def test_waiting_that_ends_in_a_switch_names_nobody(diagnosed):
    """Two hosts wait for leaf1, none of whose ports waits."""
    answer, words = diagnosed([(1, 1, 5000, 0), (2, 1, 6000, 0), (11, 9, 10, 0)])
    assert answer["verdict"] == []
    assert answer["unknown"]
    assert "leads to leaf1" in words


def test_waiting_without_cables_names_nobody_and_asks_for_them(diagnosed):
    answer, words = diagnosed([(1, 1, 5000, 0), (12, 1, 6000, 0)], fabric=False)
    assert answer["verdict"] == []
    assert answer["unknown"]
    assert "ibnetdiscover" in words


def test_a_port_that_errs_is_named_with_its_cable_and_price(diagnosed, tmp_path):
    ports = [(12, 1, 0, 40000), *[(lid, 1, 0, 1) for lid in (1, 2, 3, 4)]]
    answer, _ = diagnosed(ports, cluster=True)
    (suspect,) = answer["verdict"]
    assert suspect["part"] == "lid 12 port 1"
    assert "from leaf2 port 1 to n3 mlx5_0" in suspect["evidence"]
    assert suspect["usd_per_hour"] is None


def test_the_price_of_what_stands_behind_a_part(tmp_path):
    """Sixteen accelerators in two servers: a host is half of the cluster, an accelerator a sixteenth, a cable none."""
    file = tmp_path / "cluster.yaml"
    file.write_text(CLUSTER, encoding="utf-8")
    cluster = cluster_of(file)
    price = price_of_parts(cluster)
    total = traced_usd_per_hour(cluster, 1.0, 0.5)
    assert price.of("nic") == pytest.approx(total / 2)
    assert price.of("accelerator") == pytest.approx(total / 16)
    assert price.of("cable") is None
    assert 30 < total < 150
    assert traced_usd_per_hour(cluster, 1.0, 1.0) > total > traced_usd_per_hour(cluster, 1.0, 0.0)


# Constants that follow a cluster: by hand for one collective, and on drifting streams whose truth is known.


def stream(rng, hours, truth, *, noise=0.03, a_minute=4, names=("AllReduce 8",)):
    """Collectives of many sizes; `truth(name, hour)` is extra and factor."""
    for number in range(round(hours * 60 * a_minute)):
        at = 1e9 // 3600 * 3600 + number * 60 / a_minute
        for name in names:
            expected = float(np.exp(rng.uniform(np.log(50e-6), np.log(50e-3))))
            extra, factor = truth(name, number / a_minute / 60)
            yield TimedClass(at, name, expected, (extra + factor * expected) * float(np.exp(rng.normal(0, noise))))


def test_one_collective_by_hand():
    """Expected 1 ms, took 1.1: variance 30 us^2 + 150 us^2 of the model, 50 us^2 of one time; gains by share."""
    found = Constants()
    found.learn(TimedClass(0.0, "x", 1e-3, 1.1e-3))
    unsure = 30e-6**2 + 150e-6**2 + 50e-6**2
    assert found.estimate[0] == pytest.approx(30e-6**2 / unsure * 100e-6)
    assert found.estimate[1] == pytest.approx(1 + 0.15**2 * 1e-3 / unsure * 100e-6)
    assert found.noise == pytest.approx((0.98 * 0.05**2 + 0.02 * 0.1**2) ** 0.5)
    assert found.count == 1


def test_a_model_that_is_right_is_left_alone():
    found = Drift()
    found.take(stream(np.random.default_rng(1), 3, lambda name, hour: (0.0, 1.0)))
    assert len(found.changes) <= 3
    assert all(abs(hour.plain()["mape"] - hour.plain()["mape_model"]) < 0.001 for hour in found.hours)
    assert [hour.count for hour in found.hours] == [240, 240, 240]


def test_a_slow_drift_is_followed():
    """5 % an hour for eight hours: the model is 40 % wrong at its end, the applied constants by about the noise."""
    found = Drift()
    found.take(stream(np.random.default_rng(2), 8, lambda name, hour: (20e-6, 1.0 + 0.05 * hour)))
    last = found.hours[-1].plain()
    assert last["mape_model"] > 0.25
    assert all(hour.plain()["mape"] < 0.044 for hour in found.hours[1:])
    assert 2 <= len(found.changes) <= 120


def test_a_sudden_change_is_an_event_and_an_outlier_is_none():
    found = Drift()
    calm = list(stream(np.random.default_rng(3), 2, lambda name, hour: (0.0, 1.0)))
    odd = [
        TimedClass(one.at_s, one.name, one.expected_s, 40 * one.seconds) if at in (100, 300) else one
        for at, one in enumerate(calm)
    ]
    found.take(odd)
    assert max((abs(change.after / change.before - 1) for change in found.changes), default=0) < 0.1
    later = [TimedClass(one.at_s + 7200, one.name, one.expected_s, 1.3 * one.seconds) for one in calm]
    found.take(later)
    assert found.classes["AllReduce 8"].factor == pytest.approx(1.3, abs=0.03)
    assert found.hours[-1].plain()["mape"] < 0.044


def test_classes_do_not_mix():
    truth = {"a": (0.0, 1.0), "b": (50e-6, 1.2)}
    found = Drift()
    found.take(stream(np.random.default_rng(4), 2, lambda name, hour: truth[name], names=("a", "b")))
    assert found.classes["a"].factor == pytest.approx(1, abs=0.01)
    assert found.classes["b"].factor == pytest.approx(1.2, abs=0.03)
    assert found.classes["b"].extra_s == pytest.approx(50e-6, abs=5e-6)


def test_hours_of_an_inspector_log(tmp_path, capsys):
    """Three hours of all-reduces that take 1.25 times as long as the model expects: learned in the first."""
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(CLUSTER, encoding="utf-8")
    should = expected_s(cluster_of(cluster), "all_reduce", 1 << 26, 16, 2)
    lines = []
    for minute in range(180):
        perf = {"coll": "AllReduce", "coll_msg_size_bytes": 1 << 26, "coll_exec_time_us": 1.25e6 * should}
        header = {"id": "0x1", "rank": 0, "n_ranks": 16, "nnodes": 2}
        noted = {"dump_timestamp_us": 1_700_002_800_000_000 + minute * 60_000_000}
        lines.append(json.dumps({"header": header, "metadata": noted, "coll_perf": perf}))
    (tmp_path / "log.jsonl").write_text("\n".join(lines), encoding="utf-8")
    assert guard.run(["observe", str(tmp_path / "log.jsonl"), "--cluster", str(cluster), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [hour["collectives"] for hour in found["hours"]] == [60, 60, 60]
    assert found["hours"][2]["mape_model"] == pytest.approx(0.2)
    assert found["hours"][2]["mape"] < 0.01
    assert found["constants"][0]["class"] == "all_reduce 16 over 2"
    assert guard.run(["observe", str(tmp_path / "log.jsonl"), "--cluster", str(cluster), "--details"]) == 0
    assert "2023-11-14 23:00" in capsys.readouterr().out


@pytest.mark.parametrize(
    "noted", [None, {}, {"dump_timestamp_us": "soon"}, {"dump_timestamp_us": -1}, {"dump_timestamp_us": True}]
)
def test_times_that_are_none_are_no_times(noted):
    assert np.isnan(_noted_s(noted))


# Records of the packet engine, whose physics are not those of the replay: the part is named, or nobody.


def prepared(fabric):
    values = {
        "name": "small",
        "cluster": {
            "accelerators": 16,
            "server": "hgx-h100",
            "back_end": {"topology": {"kind": "rail-optimized", "servers_per_leaf": 2}, "fabric": fabric},
        },
        "workload": {
            "training": {
                "model": "llama-3.2-1b",
                "tokens": "1 T",
                "global_batch": 64,
                "sequence": 1024,
                "parallelism": {"tp": 1, "pp": 1, "micro_batch": 1},
            }
        },
        "seed": 7,
    }
    job = prepare(from_values(values))[0]
    return job.graphs.of(job.training, job.cluster), job.cluster


@pytest.fixture(scope="module")
def roce():
    return prepared("roce")


def recorded(case, faults=()):
    """A record of packets as a cluster would have it: without what nobody measures."""
    engine = replace(PACKET, budget_hops=2e6)
    found = engine.simulate([Job(case[0])], case[1], seed=7, faults=faults, probes=Probes(full=True))
    return replace(found, parts={}, meta={"engine": "packet"})


def test_nobody_is_named_where_nothing_is_wrong(roce):
    answer = diagnose(recorded(roce), roce[1])
    assert answer.verdict == []
    assert not answer.unknown


def test_a_slow_nic_is_named(roce):
    links, nodes = roce[1].links, range(roce[1].back_end.node_offset, roce[1].back_end.node_offset + 16)
    nic = next(node for node in nodes if node_name(roce[1], node) == "back-end server 1 NIC 3")
    ends = np.stack([links.source[: links.physical], links.target[: links.physical]])
    mine = np.flatnonzero((ends == nic).any(axis=0)).tolist()
    assert len(mine) == 2
    record = recorded(roce, [DegradeLink(factor=0.4, link=link) for link in mine])
    assert not record.has("slowed_ps")
    (suspect,) = diagnose(record, roce[1]).verdict
    assert (suspect.part, suspect.kind) == ("server 1 nic 3", "nic")
    full = record.tables["links"]["full_ps"][: links.physical]
    assert int(full.argmax()) in mine


def test_what_communications_took_is_read_off_their_times(roce):
    """As the flow engine counts it, to the picosecond that it rounds."""
    record = FLOW.simulate([Job(roce[0])], roce[1])
    assert record.column("slowed_ps").sum() > 0
    assert np.abs(slowed_ps(record) - record.column("slowed_ps")).max() <= 1


class Series:
    """Three sampled links of five; five full packets of 1,000 bytes make a queue."""

    def __init__(self):
        self.link = np.array([4, 0, 2])
        self.values = {
            "time_ps": np.array([10, 20, 40], np.int64),
            "depth_bytes": np.array([[5001, 9000, 0], [5000, 9000, 0], [6000, 9000, 5001]], np.int64),
            "paused_ps": np.array([[0, 0, 0], [0, 10, 0], [0, 20, 5]], np.int64),
        }

    def table(self, name):
        assert name == "queue_series"
        return self.values


def test_a_port_is_full_while_a_queue_stands_and_nobody_holds_it_back():
    """Link 4: 10 and 20 ps of 40; link 0 is paused for 10 of 10 and 10 of 20; link 2 for 5 of the last 20."""
    counted = full_ps(Series(), Series(), np.array([0, 1, 2]), 5, 1000)
    assert counted.tolist() == [10 + 0 + 10, 0, 15, 0, 30]


def test_long_lists_of_links_are_sampled_less_often():
    assert [samples_of(links) for links in (10, 2000, 4000, 3_000_000)] == [1000, 1000, 500, 1]


def test_a_record_keeps_the_samples_that_were_asked_for(roce):
    flows = PACKET.simulate([Job(roce[0])], roce[1], seed=7).parts["flows"]
    plain = flows.table("queue_series")["time_ps"]
    assert len(plain) <= 125
    kept = thinned(flows, np.arange(flows.table("queue_series")["marks"].shape[1]), np.array([1, 3]), 60)
    assert kept.table("queue_series")["marks"].shape == (len(plain[:: len(plain) // 60]), 2)
    assert "queue_series" not in thinned(flows, np.arange(4), np.empty(0, np.int64), 60).tables


def test_a_port_that_is_blamed_is_not_excused(diagnosed):
    """The port with errors waits too: only the other one waits through no fault of its own."""
    _, words = diagnosed([(12, 1, 9000, 5000), (1, 1, 5000, 0), (2, 1, 0, 0)], fabric=False)
    (line,) = [line for line in words.splitlines() if "not their fault" in line]
    assert line.endswith("lid 1 port 1 (5,000)")
