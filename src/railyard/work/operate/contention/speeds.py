"""How fast a job of a pattern is: runs on the flow engine, each pattern once.

The job and its neighbours run together until the job has done `STEPS` of them; its speed is its step alone on as few
leafs as it could have had and on paths that do not collide, over its mean step here: what a scattered placement and
collisions of its own flows cost is in it.

Where in each other's steps neighbours stand, and which way switches hash them, nobody chooses: the speed is the mean of
`DRAWS` runs, jobs out of phase by other multiples of the golden section and numbered in another order each. A manner
chooses some of it: phases (`shifts`), which then drift; who goes first on a link (`intensity`); paths, the job that
computes most for a second of traffic first (`railyard.engine.probing`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard import engine
from railyard.cluster.routes import mix
from railyard.engine.background import CLASSES
from railyard.engine.probing import steered
from railyard.graph import Job
from railyard.kit.errors import InputError, did_you_mean
from railyard.model.architecture import model_flops_per_token
from railyard.work.operate.contention import intensity
from railyard.work.operate.contention.intensity import JobTurn, TrafficBeat, off_beat, realigning, shifts
from railyard.work.operate.contention.pattern import PatternJob, WorkClass, canonical, out_bytes, placed, uplinks_bps
from railyard.work.operate.rules import PPM
from railyard.work.scenario.load import blaming
from railyard.work.study import compose

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.graph import Record
    from railyard.work.operate.contention.pattern import Pattern
    from railyard.work.operate.jobs import JobTable
    from railyard.work.operate.section import ClassSection
    from railyard.work.scenario.load import Draft


MFU = 0.4
"""Model FLOP utilization of computation alone that a class by `model` assumes."""
GRADIENT_BYTES = 2
"""Of a parameter: bf16."""
SEQUENCE = 4096
"""Tokens that attend to one another."""


def work_class(draft: Draft, number: int, section: ClassSection, cluster: Cluster) -> WorkClass:
    """A class of work as it is written.

    A model's step computes its FLOPs for each token at `MFU`; its gradients are reduced over all accelerators, which
    sends
    through the NICs of a node what groups of data parallelism beside tensor parallelism in the node would send.

    Raises:
        InputError: There is no such model.
    """
    if section.model is None:
        return WorkClass(section.name, section.compute, section.message, section.overlap)
    with blaming(draft, "workload", "operate", "contention", "classes", str(number), "model"):
        model = compose.model_of(draft.folder, section.model, cluster.catalog)
    flops = model_flops_per_token(model, SEQUENCE) * section.tokens
    peak = cluster.accelerator.flops.get("bf16") or cluster.accelerator.flops["fp16"]
    return WorkClass(section.name, flops / (peak * MFU), round(GRADIENT_BYTES * model.parameters()), section.overlap)


def assigned(jobs: JobTable, sections: Sequence[ClassSection], seed: int, serving: Iterable[str] = ()) -> list[int]:
    """For each job the number of its class; -1: no class takes jobs of its size, or its class only serves.

    Raises:
        InputError: A job names a class that there is not.
    """
    names = [section.name for section in sections]
    answers = set(serving) - set(names)
    for name in jobs.classes[1:]:
        if name not in names and name not in answers:
            row = int(np.flatnonzero(jobs.work == jobs.classes.index(name))[0])
            hint = did_you_mean(name, names)
            raise jobs.refuse(row, "no such class of work", key="class", found=name, allowed=names, hint=hint)
    number = {name: at for at, name in enumerate(names)}
    given = np.array([-1, *(number.get(name, -2) for name in jobs.classes[1:])])[jobs.work]
    key = mix(np.array([seed], np.uint64))
    draw = mix(np.arange(len(jobs), dtype=np.uint64) ^ key) / 2.0**64
    size, share = jobs.accelerators, np.array([section.share for section in sections])
    fits = size[:, None] >= np.array([section.least_accelerators for section in sections])
    chance = np.cumsum(fits * share, axis=1)
    drawn = (draw[:, None] * chance[:, -1:] >= chance).sum(axis=1)
    drawn = np.where(chance[:, -1] > 0, drawn, -1)
    found: list[int] = np.where(given == -1, drawn, np.maximum(given, -1)).tolist()
    return found


def refuse_classes(sections: Sequence[ClassSection]) -> None:
    """Two classes of one name could not be told apart.

    Raises:
        InputError: There are two.
    """
    names = [section.name for section in sections]
    twice = next((name for number, name in enumerate(names) if name in names[:number]), None)
    if twice is not None:
        raise InputError(f"two classes are called `{twice}`", key="classes", found=twice)


STEPS = 24
SKIPPED = 4
"""Steps of the job in a run, and how many of them pass before its steps are counted."""
DRAWS = 4
PHASE = 0.6180339887498949
"""Jobs begin at multiples of the golden section of their steps: no two in phase, and the same in every run."""


@dataclass(frozen=True)
class Manner:
    """How traffic of jobs on shared links is kept apart.

    Attributes:
        priorities: Whether classes of traffic follow computation for a second of traffic (Crux); else all are alike.
        shifted: Whether steps of jobs that meet are shifted to fit into one another (CASSINI).
        paths: Whether connections get paths one after another (Crux) where switches would hash them.
        drift: Standard deviation of a step's length, over the step: so shifted jobs leave their places.
    """

    priorities: bool = False
    shifted: bool = False
    paths: bool = False
    drift: float = 0.0


@dataclass(frozen=True)
class Alone:
    """A job with the network to itself.

    Attributes:
        begins_s: From the begin of a step until its traffic begins.
    """

    step_s: float
    begins_s: float = 0.0
    lasts_s: float = 0.0


class Speeds:
    """Asks the engine."""

    def __init__(
        self, cluster: Cluster, leafs: Sequence[NDArray[np.int32]], classes: Sequence[WorkClass], manner: Manner
    ) -> None:
        self.cluster, self.leafs, self.classes, self.manner = cluster, leafs, tuple(classes), manner
        self.runs = 0
        self._engine = engine.get("flow")
        self._speeds: dict[Pattern, int] = {}
        self._alone: dict[tuple[Pattern, bool], Alone] = {}
        self._uplinks_bps = uplinks_bps(cluster, sorted(leafs, key=len, reverse=True))

    def of(self, pattern: Pattern) -> int:
        """Speed of the first job of a pattern, in millionths of that alone on as few leafs as it could have had."""
        if pattern not in self._speeds:
            self._speeds[pattern] = self._simulated(pattern)
        return self._speeds[pattern]

    def alone(self, one: PatternJob) -> Alone:
        """A job of a pattern without the others."""
        return self._without_others(one, self.manner.paths)

    def ideal_s(self, one: PatternJob) -> float:
        """A job's step on as few leafs as it could have had, its connections on paths that do not collide."""
        return self._without_others(self.packed(one), True).step_s

    def _without_others(self, one: PatternJob, paths: bool) -> Alone:
        pattern = canonical([one])
        if (pattern, paths) not in self._alone:
            self._alone[pattern, paths] = self._by_itself(pattern, paths)
        return self._alone[pattern, paths]

    def packed(self, one: PatternJob) -> PatternJob:
        """The same job on as few leafs as it could have had."""
        sizes = sorted(map(len, self.leafs), reverse=True)
        leafs = [leaf for leaf, size in enumerate(sizes) for _ in range(size)]
        return PatternJob(one.work, one.each, tuple(leafs[: len(one.leafs)]))

    def turn(self, one: PatternJob) -> JobTurn:
        """A job's step as others on its links see it."""
        work, beat = self.classes[one.work], self.beat(one)
        beside_s = work.compute_s * work.overlap
        sent = sum(beat.share.values()) * beat.lasts_s / beat.period_s
        return JobTurn(work.compute_s - beside_s, beside_s, beat.lasts_s, len(one.leafs) * one.each, sent)

    def beat(self, one: PatternJob) -> TrafficBeat:
        """When in its step a job sends, and what share of the uplinks of its leafs that takes meanwhile."""
        alone = self.alone(one)
        sent = out_bytes(np.array(one.leafs), len(one.leafs) * one.each, self.classes[one.work].message_bytes)
        seconds = max(alone.lasts_s, 1e-12)
        capacity = self._uplinks_bps
        share = {leaf: size * 8 / seconds / capacity[min(leaf, len(capacity) - 1)] for leaf, size in sent.items()}
        return TrafficBeat(alone.step_s, alone.begins_s, alone.lasts_s, share)

    def step_s(self, pattern: Pattern) -> float:
        """Mean step of the first job of a pattern beside the others."""
        return self.ideal_s(pattern[0]) * PPM / self.of(pattern)

    def _simulated(self, pattern: Pattern) -> int:
        where = placed(pattern, self.leafs, self.cluster.ranks_per_server)
        if where is None:
            return PPM
        alone = [self.alone(one).step_s for one in pattern]
        last = STEPS * alone[0] * 1.5 + max(alone)
        counts = [STEPS, *(math.ceil(last * 1.3 / step_s) for step_s in alone[1:])]
        graphs = [
            self.classes[one.work].steps(len(ranks), count)
            for one, ranks, count in zip(pattern, where, counts, strict=True)
        ]
        turns = [self.turn(one) for one in pattern]
        classes = self._classes(pattern, turns)
        self.runs += 1
        took = 0.0
        for draw in range(DRAWS):
            starts = self._starts(pattern, alone, draw)
            jobs = [
                Job(graph, ranks, start_ps=start, name=str(number), priority=priority)
                for number, (graph, ranks, start, priority) in enumerate(
                    zip(graphs, where, starts, classes, strict=True)
                )
            ]
            turn = draw % len(jobs)
            record = self._engine.simulate([*jobs[turn:], *jobs[:turn]], self._machine(jobs, turns, turn))
            took += mean_step_s(record.of((len(jobs) - turn) % len(jobs)), STEPS) / DRAWS
        if self.manner.shifted and len(pattern) > 1:
            took *= 1 + realigning(self.manner.drift)
        return min(PPM, round(PPM * self.ideal_s(pattern[0]) / took))

    def _machine(self, jobs: Sequence[Job], turns: Sequence[JobTurn], turn: int) -> Cluster:
        """The cluster on which jobs run, those from `turn` on first."""
        if not self.manner.paths:
            return self.cluster
        order = sorted(range(len(jobs)), key=lambda number: (-turns[number].intensity, number))
        last = len(jobs) - turn
        return steered(
            [*jobs[turn:], *jobs[:turn]],
            self.cluster,
            [(number + last) % len(jobs) for number in order],
            [one.sends_s / one.step_s for one in (*turns[turn:], *turns[:turn])],
        )

    def _starts(self, pattern: Pattern, alone: Sequence[float], draw: int) -> list[int]:
        phases = [(number + 1) * (draw + 1) * PHASE % 1.0 for number in range(len(pattern))]
        if self.manner.shifted:
            off = [off_beat(phase) if self.manner.drift else 0.0 for phase in phases]
            turned = shifts([self.beat(one) for one in pattern])
            begin = [shift + far * step_s for shift, far, step_s in zip(turned, off, alone, strict=True)]
            return [round((one - min(begin)) * 1e12) for one in begin]
        return [round(phase * step_s * 1e12) for phase, step_s in zip(phases, alone, strict=True)]

    def _classes(self, pattern: Pattern, turns: Sequence[JobTurn]) -> list[int]:
        if not self.manner.priorities:
            return [0] * len(pattern)
        leafs = [set(one.leafs) for one in pattern]
        return intensity.classes(
            intensity.priorities(turns),
            [one.intensity for one in turns],
            lambda one, other: not leafs[one].isdisjoint(leafs[other]),
            CLASSES,
        )

    def _by_itself(self, pattern: Pattern, paths: bool) -> Alone:
        one = pattern[0]
        work = self.classes[one.work]
        where = placed(pattern, self.leafs, self.cluster.ranks_per_server)
        if where is None:
            return Alone(work.compute_s)
        job = Job(work.steps(len(where[0]), STEPS), where[0], start_ps=0, name="alone")
        record = self._engine.simulate([job], steered([job], self.cluster, [0], [1.0]) if paths else self.cluster)
        step_s = mean_step_s(record, STEPS)
        each = len(record) // STEPS
        reduce = slice((STEPS - 1) * each, None)
        begun = int(record.end_ps[:-each].max())
        sends = 2 * len(where[0])
        start, end = (int(column[reduce][sends]) for column in (record.start_ps, record.end_ps))
        return Alone(step_s, (start - begun) * 1e-12, (end - start) * 1e-12)


def mean_step_s(record: Record, steps: int) -> float:
    """Mean of the steps after the first few, in seconds."""
    each = len(record) // steps
    ends = record.end_ps.reshape(steps, each).max(axis=1)
    return float(ends[-1] - ends[SKIPPED - 1]) / (steps - SKIPPED) * 1e-12
