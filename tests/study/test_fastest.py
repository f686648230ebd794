"""`parallelism: auto`: the search over layouts, by hand on steps that are known, and on a network."""

from __future__ import annotations

import numpy as np
import pytest

from railyard import api
from railyard.api import layouts as words
from railyard.study.training import fastest
from railyard.study.training.fastest import FIRST, MOST, _Search


def searched(places, closed_s, true_s):
    """Numbers in the order in which they are simulated, and the search."""
    search = _Search(np.array(places, np.float64), np.log(closed_s))
    order = []
    while (number := search.next_one()) is not None:
        order.append(number)
        search.learn(number, true_s[number])
    return order, search


def test_the_best_by_the_closed_form_come_first_and_it_ends_where_none_may_be_faster():
    """The closed form is right: after three, the fourth is 60 % behind, four deviations of 15 % away."""
    steps = [1.0, 1.1, 1.2, 1.6, 1.7]
    order, search = searched([[0], [8], [16], [24], [32]], steps, steps)
    assert order == [0, 1, 2]
    ranked = search.ranked()
    assert [number for number, _ in ranked] == [0, 1, 2, 3, 4]
    assert ranked[3][1] == pytest.approx(1.6, rel=0.02)


def test_the_error_of_a_kind_of_layout_is_carried_to_its_neighbours():
    """Layouts 0 to 2 take twice as long as the closed form says, and so will 3, their neighbour; 4 lies far away."""
    closed, true = [1.0, 1.01, 1.02, 1.03, 1.25], [2.0, 2.02, 2.04, 2.06, 1.25]
    order, search = searched([[0], [1], [2], [1.5], [20]], closed, true)
    assert order[:3] == [0, 1, 2]
    assert order[3] == 4
    assert search.ranked()[0] == (4, pytest.approx(1.25))


def test_an_odd_layout_that_cannot_be_run_is_no_neighbour():
    order, search = searched([[0], [1], [2], [3]], [1.0, 1.1, 1.2, 1.3], [np.inf, 1.1, 1.2, 1.3])
    assert set(order) == {0, 1, 2, 3}
    assert search.ranked()[0][0] == 1


def test_the_fastest_is_tried_with_other_sharding_and_recomputation():
    """Of the same sizes are 0 to 2; 3 lies elsewhere, and comes no more once all twins are known."""
    search = _Search(np.array([[0, 0, 0, 0], [0, 0, 4, 0], [0, 0, 0, 1], [1, 0, 0, 0]], np.float64), np.zeros(4))
    search.learn(0, 1.0)
    assert search.twin() == 1
    search.learn(1, 0.9)
    assert search.twin() == 2
    search.learn(2, 2.0)
    assert search.twin() is None


def test_no_more_than_so_many_are_simulated():
    steps = np.full(100, 1.0)
    order, _ = searched([[40.0 * place] for place in range(100)], steps, steps)
    assert len(order) == MOST
    assert len(set(order)) == MOST


SCENARIO = {
    "format": "railyard/1",
    "name": "auto",
    "cluster": {
        "accelerators": 16,
        "server": "hgx-h100",
        "back_end": {"topology": {"kind": "leaf-spine", "oversubscription": "4:1"}, "fabric": "roce"},
    },
    "workload": {
        "training": {
            "model": "llama-3-8b", "tokens": "1 B", "global_batch": 16, "sequence": 4096, "parallelism": "auto"
        }
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def run():
    return api.run(SCENARIO, out=None)


def test_the_chosen_layout_is_the_first_and_its_step_is_the_run_s(run):
    (variant,) = run.result.steps
    first, *others = variant.layouts
    assert first.simulated
    assert first.layout == variant.layout
    assert first.step_seconds == pytest.approx(variant.step.seconds, rel=1e-6)
    assert len(others) == 5
    assert all(first.step_seconds <= row.step_seconds for row in others if row.simulated)
    assert all(0 < row.memory_bytes <= row.capacity_bytes for row in variant.layouts)


def test_its_table_says_how_far_runners_up_are_behind(run):
    (variant,) = run.result.steps
    found = words.rows(variant)
    assert found[0][0] == variant.layout
    assert found[0][2] == "+0.0 %"
    behind = variant.layouts[1].step_seconds / variant.layouts[0].step_seconds - 1
    assert found[1][2] == f"{100 * behind:+.1f} %"
    assert found[0][3].endswith(" GB")


def test_a_layout_that_is_written_out_is_not_searched():
    plain = {**SCENARIO["workload"]["training"], "parallelism": {"tp": 8}}
    (variant,) = api.run({**SCENARIO, "workload": {"training": plain}}, out=None).result.steps
    assert variant.layouts is None
    assert words.rows(variant) == []


def test_dear_steps_end_the_search_early(monkeypatch):
    monkeypatch.setattr(fastest, "TASKS", 0)
    (variant,) = api.run(SCENARIO, out=None).result.steps
    assert sum(row.simulated for row in variant.layouts) == FIRST
