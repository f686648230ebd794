"""Prepares rounds on clients; all input errors are raised here."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.edge.transport import transports
from railyard.kit.errors import InputError
from railyard.kit.quantities import format_memory
from railyard.model.architecture import model_flops_per_token
from railyard.work.federated.algorithm import algorithms, selections
from railyard.work.federated.known import drawn, expected_s
from railyard.work.federated.messages import LearnedModel, Learning, Scheme, curve, messages
from railyard.work.federated.updates import compressions, secrecies
from railyard.work.scenario.load import blaming
from railyard.work.study import compose
from railyard.work.study.distributed import HOUR_S, clients_of, preparing, record_of

if TYPE_CHECKING:
    from railyard.catalog import Catalog
    from railyard.work.federated.section import FederatedSection
    from railyard.work.scenario.load import Draft, Variant
    from railyard.work.study.provenance import Memo

PLACE = ("workload", "federated")
_TRIED = 4096
"""Clients drawn to check whether a deadline can be met."""
_STAY = 1e-3
"""Share of the clients of which at least one must stay until its update arrives."""


def _learning(variant: Variant, catalog: Catalog, _memo: Memo) -> Learning:
    draft = variant.draft
    section = draft.scenario.federated
    clients = clients_of(draft, section.clients, catalog, draft.scenario.seed, *PLACE, "clients")
    scheme = _scheme(draft, section)
    model = _model(draft, section, catalog)
    with blaming(draft, *PLACE):
        row = None if section.reach is None else curve(section.reach)
    selection = record_of(draft, selections, section.round.selection, *PLACE, "round", "selection")
    found = Learning(
        variant=variant,
        section=section,
        catalog=catalog,
        clients=clients,
        model=model,
        scheme=scheme,
        sent=messages(model, scheme, section.round.participants),
        selection=selection,
        transport=transports.get(section.transport),
        curve=row,
    )
    able = tuple(device.memory_bytes >= found.sent.state_bytes for device, _ in clients.devices)
    found = replace(found, clients=replace(clients, able=able))
    with blaming(draft, *PLACE):
        _possible(found)
        _in_time(found)
    return found


def _scheme(draft: Draft, section: FederatedSection) -> Scheme:
    return Scheme(
        algorithm=record_of(draft, algorithms, section.algorithm, *PLACE, "algorithm"),
        compression=record_of(draft, compressions, section.compression, *PLACE, "compression"),
        secrecy=record_of(draft, secrecies, section.secrecy, *PLACE, "secrecy"),
        privacy=section.privacy,
    )


def _model(draft: Draft, section: FederatedSection, catalog: Catalog) -> LearnedModel:
    if not isinstance(section.model, str):
        return LearnedModel(section.model.parameters, section.model.flop_per_sample, section.bits)
    with blaming(draft, *PLACE):
        known = compose.model_of(draft.folder, section.model, catalog)
    sequence = section.sequence or 1
    flop = model_flops_per_token(known, sequence) * sequence
    return LearnedModel(float(known.parameters()), flop, section.bits)


def _possible(found: Learning) -> None:
    """Checks conditions that no population of clients could meet.

    Raises:
        InputError: Too few clients exist, are able, or are ever available.
    """
    clients, count = found.clients, found.clients.count
    if found.selected > count:
        raise InputError(
            f"a round selects {found.selected:,} clients, of {count:,}",
            key="round.participants",
            found=f"{found.goal:,}, over-selection {found.section.round.over_selection:g}",
            allowed=f"at most {count:,} with over-selection",
        )
    if clients.able_share <= 0:
        need = found.sent.state_bytes
        most = max(device.memory_bytes for device, _ in clients.devices)
        raise InputError(
            f"no device has the {format_memory(need)} that parameters, gradients and momentum take",
            key="clients.devices",
            found=f"at most {format_memory(most)}",
            hint="a smaller model, `split`, or larger devices",
        )
    crest = max(clients.share_there(hour * HOUR_S / 4.0) for hour in range(96)) * count
    if crest < found.least:
        raise InputError(
            f"a round needs {found.least:,} updates, and {crest:,.0f} clients are there at the best hour",
            key="round.participants",
            found=f"{found.goal:,}, at least {found.section.round.least:g} of them",
            hint="more clients, `available.most`, or fewer participants",
        )
    if found.sent.crossing_bytes and clients.network.shares:
        raise InputError(
            f"shared links are not modelled for `{found.scheme.algorithm.kind}`, whose batches cross one by one",
            key="clients.network",
            hint="leave `network` and `backbone` out, or take an algorithm that sends updates",
        )
    concurrency = found.section.round.concurrency
    if concurrency is not None and concurrency > crest:
        raise InputError(
            f"{concurrency:,} clients at work are more than the {crest:,.0f} that are there at the best hour",
            key="round.concurrency",
            found=concurrency,
            allowed=f"at most {np.floor(crest):,.0f}",
        )


def _in_time(found: Learning) -> None:
    """Rejects a deadline, or sessions, that end before any client can finish.

    Raises:
        InputError: None of many drawn clients is fast enough alone.
    """
    deadline, session_s = found.section.round.deadline, found.clients.presence.session_s
    if deadline is None and math.isinf(session_s):
        return
    crest = max(range(24), key=lambda hour: found.clients.share_there(hour * HOUR_S)) * HOUR_S
    who = found.clients.draw(min(_TRIED, found.clients.count), crest, 0)
    if not len(who):
        return
    took = expected_s(found, drawn(found, found.clients, who, crest))
    least = float(took.min())
    if float(np.exp(-took / session_s).mean()) < _STAY:
        raise InputError(
            f"no client of {1 / _STAY:,.0f} stays until it finishes: the fastest takes {least:.3g} s by itself",
            key="clients.available.session",
            found=f"{session_s:.3g} s on average",
        )
    if deadline is not None and least > deadline:
        raise InputError(
            f"the deadline ends before any client finishes: the fastest of {len(who):,} takes {least:.3g} s by itself",
            key="round.deadline",
            found=f"{deadline:.3g} s",
            allowed=f"more than {least:.3g} s",
        )


prepare = preparing(_learning)
"""Prepares all variants of a scenario; InputError with the place in the scenario if one cannot be run."""
