"""The layout that the closed form finds fastest on the job's network, where the scenario wrote another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.kit.errors import InputError
from railyard.model.machine import Machine
from railyard.work.remedies import Proposals, Remedy, proposals
from railyard.work.remedies.changed import PARALLELISM
from railyard.work.study import compose
from railyard.work.training.fastest import closed_s
from railyard.work.training.layout import candidates
from railyard.work.training.spec import Layout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.work.remedies import Waits
    from railyard.work.training.prepare import Prepared
    from railyard.work.training.spec import Training

WORTH = 0.02
"""Share by which the closed form must be faster."""


def propose(job: Prepared, waits: Waits) -> Iterator[Remedy]:
    """One other layout, if one may be worth a simulation."""
    del waits
    if job.layouts or job.training.communication is not None:
        return
    found = _fastest(job)
    if found is not None:
        changes = {PARALLELISM: found.layout.parallelism()}
        yield Remedy(f"layout {found.layout}", "layout", "exposed communication", changes)


def _fastest(job: Prepared) -> Training | None:
    plain = job.training.replace(layout=Layout(global_batch=job.training.layout.global_batch))
    try:
        fit = candidates(plain, Machine.of(job.cluster), job.cluster.ranks, fixed={})
    except InputError:
        return None
    # One that wants the domains used otherwise is another cluster.
    found = [one for one in fit if compose.domain_use_of(job.cluster, one.layout) is None]
    if not found:
        return None
    steps = closed_s([*found, job.training], job.cluster)
    best = int(np.argmin(steps[:-1]))
    return found[best] if steps[best] < (1 - WORTH) * steps[-1] else None


proposals.add("other layout", Proposals("other layout", propose, in_run=True))
