"""Simulates requests at every place: the serving engine answers, links transfer, devices answer alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.edge import transport
from railyard.cluster.edge.transport import carried_s, transfer_s
from railyard.engine import rounds
from railyard.kit.quantities import format_memory
from railyard.work.serving.arrivals import LogNormal
from railyard.work.study.distributed import band, by_end, far_s, shared_of
from railyard.work.study.kind import kinds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster.edge.clients import Clients
    from railyard.cluster.edge.transport import ClientPaths
    from railyard.measure.result.section import Band
    from railyard.work.edge.prepare import NearUser, Place

    Floats = NDArray[np.float64]
    from railyard.measure.serving.latencies import Served
    from railyard.work.serving.measuring import MeasuredServing
    from railyard.work.study.tasks import Control


TOKEN_BYTES = 6.0
"""Bytes of a token's text, with its framing in a stream."""
PAGE_BYTES = 600.0
"""Headers of a request and of a response."""
NOON_S = 12 * 3600.0


@dataclass(frozen=True, eq=False)
class Questions:
    """Requests as sent and answered, one row each.

    Attributes:
        who: int64, the client.
        link: Index of its access link.
        region: Index of its region.
        up_bytes: float64, size of the request.
        down_bytes: float64, size of the response.
        ttft_s: float64, time of the place to the first token; inf if none came.
        e2e_s: float64, time to the last token.
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
    """Link times in addition to those of the place; float64[requests] each.

    Attributes:
        up_s: Time of the request on an unshared link.
        back_s: Time of a token back on an unshared link.
        answer_s: Link time of the whole response if sent at once.
        up_shared_s: Extra time of the request from sharing.
        first_shared_s: Extra time of the first token from sharing.
        last_shared_s: Extra time of the last token from sharing.
    """

    up_s: Floats
    back_s: Floats
    answer_s: Floats
    up_shared_s: Floats
    first_shared_s: Floats
    last_shared_s: Floats


def ways(job: NearUser, place: Place, asking: Questions) -> Ways:
    """Extra time from links for the requests that a place answers."""
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
    sent = transport.uniform(clients.seed, "sent", np.arange(count)) * count / job.section.requests.rate
    arrived = rounds.finish_s(sent, asking.up_bytes * 8.0, asking.up_bytes * 8.0 / up_bits, shared.up)
    up_shared = arrived - sent - up_bits
    begun = sent + up + up_shared + asking.ttft_s
    made_s = np.maximum(asking.e2e_s - asking.ttft_s, 0.0, where=np.isfinite(asking.e2e_s), out=none.copy())
    rest = np.where(made_s > 0, np.maximum(asking.down_bytes - first, 0.0), 0.0) * 8.0
    tree = replace(shared.down, first=np.tile(shared.down.first, 2))
    limit = np.concatenate([first * 8.0 / back_bits, rest / np.where(rest > 0, made_s, 1.0) + (rest <= 0)])
    ends = rounds.finish_s(np.tile(begun, 2), np.concatenate([np.full(count, first * 8.0), rest]), limit, tree)
    seen = np.isfinite(begun)
    late = [
        np.subtract(end - alone, begun, where=seen, out=none.copy())
        for end, alone in ((ends[:count], back_bits), (ends[count:], made_s))
    ]
    return Ways(up, back, answer, up_shared, late[0], np.maximum(*late))


def _paths(job: NearUser, place: Place, asking: Questions) -> ClientPaths:
    paths = job.clients.paths(asking.who, asking.link, asking.region, NOON_S)
    if place.section.distance is None:
        return paths
    known = np.array([region.far_s for region in job.clients.regions])[asking.region]
    return replace(paths, rtt_s=paths.rtt_s - known + far_s(place.section.distance))


def _clients(clients: Clients, place: Place) -> Clients:
    """The clients of a place; one with its own distance is on the client side of the backbones."""
    if place.section.distance is None:
        return clients
    return replace(clients, network=replace(clients.network, backbones=()))


DEVICE = "device"
DECODE_EFFICIENCY = 0.6
"""Share of a device's memory bandwidth reached when reading weights for a token; estimated."""
PROMPT_EFFICIENCY_OVER_TRAINING = 2.0
"""Prefill reaches about twice the share of the peak that training does on the same device; estimated."""


