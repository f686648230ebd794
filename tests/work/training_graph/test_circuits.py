"""Exchanges of experts over circuits between servers: what skew, own favourites and dead time make of them."""

import numpy as np
import pytest

from railyard.catalog import load
from railyard.cluster.build import build as cluster_of
from railyard.cluster.fabric.fabric import FabricSpec
from railyard.cluster.spec import ClusterSpec, NetworkSpec
from railyard.cluster.topology import LeafSpine
from railyard.cluster.topology.optical import Optical
from railyard.kit.errors import InputError
from railyard.work.training import profiles
from railyard.work.training.graphs import Graphs, lattice_of
from railyard.work.training.parallel.circuits import circuit_notes
from railyard.work.training.spec import Layout, Training

CATALOG = load()
SECOND = 10**12


def on(topology):
    spec = NetworkSpec(topology=topology, fabric=FabricSpec("uec"))
    return cluster_of(ClusterSpec(accelerators=64, server="hgx-h100", back_end=spec), CATALOG)


def demand(dead_ps, **given):
    """Circuits that follow demand, dark for so long: the switch of 3 ms is asked for the rest."""
    return on(Optical(nics=6, region=8, circuits="demand", switch="palomar", relink_ps=dead_ps - 3 * 10**9, **given))


def job(ep=8, **given):
    """A step of experts over eight servers."""
    layout = Layout(tp=8, dp=8, ep=ep, expert_tp=8, micro_batch=8, global_batch=64, recompute="full")
    return Training(
        model=CATALOG.model("mixtral-8x22b"),
        layout=layout,
        seq_len=4096,
        software=profiles.default(CATALOG.accelerator("h100-sxm")),
        **given,
    )


def exchanged(cluster, **given):
    """Bytes of each exchange of experts in a step, by pass."""
    graph = Graphs().of(job(**given), cluster)
    found = {}
    for number, label in enumerate(graph.labels):
        if label.group == "ep":
            (found[label.phase],) = np.unique(graph.size_bytes[graph.label == number])
    return found


OWN = {"routing_skew": 1.15, "routing_own": 1.0}


@pytest.mark.parametrize("topology", [Optical(nics=6, region=8), Optical(nics=6, region=8, circuits="demand")])
def test_an_even_router_exchanges_what_it_does_on_leafs(topology):
    assert exchanged(on(topology)) == exchanged(on(LeafSpine()))


def test_experts_that_all_ranks_favour_gain_nothing():
    """Their server takes as much over circuits as it has: neither other circuits nor leafs help."""
    leafs, mesh = (exchanged(on(topology), routing_skew=1.15) for topology in (LeafSpine(), Optical(nics=6, region=8)))
    assert leafs == mesh
    followed = exchanged(demand(3 * 10**9), routing_skew=1.15)
    assert {name: size / mesh[name] for name, size in followed.items()} == pytest.approx(
        dict.fromkeys(mesh, 1), rel=0.02
    )


def test_own_favourites_are_worst_for_circuits_that_stay_and_better_where_these_follow():
    leafs, mesh = (exchanged(on(topology), **OWN) for topology in (LeafSpine(), Optical(nics=6, region=8)))
    followed = exchanged(demand(3 * 10**9), **OWN)
    for name, size in followed.items():
        assert leafs[name] < size < mesh[name]
    assert followed["backward"] < followed["forward"]  # the gate decides just before; backward everything is known


def test_longer_dead_times_gain_less_and_in_the_end_circuits_stay():
    mesh = exchanged(on(Optical(nics=6, region=8)), **OWN)
    total = [sum(exchanged(demand(dead), **OWN).values()) for dead in (3 * 10**9, 6 * 10**9, 12 * 10**9, 6 * SECOND)]
    assert total == sorted(total)
    assert total[0] < total[-1] == sum(mesh.values())


@pytest.mark.parametrize(
    ("cluster", "given", "says"),
    [
        (on(Optical(nics=6, region=8)), OWN, ""),
        (demand(3 * 10**9), OWN, "circuits change before"),
        (demand(6 * SECOND), OWN, "circuits stay as they are: no exchange of experts gains the 6 s of a change"),
        (demand(3 * 10**9), {}, "circuits stay as they are: no exchange of experts gains the 3 ms of a change"),
        (demand(3 * 10**9), {"ep": 1}, "circuits stay as they are: they follow what groups of experts send"),
    ],
)
def test_whether_circuits_change_is_said(cluster, given, says):
    """With today's 5.67 s of `relink` a step was that of circuits that stay, without a word."""
    made = job(**given)
    said = list(circuit_notes(made, cluster, lattice_of(made, cluster)))
    assert len(said) == bool(says)
    assert "".join(said).startswith(says)


def test_a_region_is_a_group_of_experts():
    cluster = on(Optical(nics=2, region=4, circuits="demand"))
    with pytest.raises(InputError, match="servers of a group of experts"):
        exchanged(cluster)
