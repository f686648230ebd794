"""Drawings of networks: boxes in the order of names, edges between them, and where a part lies."""

from __future__ import annotations

import numpy as np
import pytest

from railyard import catalog, cluster
from railyard.cluster.fault.cluster_places import ClusterPlaces
from railyard.measure.picture import drawing_of, tiered


@pytest.fixture(scope="module")
def machine():
    from railyard.cluster.topology.leaf_spine import LeafSpine

    network = cluster.NetworkSpec(topology=LeafSpine(ports_per_leaf=8, spines=4))
    return cluster.build(cluster.ClusterSpec(accelerators=32, server="hgx-h100", back_end=network), catalog.load())


def test_neighbours_are_those_of_their_numbers():
    names = [f"leaf{number}" for number in (10, 2, 9)] + ["spine0"]
    ends = np.array([[0, 1, 2, 2], [3, 3, 3, 3]])
    drawing = tiered(names, np.array([0, 0, 0, 1]), ["leaf", "spine"], ends)
    picture = drawing.picture(np.array([0.1, 0.2, 0.3, 0.9]))
    assert [box.label for box in picture.tiers[0].nodes] == ["leaf2", "leaf9", "leaf10"]
    assert [(edge.from_, edge.links, edge.max) for edge in picture.edges] == [
        ((0, 0), 1, 0.2),
        ((0, 1), 2, 0.9),
        ((0, 2), 1, 0.1),
    ]
    assert picture.edges[1].mean == pytest.approx(0.6)
    assert drawing.busiest(np.array([[1, 2, 3, 9], [4, 0, 8, 7]], np.uint8)).tolist() == [[2, 9, 1], [0, 8, 4]]


def test_nodes_that_no_row_has_are_not_drawn():
    drawing = tiered(["a", "b", "c"], np.array([0, 1, -1]), ["x", "y"], np.array([[0, 2], [1, 1]]))
    picture = drawing.picture(np.zeros(2))
    assert len(picture.edges) == 1
    place = drawing.place(np.array([0, 1]), np.array([2, 0, 1]))
    assert (place.boxes, place.edges) == (((0, 0), (1, 0)), (0,))


def test_a_cable_lies_between_its_two_switches(machine):
    drawing, network = drawing_of(machine), machine.back_end
    links = ClusterPlaces.of(machine).cable("leaf 1 - spine 2") - network.link_offset
    place = drawing.place(links, np.unique(drawing.ends[:, links]))
    assert place.boxes == ((1, 1), (2, 2))
    (edge,) = place.edges
    found = drawing.picture(np.zeros(drawing.ends.shape[1])).edges[edge]
    assert (found.from_, found.to) == ((1, 1), (2, 2))
