"""Prepares inference near the user: the population, and a serving scenario for every place."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.cluster.edge.transport import transports
from railyard.kit.errors import InputError
from railyard.work.scenario import load
from railyard.work.scenario.load import blaming
from railyard.work.scenario.section import model_file
from railyard.work.study import compose
from railyard.work.study.distributed import HOUR_S, clients_of, preparing
from railyard.work.study.kind import kinds

if TYPE_CHECKING:
    from railyard.catalog import Catalog, Model
    from railyard.catalog.types import Accelerator, Server
    from railyard.cluster.edge.clients import Clients
    from railyard.cluster.edge.transport import WideAreaTransport
    from railyard.work.edge.section import EdgeSection, PlaceSection
    from railyard.work.scenario.load import Draft, Variant
    from railyard.work.serving.prepare import ServingJob
    from railyard.work.study.provenance import Memo

PLACE = ("workload", "edge")


@dataclass(frozen=True, eq=False)
class Place:
    """A place that can answer requests.

    Attributes:
        job: The serving job of one site, with its share of the load; None if the model does not fit.
        why_not: Why there is none.
    """

    name: str
    section: PlaceSection
    sites: int
    server: Server
    accelerator: Accelerator
    job: ServingJob | None
    why_not: str | None


@dataclass(frozen=True, eq=False)
class NearUser:
    """One variant, ready to run.

    Attributes:
        variant: Its name, settings and scenario.
        catalog: Catalog of servers, devices, links and prices.
        places: The places, and each place of several sites with one site down.
    """

    variant: Variant
    section: EdgeSection
    catalog: Catalog
    model: Model
    clients: Clients
    transport: WideAreaTransport
    places: tuple[Place, ...]


def _near(variant: Variant, catalog: Catalog, _memo: Memo) -> NearUser:
    draft = variant.draft
    section = draft.scenario.edge
    with blaming(draft, *PLACE):
        model = compose.model_of(draft.folder, section.model, catalog)
    clients = clients_of(draft, section.clients, catalog, draft.scenario.seed, *PLACE, "clients")
    if max(clients.share_there(hour * HOUR_S) for hour in range(24)) * clients.count < 1.0:
        error = InputError("no client is present at any hour", key="clients.count", found=clients.count)
        raise draft.blame(error, *PLACE)
    places = []
    for number, place in enumerate(section.places):
        places.append(_place(draft, number, catalog, place.sites, place.name))
        if section.failover and place.sites > 1:
            places.append(_place(draft, number, catalog, place.sites - 1, f"{place.name}, one site down"))
    return NearUser(variant, section, catalog, model, clients, transports.get(section.transport), tuple(places))


def _place(draft: Draft, number: int, catalog: Catalog, sites: int, name: str) -> Place:
    section = draft.scenario.edge
    place = section.places[number]
    with blaming(draft, *PLACE, "places", str(number)):
        server = catalog.server(place.server)
        accelerator = catalog.accelerator(server.accelerator)
    job, why_not = None, None
    try:
        job = _serving(draft, section, place, sites)
    except InputError as error:
        why_not = error.problems[0].message
    return Place(name, place, sites, server, accelerator, job, why_not)


def _serving(draft: Draft, section: EdgeSection, place: PlaceSection, sites: int) -> ServingJob:
    """The serving scenario of one site, with its share of the load.

    Raises:
        InputError: The site cannot serve the model.
    """
    asked = section.requests
    count = max(math.ceil(asked.count / sites), 200)
    file = model_file(draft.folder, section.model)
    values = {
        "name": f"serving at {place.name}",
        "seed": draft.scenario.seed,
        "cluster": {"accelerators": place.replicas * place.tp, "server": place.server},
        "workload": {
            "serving": {
                "model": section.model if file is None else str(file),
                "precision": section.precision,
                "requests": {
                    "synthetic": {
                        "rate": asked.rate / sites,
                        "input": _cut(asked.input.model_dump(exclude_none=True), place.cached),
                        "output": asked.output.model_dump(exclude_none=True),
                        "count": count,
                    }
                },
                "pools": {"both": {"replicas": place.replicas, "tp": place.tp}},
            }
        },
    }
    if draft.scenario.catalog is not None:
        values["catalog"] = draft.scenario.catalog
    made = load.from_values(values, None)
    alone = load.Draft(made.scenario, made.tree, draft.folder)
    kind = kinds.get("serving")
    job: ServingJob = kind.prepare(kind.expand(alone, ())[0], None)[0]
    return job


def _cut(lengths: dict[str, float], cached: float) -> dict[str, float]:
    """Prompts without the share already in a site's KV cache; at least one token is computed."""
    return {name: max(value * (1.0 - cached), 1.0) for name, value in lengths.items()}


prepare = preparing(_near)
"""Prepares all variants of a scenario; InputError with the place in the scenario if one cannot be run."""
