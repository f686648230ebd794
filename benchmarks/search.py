"""The optimizer of large spaces against looking at all of them, and a learned surrogate in front of it.

    python benchmarks/search.py [--seeds 5] [--spaces 3] [--values N]

Three spaces of 13,000 to 21,000 points are looked at in full, in closed form.
Then each search asks for points: how much of the hypervolume of the true front it has after so many (objectives from
their best to their worst value on it, reference 1.1), and the CPU that the search itself took. The surrogate fits
logarithms of objectives by least squares on pairs of values and proposes half of each generation.
"""

from __future__ import annotations

import argparse
import itertools
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.plan import lessons
from railyard.ask.plan.build import DesignBench
from railyard.ask.plan.evaluate import sweep
from railyard.ask.plan.judgement import front, good, judge, values
from railyard.ask.plan.planned import PlannedDesigns, begin
from railyard.work.scenario import load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from railyard.ask.plan.outcome import DesignOutcome

    Search = Callable[[PlannedDesigns, int, int], Iterator[list[int]]]

FABRICS = ["roce", "infiniband", "spectrum-x", "uec", "scheduled"]
BUDGETS = (150, 250, 350, 500, 750, 1000, 2000)
FAILED = 1e29
SPACES: tuple[dict[str, Any], ...] = (
    {
        "training": {"model": "llama-3-70b", "global_batch": 1024, "sequence": 4096, "parallelism": {"tp": 8, "pp": 4}},
        "space": {
            "accelerators": [128, 256, 512, 1024],
            "fabric": FABRICS,
            "topology": ["leaf-spine", "rail-optimized", "three-tier"],
            "oversubscription": ["1:1", "2:1", "4:1"],
            **{"tp": [2, 4, 8], "pp": [1, 2, 4, 8], "micro_batch": [1, 2, 4], "zero": [1, 3]},
        },
        "objectives": ["cpmt", "jct", "capex"],
        "constraints": {"power": "800 kW"},
    },
    {
        "training": {
            "model": "mixtral-8x7b",
            "global_batch": 512,
            "sequence": 4096,
            "parallelism": {"tp": 2, "pp": 2, "ep": 8},
        },
        "space": {
            "server": ["hgx-h100", "hgx-h200", "hgx-b200", "dgx-a100"],
            "accelerators": [64, 128, 256],
            "fabric": FABRICS,
            "oversubscription": ["1:1", "2:1", "3:1", "4:1"],
            **{"tp": [1, 2, 4, 8], "pp": [1, 2, 4], "ep": [2, 4, 8], "micro_batch": [1, 2]},
        },
        "objectives": ["cpmt", "jct"],
        "constraints": {"budget": "$8M"},
    },
    {
        "training": {"model": "llama-3-8b", "global_batch": 512, "sequence": 8192, "parallelism": {"tp": 2, "pp": 1}},
        "space": {
            "server": ["hgx-h100", "hgx-h200", "hgx-b200"],
            "accelerators": [64, 128, 256, 512],
            "placement": ["packed", "scattered"],
            "fabric": [*FABRICS, "ideal"],
            "topology": ["leaf-spine", "rail-optimized"],
            "oversubscription": ["1:1", "2:1", "4:1"],
            **{"tp": [1, 2, 4, 8], "cp": [1, 2, 4], "recompute": ["none", "full"]},
        },
        "objectives": ["tokens_per_watt", "jct", "capex"],
        "constraints": {},
    },
)


