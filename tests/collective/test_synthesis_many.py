"""Clusters of more ranks than are searched one by one: by symmetry, and played where all sends can be laid down."""

from __future__ import annotations

import json

import numpy as np
import pytest

from railyard import catalog, cluster
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec
from railyard.collective.synthesis.msccl import MOST_MESSAGES, least_messages
from railyard.collective.synthesis.mscclpp import MOST_IN_PLAN
from railyard.collective.synthesis.of_cluster import network_of
from railyard.collective.synthesis.search import synthesize
from railyard.face.cli.guard import run
from railyard.graph import CollectiveKind

SERVERS = 33
RANKS = 8 * SERVERS


@pytest.fixture
def words(tmp_path):
    """Of a command over a cluster of so many ranks."""

    def of(ranks, *more):
        scenario = tmp_path / "s.yaml"
        scenario.write_text(
            f"cluster: {{accelerators: {ranks}, server: hgx-h100,"
            " back_end: {topology: rail-optimized, fabric: roce}}\n"
            "workload: {training: {model: llama-3-8b, tokens: 1 T, global_batch: 2048, sequence: 8192}}\n"
        )
        return ["synthesize", "--cluster", str(scenario), "--size", "64 MB", "--quiet", "--json", *more]

    return of


def machine(ranks):
    network = NetworkSpec(topology=cluster.topologies.get("rail-optimized")(), fabric=FabricSpec("roce"))
    return cluster.build(ClusterSpec(accelerators=ranks, server="hgx-h100", back_end=network), catalog.load())


def test_33_servers_are_searched_by_symmetry():
    """Each rank's tree is that of the first; a domain takes 32/33 of 64 MB over its eight NICs of 50 GB/s at best."""
    network = network_of(machine(RANKS), np.arange(RANKS), CollectiveKind.ALL_GATHER)
    found = synthesize(network, "all-gather", 64e6)
    assert found.images == RANKS
    assert found.lower_bound_us > 32 / 33 * 64e6 / (8 * 50e3)
    assert found.finish_us <= 1.1 * found.lower_bound_us
    assert found.faults() == []


def test_a_schedule_that_is_laid_down_is_no_finer_than_its_sends_allow():
    """Of 48 ranks each gets from 47 others by two links: 4,512 sends uncut, 9,024 in two pieces, in four too many."""
    network = network_of(machine(48), np.arange(48), CollectiveKind.ALL_GATHER)
    found = synthesize(network, "all-gather", 256e6, most_whole=9_100)
    assert (found.cut, found.sends, len(found.schedule.sends)) == (2, 9_024, 9_024)
    assert synthesize(network, "all-gather", 256e6, most_whole=19_000).cut == 4


def test_a_search_alone_needs_no_sends_laid_down(words, capsys):
    assert run(words(RANKS)) == 0
    found = json.loads(capsys.readouterr().out)
    assert "played" not in found
    assert found["lower_bound_us"] < found["finish_us"] < 1.2 * found["lower_bound_us"]


def test_messages_that_are_too_many_are_counted(words, tmp_path, capsys):
    """1,024 ranks: 1,024 x 1,023 of an all-gather can be laid down, twice as many of an all-reduce cannot."""
    assert least_messages("all-gather", 1024) == least_messages("all-to-all", 1024) == 1_047_552 <= MOST_MESSAGES
    out = tmp_path / "a.xml"
    for more in (["--engine", "flow"], ["--msccl", str(out)]):
        assert run(words(1024, "--collective", "all-reduce", *more)) == 2
        error = capsys.readouterr().err
        assert "2,095,104 messages of 1,024 ranks" in error
        assert f"up to {MOST_MESSAGES:,} messages" in error
    assert run(words(1024, "--mscclpp", str(out))) == 2
    assert f"up to {MOST_IN_PLAN:,} messages" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.slow
def test_33_servers_are_played(words, capsys):
    """Above the prediction by what it leaves out: launches, queue pairs that share a NIC; rings are slower."""
    assert run(words(RANKS, "--engine", "flow")) == 0
    found = json.loads(capsys.readouterr().out)
    took = {one["algorithm"]: one["took_us"] for one in found["played"]}
    assert found["lower_bound_us"] < found["finish_us"] < took["synthesized"] < 1.4 * found["finish_us"]
    assert took["synthesized"] < took["library"]
