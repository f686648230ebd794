"""What cannot run is refused or told in words that name the task."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from railyard import engine
from railyard.engine.lowering import Lowered
from railyard.graph import Merged
from railyard.kit.errors import InputError, SimulationError

from .hand import Entity, Graph, Links, lowered
from .test_semantics import play


def test_tasks_that_wait_in_a_circle_are_named():
    graph = Graph(2)
    graph.compute(0, 5)
    graph.compute(0, 5, 2)
    graph.compute(1, 5, 3)
    graph.compute(1, 5)  # behind task 2 in its stream, and task 2 waits for it
    with pytest.raises(SimulationError, match=r"2 tasks form a dependency cycle: task 3 .* <- task 2"):
        play(graph)


def test_collectives_in_different_orders_deadlock_as_they_would():
    graph = Graph(2, groups=[[0, 1], [0, 1]])
    graph.compute(0, 5)
    first = graph.collective(0, 0, stream=0)
    graph.compute(1, 5, stream=1)
    graph.collective(1, 0, stream=1)
    graph.rows[first]["deps"] = (3,)
    graph.rows[3]["deps"] = (first,)
    with pytest.raises(SimulationError, match="collective on communicator"):
        play(graph, [Entity({0: 1.0}, 1.0)])


def test_a_task_that_waits_for_itself():
    graph = Graph(1)
    graph.compute(0, 5, 0)
    with pytest.raises(SimulationError, match="1 tasks form a dependency cycle"):
        play(graph)


@pytest.mark.parametrize(
    ("column", "value", "word"),
    [
        ("kind", 9, "unknown kind"),
        ("rank", 7, "rank out of range"),
        ("rank", -1, "rank out of range"),
        ("duration_ps", -1, "duration out of range"),
        ("dep_idx", 5, "dependency out of range"),
        ("dep_ptr", 1, "dep_ptr does not span"),
    ],
)
def test_columns_that_do_not_fit_are_refused(column, value, word):
    graph = Graph(2)
    graph.compute(0, 5)
    graph.compute(0, 5, 0)
    columns, low = lowered(graph, [])
    getattr(columns.graph, column)[0] = value
    with pytest.raises(InputError, match=word):
        engine.get("flow").run(columns, low, Links([1.0]))


def test_a_communication_without_an_entity_is_refused():
    graph = Graph(2)
    graph.transfer(0, 1, 0)
    columns, low = lowered(graph, [])
    with pytest.raises(InputError, match=r"communication without an entity \(task 0\)"):
        engine.get("flow").run(columns, low, Links([1.0]))


def test_columns_of_different_lengths_are_refused():
    graph = Graph(2)
    graph.compute(0, 5)
    columns, low = lowered(graph, [])
    with pytest.raises(InputError, match="differ in length"):
        engine.get("flow").run(columns, Lowered(low.entities, np.zeros(3, np.int32)), Links([1.0]))


@pytest.mark.parametrize(("groups", "word"), [([[0, 0]], "a rank twice"), ([[]], "without members"), ([[4]], "member")])
def test_impossible_communicators_are_refused(groups, word):
    graph = Graph(2, groups=groups)
    graph.collective(0, 0)
    with pytest.raises(InputError, match=word):
        play(graph, [Entity({0: 1.0}, 1.0)])


@pytest.mark.parametrize("capacity", [np.nan, np.inf, -1.0])
def test_impossible_capacities_are_refused(capacity):
    with pytest.raises(InputError, match="capacity of a link"):
        play(Graph(1), capacity=[capacity])


def test_columns_of_another_type_are_converted_or_refused_never_misread():
    graph = Graph(1)
    graph.compute(0, 5)
    columns, low = lowered(graph, [])
    wide = Merged.of(replace(columns.graph, rank=columns.graph.rank.astype(np.int64)))
    assert engine.get("flow").run(wide, low, Links([1.0])).end_ps.tolist() == [5]


def test_unknown_engines_get_the_nearest_name():
    with pytest.raises(InputError, match=r"no engine `flwo`.*flow"):
        engine.get("flwo")


@pytest.mark.parametrize("name", ["flow", "analytic"])
def test_every_engine_says_what_it_is_and_leaves_out(name):
    record = engine.get(name)
    assert record.name == name
    assert record.summary.endswith(".")
    assert record.left_out


@pytest.mark.parametrize(
    ("make", "key"),
    [
        (lambda: engine.Jitter(sigma=-0.1), "jitter.sigma"),
        (lambda: engine.Jitter(rank_sigma=1.1), "jitter.rank_sigma"),
        (lambda: engine.Jitter(sigma=float("nan")), "jitter.sigma"),
        (lambda: engine.Probes(samples=-1), "probes.samples"),
        (lambda: play(Graph(1), seed=-1), "seed"),
        (lambda: play(Graph(1), probes=engine.Probes(samples=4, links=[3])), "probes.links"),
    ],
)
def test_impossible_options_are_refused(make, key):
    with pytest.raises(InputError) as caught:
        make()
    assert caught.value.problems[0].key == key
