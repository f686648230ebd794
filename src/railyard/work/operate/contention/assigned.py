"""Which class of work each job is of: as its trace says, else drawn by the seed and the classes' shares."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.hashing import mix
from railyard.kit.errors import InputError, did_you_mean
from railyard.model.flops import model_flops_per_token
from railyard.work.operate.contention.work import WorkClass
from railyard.work.scenario.load import blaming
from railyard.work.study import compose

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from railyard.cluster import Cluster
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

    Args:
        jobs: All of them.
        sections: Classes of work that share the network.
        seed: Of draws.
        serving: Names of classes that answer requests.

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
