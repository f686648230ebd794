"""What a slice adds to a communication, measured alone: of which ones, how finely, how much it is."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from railyard.engine.packet.plan import Slicing, TaskFlows
from railyard.engine.packet.slices import IdleNetwork, Measure, measured, one_task, repeated
from railyard.graph import TaskGraph

NONE = np.empty(0, np.int64)
EVEN_PS = (300, 700, 500)
LATENCY_PS, SLOPE_PS = 900, 40


class Bench(IdleNetwork):
    """A network on which a slice of n takes a n-th of the whole, a latency that nothing divides, and what n adds."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, float]] = []
        self.times: dict[int, int] = {}

    def surplus_ps(self, graph: object, task: int, slicing: Slicing, measure: Measure) -> float:
        self.asked.append((task, measure.factor))
        self.times[task] = measure.times
        return super().surplus_ps(graph, task, slicing, measure)

    def _took_ps(self, graph: object, task: int, slicings: list[Slicing]) -> list[tuple[float, float]]:
        whole = 10_000 * (task + 1)
        times = [whole / one.factor + LATENCY_PS + SLOPE_PS * (one.factor - 1) / one.factor for one in slicings]
        return [(took, one.factor * (took - LATENCY_PS)) for took, one in zip(times, slicings, strict=True)]


def block(task: int, size_bytes: int, label: str = "") -> TaskFlows:
    one = np.zeros(1, np.int64)
    return TaskFlows(
        tasks=np.array([task]), rows=1, source=one, target=one, size_bytes=np.array([size_bytes]), delay_ps=one,
        path_key=np.zeros(1, np.uint32), connection=np.zeros(1, np.uint64), klass=0, ptr=np.zeros(2, np.int64),
        before=NONE, at=NONE.astype(np.uint8), last=one, start_ps=0, surplus_ps=-1.0, nic_share=1.0, label=label,
    )  # fmt: skip


def found(blocks: list[TaskFlows], budget_hops: float, slicing: Slicing) -> tuple[list[float], Bench]:
    volume = SimpleNamespace(even_ps=np.array(EVEN_PS))
    lowering = SimpleNamespace(lowered=SimpleNamespace(entity=np.arange(3), entities=volume), graph=None)
    bench = Bench()
    return [one.surplus_ps for one in measured(bench, lowering, blocks, slicing, budget_hops)], bench


SIZE, SLICE = 4096 * 80, Slicing(factor=40.0)
WHOLE = 80 * 40 * 4.5
"""Packet-hops of one whole communication."""
THREE = [block(task, SIZE, label) for task, label in enumerate("abc")]


def test_what_grows_with_the_slice_is_drawn_on_to_the_whole():
    """By slices of 2 and 8, or by the whole: 900 of latency and 39 of the slope, and nothing of the whole's own."""
    for factor in (1.0, 2.0, 13.0):
        surplus = Bench().surplus_ps(None, 0, SLICE, Measure(factor, 5))
        assert surplus == pytest.approx(LATENCY_PS + SLOPE_PS * 39 / 40, rel=1e-9)


@pytest.mark.parametrize(
    ("budget", "factors"),
    [
        (5 * WHOLE, {0: 1.0, 1: 1.0, 2: 1.0}),  # each takes its own, a quarter, and 45 / 40 for slices of 40
        (0.07 * WHOLE, {}),  # no more than a slice of each takes
        # 1 less (3 + 6 + 4) / 40 for slices, by the roots of 300, 700 and 500; a slice of n takes 3/2 of an n-th
        (1 * WHOLE, {0: 8.49, 1: 5.56, 2: 6.57}),
    ],
)
def test_the_budget_goes_to_those_that_count(budget: float, factors: dict[int, float]):
    _, bench = found(THREE, budget, SLICE)
    assert dict(bench.asked) == pytest.approx(factors, rel=0.01)


def test_one_that_gets_half_of_what_it_takes_gets_all():
    """Of two, the other one a hundred times as large: the small one is measured whole."""
    _, bench = found([block(0, SIZE, "a"), block(1, 100 * SIZE, "b")], 24 * WHOLE, SLICE)
    assert dict(bench.asked)[0] == 1
    assert dict(bench.asked)[1] > 1


def test_those_alike_are_measured_once_and_scaled_by_their_bytes():
    surplus, bench = found([block(0, SIZE), block(1, SIZE + SIZE // 50), block(2, 2 * SIZE)], 20 * WHOLE, SLICE)
    assert [task for task, _ in bench.asked] == [0, 2]
    assert surplus[1] == pytest.approx(1.02 * surplus[0], rel=1e-3)


@pytest.mark.parametrize(("slicing", "runs"), [(Slicing(), False), (Slicing(coarser=3.0), True)])
def test_a_run_of_everything_as_it_is_needs_no_measuring(slicing: Slicing, runs: bool):
    _, bench = found(THREE, 1e9, slicing)
    assert bool(bench.asked) == runs


@pytest.mark.parametrize(
    ("sizes", "budget", "times"),
    [
        ((1, 1, 1), 1, {0: 3, 1: 6, 2: 4}),  # a third of 1 is 13.3 slices of 40, by 300, 700 and 500
        (
            (1, 4, 1),
            3,
            {0: 5, 1: 6, 2: 9},
        ),  # 40 slices, of which each of the second counts four: by 300, 700 / 2 and 500
        ((1, 1, 1), 9, {0: 16, 1: 16, 2: 16}),  # no more
        ((1, 1, 1), 0.4, {1: 2, 2: 2}),  # no fewer: the first ones warm senders up
    ],
)
def test_slices_of_what_takes_long_are_measured_most_often(
    sizes: tuple[int, ...], budget: float, times: dict[int, int]
):
    blocks = [block(task, SIZE * size, label) for task, (size, label) in enumerate(zip(sizes, "abc", strict=True))]
    assert found(blocks, budget * WHOLE, SLICE)[1].times == times


def test_a_task_again_and_again():
    graph = TaskGraph.__new__(TaskGraph)
    names = ("kind", "rank", "peer", "duration_ps", "size_bytes", "count", "collective", "stream", "label")
    columns = {name: np.array([1, 0]) for name in names} | {"size_bytes": np.array([7, 9])}
    for name, value in {**columns, "ranks": 2, "labels": (), "communicators": None}.items():
        object.__setattr__(graph, name, value)
    chain = repeated(graph, 1, 3)
    assert chain.size_bytes.tolist() == [9, 9, 9]
    assert (chain.dep_ptr.tolist(), chain.dep_idx.tolist()) == ([0, 0, 1, 2], [0, 1])


def test_the_flows_of_one_of_several_tasks():
    two = TaskFlows(
        tasks=np.array([4, 6]), rows=2, source=np.arange(4), target=np.arange(4) + 10, size_bytes=np.arange(4) + 20,
        delay_ps=np.arange(4) + 30, path_key=np.arange(4, dtype=np.uint32), connection=np.arange(4, dtype=np.uint64),
        klass=0, ptr=np.zeros(3, np.int64), before=NONE, at=NONE.astype(np.uint8), last=np.array([1]), start_ps=0,
        surplus_ps=0, nic_share=1.0, label="",
    )  # fmt: skip
    second = one_task(two, 1)
    assert (second.tasks.tolist(), second.source.tolist(), second.size_bytes.tolist()) == ([6], [2, 3], [22, 23])
    assert (second.delay_ps.tolist(), second.connection.tolist(), second.last.tolist()) == ([32, 33], [2, 3], [1])
