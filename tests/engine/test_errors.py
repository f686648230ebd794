"""What cannot run is refused or told in words that name the task."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from railyard import engine
from railyard.graph import Merged
from railyard.kit.errors import InputError

from .hand import Entity, Graph, Links, lowered
from .test_semantics import play


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


@pytest.mark.parametrize(("groups", "word"), [([[0, 0]], "a rank twice"), ([[]], "without members"), ([[4]], "member")])
def test_impossible_communicators_are_refused(groups, word):
    graph = Graph(2, groups=groups)
    graph.collective(0, 0)
    with pytest.raises(InputError, match=word):
        play(graph, [Entity({0: 1.0}, 1.0)])


def test_columns_of_another_type_are_converted_or_refused_never_misread():
    graph = Graph(1)
    graph.compute(0, 5)
    columns, low = lowered(graph, [])
    wide = Merged.of(replace(columns.graph, rank=columns.graph.rank.astype(np.int64)))
    assert engine.get("flow").run(wide, low, Links([1.0])).end_ps.tolist() == [5]


@pytest.mark.parametrize("name", ["flow", "analytic"])
def test_every_engine_says_what_it_is_and_leaves_out(name):
    record = engine.get(name)
    assert record.name == name
    assert record.summary.endswith(".")
    assert record.left_out
