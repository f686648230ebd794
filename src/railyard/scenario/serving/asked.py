"""The requests of a scenario: a trace or drawn ones, cut and brought to the load that is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.errors import InputError
from railyard.scenario.compose import blaming

if TYPE_CHECKING:
    from railyard.scenario.load import Draft
    from railyard.scenario.serving.section import RequestsSection, SyntheticSection
    from railyard.workload.serving.requests import Requests

_REQUESTS = ("workload", "serving", "requests")


def requests_of(draft: Draft) -> Requests:
    """What is asked, and when.

    Raises:
        InputError: The trace cannot be read (its own line is named), or the load cannot be reached.
    """
    section = draft.scenario.serving.requests
    with blaming(draft, *_REQUESTS):
        found = _drawn(section.synthetic, draft.scenario.seed) if section.synthetic else _read(draft, section)
        if section.first is not None:
            found = found.head(section.first)
        if len(found) < 1:
            raise InputError("there are no requests")
        rate = section.rate if section.rate is not None else section.load * found.rate_per_s
        return (
            found if rate == found.rate_per_s else found.scaled(rate=rate, how=section.scale, seed=draft.scenario.seed)
        )


def _read(draft: Draft, section: RequestsSection) -> Requests:
    from railyard.workload.serving.traces import read_trace

    path = draft.folder / str(section.trace)
    if not path.is_file():
        raise InputError("there is no such trace file", key="trace", found=section.trace)
    return read_trace(path, section.format)


def _drawn(section: SyntheticSection | None, seed: int) -> Requests:

    raise NotImplementedError