@dataclass
class Whole:
    """A space of which every point is known."""

    begun: PlannedDesigns
    rows: dict[int, DesignOutcome]
    point_s: float

    @classmethod
    def of(cls, given: dict[str, Any]) -> Whole:
        """All of a space in closed form."""
        plan = {**{name: given[name] for name in ("space", "objectives", "constraints")}, "effort": {"designs": 10**6}}
        document = {
            "name": "p",
            "cluster": {"accelerators": 256, "server": "hgx-h100", "back_end": {"topology": "leaf-spine"}},
            "workload": {"training": {**given["training"], "tokens": "1 T"}},
            "plan": plan,
        }
        begun, _ = begin(load.from_values(document))
        heads = frozenset({"cluster", "catalog"})
        points = sorted(range(begun.space.size), key=lambda point: (str(begun.space.part(point, 0, heads)), point))
        cpu = time.process_time()
        rows = {
            one.point: one for one in sweep(DesignBench(begun.space), [(point, 0) for point in points], frozenset())
        }
        return cls(begun, rows, (time.process_time() - cpu) / len(points))

    def fresh(self) -> PlannedDesigns:
        """The space before anything is looked at."""
        return PlannedDesigns(self.begun.space, self.begun.objectives, self.begun.constraints)

    def add(self, planned: PlannedDesigns, points: Sequence[int]) -> None:
        """What is known of some points."""
        for point in points:
            planned.outcomes[point, 0, "analytic"] = self.rows[point]
            if self.rows[point].error:
                planned.failed[point] = self.rows[point].error
        planned.points = sorted({*planned.points, *points})
        judge(planned)


def hypervolume(points: np.ndarray[Any, Any]) -> float:
    """Of two or three objectives, against 1.1 in each."""
    points = points[(points < 1.1).all(axis=1)]
    if points.shape[1] == 2:
        found, best = 0.0, 1.1
        for one, two in points[np.lexsort(points.T[::-1])]:
            found, best = found + (1.1 - one) * max(best - two, 0.0), min(best, two)
        return found
    ends = np.append(np.unique(points[:, 2]), 1.1)
    return sum(hypervolume(points[points[:, 2] <= low][:, :2]) * (high - low) for low, high in itertools.pairwise(ends))


def tried(whole: Whole, search: Search, seed: int, scale: Callable[[Any], Any]) -> list[tuple[float, float]]:
    """Hypervolume and CPU of the search after each budget that leaves a part of the space."""
    planned, spent, rows = whole.fresh(), 0.0, []
    left = [budget for budget in BUDGETS if budget < 0.7 * len(whole.rows)]
    begun = time.process_time()
    for points in search(planned, left[-1], seed):
        spent += time.process_time() - begun
        whole.add(planned, points)
        while left and len(planned.points) >= left[0]:
            kept = good(planned)
            rows.append((hypervolume(scale(values(planned, kept))) if kept else 0.0, spent))
            left.pop(0)
        begun = time.process_time()
    return rows


def at_random(planned: PlannedDesigns, budget: int, seed: int) -> Iterator[list[int]]:
    order = np.random.Generator(np.random.PCG64(seed)).permutation(planned.space.size)[:budget].tolist()
    yield from (order[at : at + 25] for at in range(0, budget, 25))


def pairs(planned: PlannedDesigns, points: Sequence[int]) -> np.ndarray[Any, Any]:
    """float64[points, pairs of values], 1 where a point has both."""
    places = np.array([planned.space.place(point) for point in points])
    hot = [np.eye(len(each))[places[:, at]] for at, each in enumerate(planned.space.values)]
    both = [
        (one[:, :, None] * other[:, None, :]).reshape(len(points), -1)
        for at, one in enumerate(hot)
        for other in hot[:at]
    ]
    return np.hstack([np.ones((len(points), 1)), *hot, *both])


