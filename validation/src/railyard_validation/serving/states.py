"""What a measured row's deployment does under its load: by the serving engine, and by the closed form beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.work.serving.closed_loop import arrival_s
from railyard_validation.serving.model import steady
from railyard_validation.serving.queue import runs, served

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.serving.software import ServingSoftwareColumns
    from railyard_validation.serving.cases import Case
    from railyard_validation.serving.model import Table
    from railyard_validation.serving.queue import Queued

    F = NDArray[np.float64]


@dataclass(frozen=True)
class States:
    """One row a case.

    Attributes:
        tpot_s, ttft_s: Seconds a token, and to the first one.
        rate_per_s: Requests served by the whole deployment.
        batch: Sequences of a replica that decode.
        busy: Share of the time in which a replica computes.
    """

    tpot_s: F
    ttft_s: F
    rate_per_s: F
    batch: F
    busy: F


def planned_states(whole: Table, software: ServingSoftwareColumns) -> States:
    """By the closed form."""
    found = {name: np.full(len(whole.cases), np.nan) for name in States.__dataclass_fields__}
    for kind, (index, state) in steady(whole, software).items():
        replicas = np.ones(len(index)) if kind == "split" else whole.workers[index]
        steps = np.maximum(whole.output[index] - 1.0, 1.0)
        found["tpot_s"][index] = state.tpot_s
        found["ttft_s"][index] = state.ttft_s
        found["rate_per_s"][index] = state.rate_per_s * replicas
        found["batch"][index] = state.batch
        found["busy"][index] = -np.expm1(-state.rate_per_s * steps * state.tpot_s) if kind == "open" else 1.0
    return States(**found)


def run_states(whole: Table, software: ServingSoftwareColumns, planned: States) -> States:
    """By the engine where the row's load says what is sent when; `planned` elsewhere."""
    queued = served(whole, software, np.flatnonzero([runs(case) for case in whole.cases]))
    found = {
        "tpot_s": queued.tpot_s,
        "ttft_s": first_token_s(whole, software, queued),
        "rate_per_s": queued.rate_per_s,
        "batch": queued.batch,
        "busy": queued.busy,
    }
    return States(**{name: np.where(np.isfinite(own), own, getattr(planned, name)) for name, own in found.items()})


def first_token_s(whole: Table, software: ServingSoftwareColumns, queued: Queued) -> F:
    """Seconds to the first token: the engine's, what holds a request back before, and its arrival."""
    means = np.array([mean_is_told(case) for case in whole.cases])
    waited = np.where(means, queued.ttft_mean_s, queued.ttft_median_s)
    seconds: F = waited + queued.held * queued.iteration_s + arrival_s(software, whole.prompt)
    return seconds


def mean_is_told(case: Case) -> bool:
    """Whether a row's time to the first token is the mean of its run.

    The silicon samples' label says median, yet their times grow with the users as a mean does: by the half of a tenth
    of what the prompts of all users take, which is the first of ten waves. A median does not see that wave.
    """
    told = case.row.get("ttft_stat")
    return "mean" in told or "InferenceX db" in told
