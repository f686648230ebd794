"""A job with one thing changed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from railyard.errors import InputError
from railyard.study import bounds, compose
from railyard.study.study import prepare
from railyard.workload.training.layout import check, check_fit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from railyard.study.training.prepare import Prepared
    from railyard.workload.training.spec import Layout, Training

_PARALLELISM = "workload.training.parallelism"
_SIZES = ("tp", "pp", "dp", "cp", "ep", "expert_tp", "vp", "zero", "micro_batch", "fsdp_shard")
_WAYS = ("schedule", "recompute", "recompute_share", "recompute_by_operator", "sequence_parallel", "reshard")


def retrained(job: Prepared, training: Training) -> Prepared:
    """The job with another training, if it divides and fits.

    Raises:
        InputError: It does not.
    """
    check(training.model, training.layout, training.seq_len, job.cluster.ranks)
    bounds.check_step(training)
    check_fit(training, job.cluster.accelerator)
    return replace(job, training=training)


def with_layout(job: Prepared, **changes: Any) -> Callable[[], Prepared]:
    """The job with some keys of its layout changed."""
    return lambda: retrained(job, job.training.replace(layout=job.training.layout.replace(**changes)))


def rebuilt(job: Prepared, changes: Mapping[str, Any]) -> Callable[[], Prepared]:
    """The job with some keys of its scenario changed; what it computes, and how it is laid out, stays."""

    def apply() -> Prepared:
        layout = {_PARALLELISM: written(job.training.layout)}
        text = ", ".join(f"{key} {value}" for key, value in changes.items())
        draft = job.variant.draft.with_values({**changes, **layout}, text)
        other: Prepared = prepare(draft, engine=job.engine.name)[0]
        use = compose.domain_use_of(other.cluster, job.training.layout)
        if use is not None and other.cluster.spec.ranks_per_domain is None:
            raise InputError("tensor or expert groups would straddle scale-up domains", key="ranks_per_domain")
        return replace(other, training=job.training, faults=job.faults, jitter=job.jitter)

    return apply


def written(layout: Layout) -> dict[str, Any]:
    """A layout that was found, as a scenario writes it: another network does not search anew."""
    return {name: getattr(layout, name) for name in (*_SIZES, *_WAYS)}
