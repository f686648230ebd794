"""What a slice adds to a communication, measured alone: of which ones, for how many packet-hops, how much it is."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from railyard.engine.packet.alone import measured
from railyard.engine.packet.task_flows import Slicing, TaskFlows

NONE = np.empty(0, np.int64)
# Communications by task: what one takes without its latencies, and by itself in a slice and in full, ps.
EVEN_PS, IN_SLICE_PS, FULL_PS = (300, 700, 500), (1000, 1300, 1700), (2400, 3000, 4400)


class Bench:
    """Stands for the packet engine: durations from a table."""

    def took_ps(self, graph: object, task: int, slicing: Slicing) -> int:
        return (FULL_PS if slicing.factor == 1 else IN_SLICE_PS)[task]

    def full_ps(self, graph: object, task: int, slicing: Slicing) -> float:
        return FULL_PS[task] + 1000 * (slicing.factor - 1)


def block(task: int, size_bytes: int) -> TaskFlows:
    one = np.zeros(1, np.int64)
    return TaskFlows(
        tasks=np.array([task]), rows=1, source=one, target=one, size_bytes=np.array([size_bytes]), delay_ps=one,
        path_key=np.zeros(1, np.uint32), klass=0, ptr=np.zeros(2, np.int64), before=NONE, at=NONE.astype(np.uint8),
        last=one, start_ps=0, surplus_ps=-1.0, label="",
    )  # fmt: skip


def surplus_ps(sizes: tuple[int, ...], budget_hops: float, slicing: Slicing, coarsest: float = 1.0) -> list[float]:
    volume = SimpleNamespace(even_ps=np.array(EVEN_PS))
    lowered = SimpleNamespace(entity=np.arange(3), entities=volume)
    blocks = [block(task, size) for task, size in enumerate(sizes)]
    lowering = SimpleNamespace(lowered=lowered, graph=None)
    return [one.surplus_ps for one in measured(Bench(), lowering, blocks, slicing, budget_hops, coarsest)]


SIZE, FIFTH = 4096 * 80, Slicing(factor=5.0)
# In a slice of a fifth 80 packets stand for 400; both runs take 400 x (1 + 5) / 5 packets over 4.5 links.
HOPS = 400 * 6 / 5 * 4.5


@pytest.mark.parametrize(
    ("budget", "found"),
    [
        (0.99 * HOPS, [-1, -1, -1]),
        (1.01 * HOPS, [-1, 1300 - 3000 / 5, -1]),
        (1.99 * HOPS, [-1, 1300 - 3000 / 5, -1]),
        (2.01 * HOPS, [-1, 1300 - 3000 / 5, 1700 - 4400 / 5]),
        (3.01 * HOPS, [1000 - 2400 / 5, 1300 - 3000 / 5, 1700 - 4400 / 5]),
    ],
)
def test_the_longest_communications_are_measured_first(budget: float, found: list[float]) -> None:
    assert surplus_ps((SIZE, SIZE, SIZE), budget, FIFTH) == found


def test_one_that_is_too_large_leaves_the_budget_to_the_next() -> None:
    """The longest moves three times as much as the budget's two."""
    assert surplus_ps((SIZE, 3 * SIZE, SIZE), 2.01 * HOPS, FIFTH) == [1000 - 2400 / 5, -1, 1700 - 4400 / 5]


@pytest.mark.parametrize(
    ("budget", "coarsest", "found"),
    [
        (0.8 * HOPS, 2.0, [-1, 1300 - (3000 + 250) / 5, -1]),  # 1 / 0.8 = 1.25 times as coarse, and nothing is left
        (0.4 * HOPS, 2.0, [-1, -1, -1]),  # 2.5 times
        (1.5 * HOPS, 2.0, [-1, 1300 - 3000 / 5, 1700 - (4400 + 1000) / 5]),
    ],
)
def test_where_flows_are_hashed_a_finer_slice_stands_for_the_whole(budget: float, coarsest: float, found: list[float]):
    assert surplus_ps((SIZE, SIZE, SIZE), budget, FIFTH, coarsest) == pytest.approx(found)


@pytest.mark.parametrize(("slicing", "runs"), [(Slicing(), False), (Slicing(coarser=3.0), True)])
def test_a_run_of_everything_as_it_is_needs_no_measuring(slicing: Slicing, runs: bool) -> None:
    assert surplus_ps((SIZE, SIZE, SIZE), 1e9, slicing) == ([0, 0, 0] if runs else [-1, -1, -1])
