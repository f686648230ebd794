"""A job with some keys of its scenario changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.kit.errors import InputError
from railyard.work.study import compose
from railyard.work.study.study import prepare

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railyard.work.training.prepare import Prepared

PARALLELISM = "workload.training.parallelism"
"""Key of the layout."""

_DOMAINS = "cluster.ranks_per_domain"


def changed(job: Prepared, changes: Mapping[str, Any]) -> Prepared:
    """The job with other values under some keys of its scenario; a layout that was searched for stays as it is.

    Its faults are those of the scenario, not sorted by effect.

    Raises:
        InputError: The job does not divide, does not fit or cannot be built then.
    """
    fixed: dict[str, Any] = {PARALLELISM: job.training.layout.parallelism()}
    if job.cluster.spec.ranks_per_domain is not None:
        fixed[_DOMAINS] = job.cluster.spec.ranks_per_domain
    text = ", ".join(f"{key} {value}" for key, value in changes.items())
    draft = job.variant.draft.with_values({**fixed, **changes}, text)
    other: Prepared = prepare(draft, engine=job.engine.name)[0]
    use = compose.domain_use_of(other.cluster, other.training.layout)
    if use is not None and other.cluster.spec.ranks_per_domain is None:
        raise InputError("tensor or expert groups would straddle scale-up domains", key="ranks_per_domain")
    compose.check_step(other.training)
    return other


def of_layout(**changes: Any) -> dict[str, Any]:
    """Keys of the layout as keys of the scenario."""
    return {f"{PARALLELISM}.{name}": value for name, value in changes.items()}
