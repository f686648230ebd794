"""A job with some keys of its scenario changed."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from railyard.errors import InputError
from railyard.study import bounds, compose
from railyard.study.study import prepare

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railyard.study.training.prepare import Prepared
    from railyard.workload.training.spec import Layout

PARALLELISM = "workload.training.parallelism"
"""Key of the layout."""

_DOMAINS = "cluster.ranks_per_domain"
# What a scenario writes in another unit, or elsewhere.
_ELSEWHERE = frozenset({"global_batch", "bucket_bytes", "recompute_modules"})


def changed(job: Prepared, changes: Mapping[str, Any]) -> Prepared:
    """The job with other values under some keys of its scenario; a layout that was searched for stays as it is.

    Raises:
        InputError: The job does not divide, does not fit or cannot be built then.
    """
    fixed: dict[str, Any] = {PARALLELISM: written(job.training.layout)}
    if job.cluster.spec.ranks_per_domain is not None:
        fixed[_DOMAINS] = job.cluster.spec.ranks_per_domain
    text = ", ".join(f"{key} {value}" for key, value in changes.items())
    draft = job.variant.draft.with_values({**fixed, **changes}, text)
    other: Prepared = prepare(draft, engine=job.engine.name)[0]
    use = compose.domain_use_of(other.cluster, other.training.layout)
    if use is not None and other.cluster.spec.ranks_per_domain is None:
        raise InputError("tensor or expert groups would straddle scale-up domains", key="ranks_per_domain")
    bounds.check_step(other.training)
    # Deaths are sorted out already: the job is compared in the steps after them.
    return other if "faults" in changes else replace(other, faults=job.faults)


def of_layout(**changes: Any) -> dict[str, Any]:
    """Keys of the layout as keys of the scenario."""
    return {f"{PARALLELISM}.{name}": value for name, value in changes.items()}


def written(layout: Layout) -> dict[str, Any]:
    """A layout as a scenario writes it, so that another network does not search for one anew."""
    names = (field.name for field in dataclasses.fields(layout) if field.name not in _ELSEWHERE)
    keys = {name: getattr(layout, name) for name in names}
    bucket = {"bucket": f"{layout.bucket_bytes} B"} if layout.bucket_bytes else {}
    return {**keys, "recompute_modules": list(layout.recompute_modules), **bucket}
