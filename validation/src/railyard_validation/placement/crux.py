"""The testbed of Crux (SIGCOMM 2024): jobs that share the links between leafs, with and without chosen paths.

Published: 12 hosts of eight A100 with four NICs of 200 Gb/s on a two-layer Clos network; which jobs stood together on
how many GPUs, one host in two under each of two leafs (figures 7, 19, 20); GPT's step of 1.53 s. Assumed: one queue
pair a connection, as NCCL opens by default, the steps of BERT and ResNet, what share of a step traffic takes, half of
it under computation, and how many uplinks there are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.engine.background import CLASSES
from railyard.engine.probing import steered
from railyard.graph import Job
from railyard.work.operate.contention import intensity
from railyard.work.operate.contention.pattern import PatternJob, WorkClass
from railyard.work.operate.contention.speeds import Manner, Speeds
from railyard.work.operate.tree import NodeTree
from railyard_validation.placement.effects import cluster_of, steps_s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.work.operate.contention.intensity import JobTurn

STEP_S = {"gpt": 1.53, "bert": 0.35, "resnet": 0.2}
BESIDE = 0.5
"""Share of the traffic beside which a job computes."""
NIC_BPS = 200e9
LEFT = 6
"""Hosts of the first leaf."""
WAYS = ("hashed", "priorities", "paths", "both")


@dataclass(frozen=True)
class Placed:
    """A job of the testbed.

    Attributes:
        kind: `gpt`, `bert` or `resnet`.
        each: GPUs of each host.
        hosts: Which; those under one leaf behind one another.
    """

    kind: str
    each: int
    hosts: tuple[int, ...]


_GPT, _BERT = Placed("gpt", 8, (0, 1, 6, 7)), [Placed("bert", 4, (host, host + LEFT)) for host in (2, 3, 4)]
SETTINGS = {
    "GPT 32, BERT 8 (figure 19)": (_GPT, *_BERT[:1]),
    "GPT 32, BERT 8, 8": (_GPT, *_BERT[:2]),
    "GPT 32, BERT 8, 8, 8": (_GPT, *_BERT),
    "GPT 48, BERT 16, 16, ResNet 8, 8 (figure 20)": (
        Placed("gpt", 8, (0, 1, 2, 6, 7, 8)),
        Placed("bert", 8, (3, 9)),
        Placed("bert", 8, (4, 10)),
        Placed("resnet", 4, (5, 11)),
        Placed("resnet", 4, (5, 11)),
    ),
}
"""Figure 19 does not say how many BERT stand beside GPT, nor on which hosts."""


def _works(jobs: Sequence[Placed], share: float) -> list[WorkClass]:
    found = []
    for one in jobs:
        step_s, ranks = STEP_S[one.kind], one.each * len(one.hosts)
        sends_s = share * step_s
        compute_s = step_s - sends_s * (1 - BESIDE)
        size = sends_s * one.each / 2 * NIC_BPS / 8 / (2 * (ranks - 1) / ranks)
        found.append(WorkClass(one.kind, compute_s, round(size), BESIDE * sends_s / compute_s))
    return found


def _places(jobs: Sequence[Placed]) -> list[NDArray[np.int32]]:
    """GPUs of each job: a second one on a host gets those behind the first."""
    used = np.zeros(2 * LEFT, np.int64)
    found = []
    for one in jobs:
        hosts = np.array(one.hosts)
        found.append((hosts[:, None] * 8 + used[hosts][:, None] + np.arange(one.each)).ravel().astype(np.int32))
        used[hosts] += one.each
    return found


def played(jobs: Sequence[Placed], share: float, oversubscription: str, seed: int) -> dict[str, NDArray[np.float64]]:
    """Utilization, then each job's step, under four ways of sharing links.

    Args:
        jobs: Who runs.
        share: Of each job's step, its traffic alone.
        oversubscription: Of the leafs.
        seed: Of the switches' hashes and of the phases.
    """
    cluster = cluster_of(96, "hgx-a100-4xhdr", 4 * LEFT, oversubscription, "roce-untuned")
    cluster = cluster.with_networks(lambda network: replace(network, seed=seed))
    works, places = _works(jobs, share), _places(jobs)
    leaf = NodeTree.of(cluster).group[-1]
    speeds = Speeds(cluster, NodeTree.of(cluster).members[-1], works, Manner(paths=True))
    turns = [
        speeds.turn(PatternJob(at, one.each, tuple(leaf[list(one.hosts)].tolist()))) for at, one in enumerate(jobs)
    ]
    ranked = intensity.classes(
        intensity.priorities(turns), [one.intensity for one in turns], lambda _one, _other: True, CLASSES
    )
    phase = np.random.default_rng([11, seed]).random(len(jobs))
    gpus = np.array([len(place) for place in places])
    compute_s = np.array([work.compute_s for work in works])
    found = {}
    for way in WAYS:
        classes = ranked if way in ("priorities", "both") else [0] * len(jobs)
        single = [
            Job(work.steps(len(place), 1), place, round(at * turn.step_s * 1e12), priority=one)
            for work, place, at, turn, one in zip(works, places, phase, turns, classes, strict=True)
        ]
        machine = _machine(cluster, single, turns) if way in ("paths", "both") else cluster
        took = steps_s(machine, single, works, [one.step_s for one in turns], steps=20)
        found[way] = np.append((gpus * compute_s / took).sum() / gpus.sum(), took)
    return found


def _machine(cluster: Cluster, jobs: Sequence[Job], turns: Sequence[JobTurn]) -> Cluster:
    order = sorted(range(len(jobs)), key=lambda one: -turns[one].intensity)
    return steered(jobs, cluster, order, [one.sends_s / one.step_s for one in turns])


def crux(
    draws: int, share: float, oversubscription: str = "1:1", settings: Sequence[str] = tuple(SETTINGS)
) -> dict[str, dict[str, NDArray[np.float64]]]:
    """Gains over hashed paths of which none goes first, a mean over draws: of utilization, then of each job's step.

    Returns:
        For each setting by way: `hashed` is the utilization and the steps themselves.
    """
    found = {}
    for name in settings:
        runs = [played(SETTINGS[name], share, oversubscription, seed) for seed in range(draws)]
        mean = {way: np.mean([one[way] for one in runs], axis=0) for way in WAYS}
        found[name] = {"hashed": mean["hashed"], **{way: mean[way] / mean["hashed"] - 1 for way in WAYS[1:]}}
    return found
