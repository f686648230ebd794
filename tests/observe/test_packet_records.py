"""Records of the packet engine, whose physics are not those of the replay: the part is named, or nobody."""

from dataclasses import replace

import numpy as np
import pytest

from railyard.ask.observe.diagnosis.simulated import diagnose, slowed_ps
from railyard.cluster.fault.degraded import DegradeLink
from railyard.cluster.names import node_name
from railyard.engine import Probes
from railyard.engine.flow import FLOW
from railyard.engine.packet.assembly import full_ps, samples_of, thinned
from railyard.engine.packet.engine import PACKET
from railyard.graph import Job
from railyard.work.scenario.load import from_values
from railyard.work.study.study import prepare


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