def fitted(table: np.ndarray[Any, Any], targets: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    solved: np.ndarray[Any, Any] = table.T @ np.linalg.solve(table @ table.T + 0.3 * np.eye(len(table)), targets)
    return solved


class Surrogate:
    """Proposes half of each generation of the optimizer; what a point is, the closed form says."""

    def __init__(self) -> None:
        self.off: list[Any] = []

    def __call__(self, planned: PlannedDesigns, budget: int, seed: int) -> Iterator[list[int]]:
        """As `sampling.search`."""
        sampler = lessons._Sampler(planned.space, len(planned.objectives), seed)
        random, asked = np.random.Generator(np.random.PCG64(seed)), set[int]()
        while len(asked) < budget:
            generation = sampler.ask()
            expected = self.proposed(planned, asked, random) if len(asked) >= 96 else {}
            fresh = [*expected, *(point for point in dict.fromkeys(generation) if point not in asked)]
            fresh = list(dict.fromkeys(fresh))[: budget - len(asked)]
            asked.update(fresh)
            if fresh:
                yield sorted(fresh)
            for point in expected.keys() & set(fresh):
                figures, _ = lessons._seen(planned, point)
                if figures[0] < FAILED:
                    self.off.append(np.abs(expected[point] - np.log(np.abs(figures)) * np.sign(figures)))
            if len(asked) < budget:
                sampler.tell([lessons._seen(planned, point) for point in generation])

    def proposed(self, planned: PlannedDesigns, asked: set[int], random: np.random.Generator) -> dict[int, Any]:
        """The best by what is expected of them, and that."""
        known = sorted(asked)
        seen = [lessons._seen(planned, point) for point in known]
        figures, excess = np.array([row for row, _ in seen]), np.array([each for _, each in seen])
        can, table = figures[:, 0] < FAILED, pairs(planned, known)
        signs, logs = np.sign(figures[can][0]), np.log(np.abs(figures[can]))
        of_figures = fitted(table[can], logs - logs.mean(axis=0))
        of_excess = fitted(table, np.clip(excess, 0, 1))
        candidates = self.candidates(planned, asked, [known[at] for at in np.flatnonzero(excess <= 1e-9)], random)
        found = pairs(planned, candidates)
        guessed = (found @ of_figures + logs.mean(axis=0)) * signs
        left, chosen = np.flatnonzero(found @ of_excess < 0.3), []
        while len(chosen) < lessons.POPULATION // 2 and len(left):
            best = left[front(guessed[left])]
            chosen += best.tolist()
            left = np.setdiff1d(left, best)
        return {candidates[at]: guessed[at] for at in chosen[: lessons.POPULATION // 2]}

    def candidates(
        self, planned: PlannedDesigns, asked: set[int], kept: Sequence[int], random: np.random.Generator
    ) -> list[int]:
        """Points at random, and all that differ in one value from the front that is known."""
        found = random.integers(0, planned.space.size, 4000).tolist()
        for point in [kept[at] for at in np.flatnonzero(front(values(planned, kept)))[:40]] if kept else []:
            place = list(planned.space.place(point))
            for at, each in enumerate(planned.space.values):
                found += [planned.space.number([*place[:at], other, *place[at + 1 :]]) for other in range(len(each))]
        return [point for point in dict.fromkeys(found) if point not in asked]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--spaces", type=int, default=len(SPACES))
    parser.add_argument("--values", type=int, help="of each key, at most")
    given = parser.parse_args()
    for number, space in enumerate(SPACES[: given.spaces], 1):
        fewer = {key: values[: given.values] for key, values in space["space"].items()}
        whole, learned = Whole.of({**space, "space": fewer}), Surrogate()
        planned = whole.fresh()
        whole.add(planned, list(whole.rows))
        table = values(planned, good(planned))
        best = table[front(table)]
        low, wide = best.min(axis=0), np.ptp(best, axis=0)
        all_of_it = hypervolume((best - low) / wide)
        print(f"space {number}: {len(whole.rows):,} points, {len(table):,} good, {1e3 * whole.point_s:.1f} ms a point")
        for name, search in (("random", at_random), ("NSGA-II", lessons.search), ("with surrogate", learned)):
            runs = [
                tried(whole, search, seed, lambda found, low=low, wide=wide: (found - low) / wide)
                for seed in range(given.seeds)
            ]
            cells = []
            for at, budget in enumerate(BUDGETS):
                rows = [run[at] for run in runs if at < len(run)]
                if rows:
                    share, cpu = np.mean(rows, axis=0)
                    cells.append(f"{budget}: {share / all_of_it:.3f} ({cpu:.2f} s)")
            print(f"  {name}: {', '.join(cells)}", flush=True)
        print(f"  surrogate off by (median of logarithms): {np.round(np.median(learned.off, axis=0), 4)}", flush=True)


if __name__ == "__main__":
    main()
