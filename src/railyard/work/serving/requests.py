"""The requests of a scenario: a trace or drawn ones, cut and brought to the load that is asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.kit.errors import InputError
from railyard.work.scenario.load import blaming
from railyard.work.serving.summary import scaled

if TYPE_CHECKING:
    from railyard.graph.request_table import RequestTable
    from railyard.work.scenario.load import Draft
    from railyard.work.serving.arrivals import LengthLaw
    from railyard.work.serving.section import LengthsSection, RequestsSection, SyntheticSection


def requests_of(draft: Draft) -> RequestTable:
    """What a scenario asks, and when.

    Raises:
        InputError: The trace cannot be read (its own line is named), or the load cannot be reached.
    """
    workload = draft.scenario.workload
    kind = "serving" if workload.pipeline is None else "pipeline"
    section = (workload.pipeline or draft.scenario.serving).requests
    with blaming(draft, "workload", kind, "requests"):
        found = _drawn(section.synthetic, draft.scenario.seed) if section.synthetic else _read(draft, section)
        if section.first is not None:
            found = found.head(section.first)
        if len(found) < 1:
            raise InputError("there are no requests")
        if section.users:
            return _at_once(draft, found, section.users)
        rate = section.rate if section.rate is not None else section.load * found.rate_per_s
        return (
            found if rate == found.rate_per_s else scaled(found, rate=rate, how=section.scale, seed=draft.scenario.seed)
        )


def _at_once(draft: Draft, drawn: RequestTable, users: int) -> RequestTable:
    """Requests that wait for one of the users of a closed loop."""
    if draft.scenario.workload.pipeline is not None:
        raise InputError("a pipeline is asked at a rate", key="synthetic.users", found=users)
    if draft.scenario.serving.capacity is not None:
        raise InputError(
            "a capacity is a rate, and users ask when they are answered",
            key="synthetic.users",
            found=users,
            hint="vary `users` instead",
        )
    return replace(drawn, arrival_ps=np.zeros_like(drawn.arrival_ps), source=f"synthetic, {users} users")


def _read(draft: Draft, section: RequestsSection) -> RequestTable:
    from railyard.work.serving.traces import read_trace

    path = draft.folder / str(section.trace)
    if not path.is_file():
        raise InputError("there is no such trace file", key="trace", found=section.trace)
    return read_trace(path, section.format, sort=section.sort, empty="drop" if section.drop_empty else "refuse")


def _drawn(section: SyntheticSection, seed: int) -> RequestTable:
    from railyard.work.serving.generate import Sessions, synthetic

    talks = section.turns > 1 or section.system > 0
    process: dict[str, Any] = {} if section.cv is None else {"cv": section.cv}
    with_sessions = Sessions(
        turns=section.turns,
        think_s=30.0 if section.think is None else section.think,
        system_tokens=section.system,
        system_prompts=section.system_prompts,
    )
    return synthetic(
        section.count,
        rate_per_s=section.rate or 1.0,
        kind=section.arrivals,
        input_tokens=_lengths(section.input),
        output_tokens=_lengths(section.output),
        sessions=with_sessions if talks else None,
        seed=seed,
        **process,
    )


def _lengths(section: LengthsSection) -> LengthLaw | int:
    from railyard.work.serving.arrivals import LogNormal

    return max(round(section.mean), 1) if section.p99 is None else LogNormal(section.mean, section.p99)
