"""Speed of a job in a contention pattern: flow engine runs, one per pattern.

The job and its neighbors run together until the job has completed `STEPS` steps. Its speed is the step time alone,
packed on as few leafs as possible and on paths without collisions, divided by its mean step time here. The speed thus
includes the cost of a scattered placement and of collisions among its own flows.

Nobody controls how the steps of neighbors are offset, or how switches hash their flows. The speed is therefore the
mean of `DRAWS` runs, each with other offsets (multiples of the golden section) and another job order. A schedule can
control part of this: step offsets (`shifts`), which then drift; priorities on links (`intensity`); and paths, chosen
first for the job that computes most per second of traffic (`railyard.engine.probing`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import railyard.engine as engine
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
"""Model FLOP utilization of the computation alone, assumed for a class given by `model`."""
GRADIENT_BYTES = 2
"""Bytes per parameter: bf16."""
SEQUENCE = 4096
"""Sequence length in tokens."""


def work_class(draft: Draft, number: int, section: ClassSection, cluster: Cluster) -> WorkClass:
    """A class of work from its section.

    A model's step computes its FLOPs per token at `MFU`. Its gradients are reduced over all accelerators. This sends
    through a node's NICs the bytes that data-parallel groups would send with tensor parallelism inside the node.

    Raises:
        InputError: The model is unknown.
    """
    if section.model is None:
        return WorkClass(section.name, section.compute, section.message, section.overlap)
    with blaming(draft, "workload", "operate", "contention", "classes", str(number), "model"):
        model = compose.model_of(draft.folder, section.model, cluster.catalog)
    flops = model_flops_per_token(model, SEQUENCE) * section.tokens
    peak = cluster.accelerator.flops.get("bf16") or cluster.accelerator.flops["fp16"]
    return WorkClass(section.name, flops / (peak * MFU), round(GRADIENT_BYTES * model.parameters()), section.overlap)


def assigned(jobs: JobTable, sections: Sequence[ClassSection], seed: int, serving: Iterable[str] = ()) -> list[int]:
    """Class number of each job; -1: no class takes jobs of its size, or its class is for serving only.

    Raises:
        InputError: A job names an unknown class.
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
    """Rejects two classes of the same name.

    Raises:
        InputError: Two classes have the same name.
    """
    names = [section.name for section in sections]
    twice = next((name for number, name in enumerate(names) if name in names[:number]), None)
    if twice is not None:
        raise InputError(f"two classes are called `{twice}`", key="classes", found=twice)


STEPS = 24
SKIPPED = 4
"""Steps of the job in a run, and how many of them are skipped before measuring."""
DRAWS = 4
PHASE = 0.6180339887498949
"""Jobs start at multiples of the golden section of their steps: never in phase, and the same in every run."""


@dataclass(frozen=True)
class Manner:
    """How the traffic of jobs on shared links is scheduled.

    Attributes:
        priorities: Whether traffic classes follow computation per second of traffic (Crux); otherwise all are equal.
        shifted: Whether the steps of jobs that share links are shifted to interleave (CASSINI).
        paths: Whether paths are assigned connection by connection (Crux) where switches would hash them.
        drift: Standard deviation of a step's length relative to the step; it moves shifted jobs out of alignment.
    """

    priorities: bool = False
    shifted: bool = False
    paths: bool = False
    drift: float = 0.0


@dataclass(frozen=True)
class Alone:
    """A job that has the network to itself.

    Attributes:
        begins_s: Time from the start of a step until its traffic starts.
    """

    step_s: float
    begins_s: float = 0.0
    lasts_s: float = 0.0


class Speeds:
    """Computes job speeds with the flow engine."""

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
        """Speed of a pattern's first job, in millionths of its speed alone when packed on as few leafs as possible."""
        if pattern not in self._speeds:
            self._speeds[pattern] = self._simulated(pattern)
        return self._speeds[pattern]

    def alone(self, one: PatternJob) -> Alone:
        """Runs a job of a pattern without its neighbors."""
        return self._without_others(one, self.manner.paths)

    def ideal_s(self, one: PatternJob) -> float:
        """Step time of a job packed on as few leafs as possible, with connections on paths that do not collide."""
        return self._without_others(self.packed(one), True).step_s

    def _without_others(self, one: PatternJob, paths: bool) -> Alone:
        pattern = canonical([one])
        if (pattern, paths) not in self._alone:
            self._alone[pattern, paths] = self._by_itself(pattern, paths)
        return self._alone[pattern, paths]

    def packed(self, one: PatternJob) -> PatternJob:
        """The same job packed on as few leafs as possible."""
        sizes = sorted(map(len, self.leafs), reverse=True)
        leafs = [leaf for leaf, size in enumerate(sizes) for _ in range(size)]
        return PatternJob(one.work, one.each, tuple(leafs[: len(one.leafs)]))

    def turn(self, one: PatternJob) -> JobTurn:
        """A job's step as the jobs that share its links see it."""
        work, beat = self.classes[one.work], self.beat(one)
        beside_s = work.compute_s * work.overlap
        sent = sum(beat.share.values()) * beat.lasts_s / beat.period_s
        return JobTurn(work.compute_s - beside_s, beside_s, beat.lasts_s, len(one.leafs) * one.each, sent)

    def beat(self, one: PatternJob) -> TrafficBeat:
        """When in its step a job sends, and its share of its leafs' uplinks while sending."""
        alone = self.alone(one)
        sent = out_bytes(np.array(one.leafs), len(one.leafs) * one.each, self.classes[one.work].message_bytes)
        seconds = max(alone.lasts_s, 1e-12)
        capacity = self._uplinks_bps
        share = {leaf: size * 8 / seconds / capacity[min(leaf, len(capacity) - 1)] for leaf, size in sent.items()}
        return TrafficBeat(alone.step_s, alone.begins_s, alone.lasts_s, share)

    def step_s(self, pattern: Pattern) -> float:
        """Mean step time of a pattern's first job with all its neighbors."""
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
        """The cluster with the jobs, starting from job `turn`."""
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
    """Mean step time in seconds, without the first steps."""
    each = len(record) // steps
    ends = record.end_ps.reshape(steps, each).max(axis=1)
    return float(ends[-1] - ends[SKIPPED - 1]) / (steps - SKIPPED) * 1e-12