@dataclass(frozen=True, eq=False)
class Answers:
    """Requests as clients saw them; float64[requests] each.

    Attributes:
        place: Where they were answered; None: on the device.
        ttft_s: Time to the first token; inf if none came.
        e2e_s: Time to the last token.
        parts_s: Seconds by cause of `e2e_s`, for those that were answered.
        answered: bool[requests].
        who: int64[requests], the client.
        up_bytes: Mean bytes of a request from the device.
        radio_s: Mean seconds of link activity.
        device_j: Mean energy of the device's own computation, joules.
        link_w: Power of the link, mean over requests.
        measured: Serving results of one site; None on devices.
        why_not: Why no request was answered; None if some were.
    """

    place: Place | None
    name: str
    ttft_s: Floats
    e2e_s: Floats
    parts_s: dict[str, float]
    answered: NDArray[np.bool_]
    who: NDArray[np.int64]
    up_bytes: float
    down_bytes: float
    radio_s: float
    device_j: Band
    link_w: Band
    measured: MeasuredServing | None
    why_not: str | None


def simulate(job: NearUser, control: Control) -> tuple[Answers, ...]:
    """Runs every place, each as if it answered all requests."""
    found = []
    for number, place in enumerate(job.places):
        control.progress(f"requests at {place.name}", number / (len(job.places) + 1))
        found.append(_at_place(job, place, control))
    if job.section.on_device:
        found.append(_on_device(job))
    return tuple(found)


def _at_place(job: NearUser, place: Place, control: Control) -> Answers:
    if place.job is None:
        return _nothing(place, place.name, place.why_not or "it cannot serve the model")
    kind = kinds.get("serving")
    measured = kind.measure(kind.run(place.job, control))
    served: Served = measured.requests
    # One site was simulated: its requests represent those of all sites, whose clients are the same for every place.
    count = max(job.section.requests.count, len(served.arrival_s))
    row = np.arange(count) % len(served.arrival_s)
    who = _askers(job, count)
    links = job.clients.links_of(who)
    regions = job.clients.regions_of(who)
    up_bytes = np.asarray(job.section.requests.upload + served.input_tokens[row] * TOKEN_BYTES + PAGE_BYTES, float)
    down_bytes = np.asarray(served.output_tokens[row] * TOKEN_BYTES + PAGE_BYTES, float)
    asking = Questions(
        who=who,
        link=links,
        region=regions,
        up_bytes=up_bytes,
        down_bytes=down_bytes,
        ttft_s=served.ttft_s[row],
        e2e_s=served.e2e_s[row],
    )
    over = ways(job, place, asking)
    queue = served.queue_s[row]
    done = np.isfinite(asking.e2e_s)
    sent = over.up_s + over.up_shared_s
    ttft = np.where(done, sent + asking.ttft_s + over.back_s + over.first_shared_s, np.inf)
    e2e = np.where(done, sent + asking.e2e_s + over.back_s + over.last_shared_s, np.inf)
    names = {
        "to the place": over.up_s,
        "queue": queue,
        "prompt": asking.ttft_s - queue,
        "answer": asking.e2e_s - asking.ttft_s,
        "back": over.back_s,
    }
    if job.clients.network.shares:
        names |= {"shared links to the place": over.up_shared_s, "shared links back": over.last_shared_s}
    return Answers(
        place=place,
        name=place.name,
        ttft_s=ttft,
        e2e_s=e2e,
        parts_s={name: float(values[done].mean()) for name, values in names.items()} if done.any() else {},
        answered=done,
        who=who,
        up_bytes=float(asking.up_bytes.mean()),
        down_bytes=float(asking.down_bytes.mean()),
        radio_s=float((sent + over.answer_s + over.last_shared_s).mean()),
        device_j=band(0.0),
        link_w=_link_w(job, links),
        measured=measured,
        why_not=None if done.all() else f"{int((~done).sum()):,} of {count:,} requests were not answered",
    )


