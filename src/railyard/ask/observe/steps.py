"""Which training step every kernel of a trace belongs to.

The profiler marks steps where the program calls `profiler.step()`. Marks of the device say exactly which kernels belong
to a step; those of the host are followed by their kernels later. So where the kernels of a rank, in the order of their
launches, are the same ones again and again, it is the repetition that cuts them, and marks give the numbers. Without
marks, steps are the most repetitions that the kernels allow, numbered from 0. Where kernels do not repeat and nothing
is marked, nobody knows steps, and all are one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Launched:
    """Kernels of a rank, n of them, in any order.

    Attributes:
        code: int64[n], what each is: equal for the same kernel.
        launch: int64[n], grows in the order of launches; -1 where not known.
        start_ns: int64[n].
        marks: Number, start and end of each step that the profiler marked, ns, by start.
        exact: Whether marks are those of the device.
    """

    code: Ints
    launch: Ints
    start_ns: Ints
    marks: Sequence[tuple[int, int, int]]
    exact: bool


def steps_of(ranks: Mapping[int, Launched]) -> tuple[dict[int, NDArray[np.int32]], list[int]]:
    """By rank int32[n], the step of each kernel as a place among the numbers; -1 of one in none; and the numbers."""
    numbers = sorted({mark[0] for one in ranks.values() for mark in one.marks})
    if numbers:
        place = {number: at for at, number in enumerate(numbers)}
        return {rank: _marked(one, place) for rank, one in ranks.items()}, numbers
    count = _most_common([_repetitions(_ordered(one)[0]) for one in ranks.values()])
    return {rank: _cut(one, count) for rank, one in ranks.items()}, list(range(count))


def _most_common(counts: Sequence[int]) -> int:
    """What most ranks say; the fewer steps where as many say another."""
    return min(Counter(counts).most_common(), key=lambda one: (-one[1], one[0]))[0] if counts else 1


def _ordered(one: Launched) -> tuple[Ints, Ints]:
    """int64[n], what is launched in which order, and int64[n], rows in that order."""
    known = bool((one.launch >= 0).all())
    order = np.lexsort((one.start_ns, one.launch)) if known else np.argsort(one.start_ns, kind="stable")
    return one.code[order], np.asarray(order, np.int64)


def _repetitions(code: Ints) -> int:
    """The most times that the same sequence follows itself; 1 where it does not."""
    if not len(code):
        return 1
    most = gcd(*np.unique(code, return_counts=True)[1].tolist())
    for count in range(most, 1, -1):
        if most % count == 0 and _repeats(code, count):
            return count
    return 1


def _repeats(code: Ints, count: int) -> bool:
    if len(code) % count:
        return False
    rows = code.reshape(count, -1)
    return bool((rows == rows[0]).all())


def _cut(one: Launched, count: int) -> NDArray[np.int32]:
    """Equal parts in the order of launches; a rank whose kernels do not repeat so often is in no step."""
    code, order = _ordered(one)
    step = np.full(len(code), -1, np.int32)
    if count == 1 or _repeats(code, count):
        step[order] = np.arange(len(code)) * count // max(len(code), 1)
    return step


def _marked(one: Launched, place: Mapping[int, int]) -> NDArray[np.int32]:
    """By marks: their repetition where the host's are as many, else the last mark before each kernel."""
    if not one.marks:
        return np.full(len(one.code), -1, np.int32)
    names = np.array([place[number] for number, _, _ in one.marks], np.int32)
    if not one.exact and _repeats(_ordered(one)[0], len(one.marks)):
        return names[_cut(one, len(one.marks))]
    begins = np.array([start for _, start, _ in one.marks], np.int64)
    at = np.searchsorted(begins, one.start_ns, side="right") - 1
    return np.where(at >= 0, names[np.maximum(at, 0)], np.int32(-1)).astype(np.int32)
