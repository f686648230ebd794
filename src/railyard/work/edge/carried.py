"""What links add to requests and answers: each by itself, and shared with all others that are under way."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.edge import draws
from railyard.cluster.edge.transport import carried_s, transfer_s
from railyard.engine.rounds import sharing
from railyard.work.study.shared import shared_of
from railyard.work.study.wide import far_s

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster.edge.access import Paths
    from railyard.cluster.edge.clients import Clients
    from railyard.work.edge.prepare import NearUser, Place

    Floats = NDArray[np.float64]

TOKEN_BYTES = 6.0
"""Text of a token, with what frames it in a stream."""
PAGE_BYTES = 600.0
"""Headers of a request and of an answer."""
NOON_S = 12 * 3600.0


@dataclass(frozen=True, eq=False)
class Questions:
    """Requests as they are sent and answered; a row each.

    Attributes:
        who: int64, the client that asks.
        link: Index of its access link.
        region: Index of its region.
        up_bytes: float64, of the request.
        down_bytes: float64, of the answer.
        ttft_s: float64, that the place takes to the first token; inf where none came.
        e2e_s: float64, to the last one.
    """

    who: NDArray[np.int64]
    link: NDArray[np.intp]
    region: NDArray[np.intp]
    up_bytes: Floats
    down_bytes: Floats
    ttft_s: Floats
    e2e_s: Floats


@dataclass(frozen=True, eq=False)
class Ways:
    """Seconds on links, over those of the place; float64[requests] each.

    Attributes:
        up_s: Of the request, its link to itself.
        back_s: Of a token back, its link to itself.
        answer_s: That the link carries the answer, if it came at once.
        up_shared_s: What sharing adds to the request.
        first_shared_s: What sharing adds to the first token.
        last_shared_s: What sharing adds to the last one.
    """

    up_s: Floats
    back_s: Floats
    answer_s: Floats
    up_shared_s: Floats
    first_shared_s: Floats
    last_shared_s: Floats


def ways(job: NearUser, place: Place, asking: Questions) -> Ways:
    """What links add to the requests that a place answers."""
    paths = _paths(job, place, asking)
    up, up_bits = carried_s(job.transport, asking.up_bytes, paths.up_bps, paths.rtt_s, paths.loss)
    first = TOKEN_BYTES + PAGE_BYTES
    back, back_bits = carried_s(job.transport, first, paths.down_bps, paths.rtt_s, paths.loss)
    answer = transfer_s(job.transport, asking.down_bytes, paths.down_bps, paths.rtt_s, paths.loss)
    clients, none = _clients(job.clients, place), np.zeros(len(asking.who))
    if not clients.network.shares:
        return Ways(up, back, answer, none, none, none)
    shared = shared_of(clients, asking, np.inf)
    count = len(asking.who)
    sent = draws.uniform(clients.seed, "sent", np.arange(count)) * count / job.section.requests.rate
    arrived = sharing.finish_s(sent, asking.up_bytes * 8.0, asking.up_bytes * 8.0 / up_bits, shared.up)
    up_shared = arrived - sent - up_bits
    begun = sent + up + up_shared + asking.ttft_s
    made_s = np.maximum(asking.e2e_s - asking.ttft_s, 0.0, where=np.isfinite(asking.e2e_s), out=none.copy())
    rest = np.where(made_s > 0, np.maximum(asking.down_bytes - first, 0.0), 0.0) * 8.0
    tree = replace(shared.down, first=np.tile(shared.down.first, 2))
    limit = np.concatenate([first * 8.0 / back_bits, rest / np.where(rest > 0, made_s, 1.0) + (rest <= 0)])
    ends = sharing.finish_s(np.tile(begun, 2), np.concatenate([np.full(count, first * 8.0), rest]), limit, tree)
    seen = np.isfinite(begun)
    late = [
        np.subtract(end - alone, begun, where=seen, out=none.copy())
        for end, alone in ((ends[:count], back_bits), (ends[count:], made_s))
    ]
    return Ways(up, back, answer, up_shared, late[0], np.maximum(*late))


def _paths(job: NearUser, place: Place, asking: Questions) -> Paths:
    paths = job.clients.paths(asking.who, asking.link, asking.region, NOON_S)
    if place.section.distance is None:
        return paths
    known = np.array([region.far_s for region in job.clients.regions])[asking.region]
    return replace(paths, rtt_s=paths.rtt_s - known + far_s(place.section.distance))


def _clients(clients: Clients, place: Place) -> Clients:
    """A place with a distance of its own stands on this side of the backbones."""
    if place.section.distance is None:
        return clients
    return replace(clients, network=replace(clients.network, backbones=()))
