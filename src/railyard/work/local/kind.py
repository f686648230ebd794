"""Training on sites or volunteers that step alone and synchronize now and then."""

from __future__ import annotations

from railyard.work.local.measuring import measure
from railyard.work.local.prepare import prepare
from railyard.work.local.sync import sync_times
from railyard.work.study.distributed import distributed_kind
from railyard.work.study.kind import kinds

LOCAL = kinds.add(
    "local",
    distributed_kind(
        "local",
        "closed form",
        prepare=prepare,
        run=lambda job, _control: sync_times(job),
        measure=measure,
    ),
)