def _askers(job: NearUser, count: int) -> NDArray[np.int64]:
    """The client of each request, drawn with replacement."""
    who = np.floor(transport.uniform(job.clients.seed, "asks", np.arange(count)) * job.clients.count)
    return who.astype(np.int64)


def _link_w(job: NearUser, links: NDArray[np.intp]) -> Band:
    share = np.bincount(links, minlength=len(job.clients.links)) / max(len(links), 1)
    pairs = list(zip(share, job.clients.links, strict=True))
    return by_end(lambda end: float(sum(part * getattr(link.power_w, end) for part, (link, _) in pairs)))


def _nothing(place: Place | None, name: str, why_not: str) -> Answers:
    none = np.zeros(0)
    nobody, nothing = np.zeros(0, np.bool_), np.zeros(0, np.int64)
    return Answers(place, name, none, none, {}, nobody, nothing, 0.0, 0.0, 0.0, band(0.0), band(0.0), None, why_not)


def _on_device(job: NearUser) -> Answers:
    """Each device alone, one request at a time: prefill is bound by its FLOP/s, a token by reading the weights."""
    requests, clients = job.section.requests, job.clients
    weights = job.model.parameters() * job.section.device_bits / 8.0
    fits = np.array([device.memory_bytes >= weights for device, _ in clients.devices])
    if not fits.any():
        return _nothing(None, DEVICE, f"no device has the {format_memory(weights)} of the weights")
    count = requests.count
    who = _askers(job, count)
    devices = clients.devices_of(who)
    prompts, answers = _lengths(job, count)
    flops = clients.flops(who, devices) * PROMPT_EFFICIENCY_OVER_TRAINING
    bandwidth = np.array([device.memory_bps for device, _ in clients.devices])[devices] * DECODE_EFFICIENCY / 8.0
    prompt_s = prompts * 2.0 * job.model.active_parameters() / flops
    token_s = job.model.active_parameters() * job.section.device_bits / 8.0 / bandwidth
    done = fits[devices]
    ttft = np.where(done, prompt_s + token_s, np.inf)
    e2e = np.where(done, prompt_s + answers * token_s, np.inf)

    def joules(end: str) -> float:
        watts = np.array([getattr(device.power_w, end) for device, _ in clients.devices])[devices]
        return float((watts * e2e)[done].mean())

    return Answers(
        place=None,
        name=DEVICE,
        ttft_s=ttft,
        e2e_s=e2e,
        parts_s={
            "prompt": float((prompt_s + token_s)[done].mean()),
            "answer": float(((answers - 1) * token_s)[done].mean()),
        },
        answered=done,
        who=who,
        up_bytes=0.0,
        down_bytes=0.0,
        radio_s=0.0,
        device_j=by_end(joules),
        link_w=band(0.0),
        measured=None,
        why_not=None if done.all() else f"{100 * (1 - done.mean()):.1f} % of the devices lack memory for the weights",
    )


def _lengths(job: NearUser, count: int) -> tuple[Floats, Floats]:
    """Prompts and answers in tokens, log-normal by mean and 99th percentile as the serving study draws them."""
    requests, found = job.section.requests, []
    for stream, lengths in (("prompt", requests.input), ("reply", requests.output)):
        sigma = 0.0 if lengths.p99 is None else LogNormal(lengths.mean, lengths.p99).sigma
        score = transport.normal(job.clients.seed, stream, np.arange(count))
        found.append(np.maximum(np.rint(lengths.mean * np.exp(sigma * score - sigma * sigma / 2.0)), 1.0))
    return found[0], found[1]
