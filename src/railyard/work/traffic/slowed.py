"""Which flow others slow most inside the network, though its hosts send and receive nothing else, and by what."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from railyard.graph import Record
    from railyard.work.traffic.played import PacketRun

SLOWED = 1.5
"""Times as long as without other flows, from which on a flow is worth a sentence."""

_PS_PER_US = 1e6


def slowed_sentence(played: PacketRun) -> str | None:
    """The flow that loses most time to others between its hosts, and what it shares with them; None where none is.

    It is sent once more while all others have a byte only, and so keep their numbers and their hashed paths.
    """
    row = _slowest(played)
    if row is None:
        return None
    first, traffic = played.first, played.traffic
    size = np.where(np.arange(len(traffic)) == row, traffic.size_bytes, np.minimum(traffic.size_bytes, 1))
    quiet = played.simulate(replace(traffic, size_bytes=size), played.settings)
    took_ps, alone_ps = int(first.duration_ps[row]), int(quiet.duration_ps[row])
    if not quiet.ended[row] or took_ps < SLOWED * alone_ps:
        return None
    return (
        f"h{traffic.source[row]}->h{traffic.target[row]} took {took_ps / _PS_PER_US:,.2f} us,"
        f" {alone_ps / _PS_PER_US:,.2f} us without the other flows, though its hosts send and receive nothing else:"
        f" {_cause(played, row, quiet)}"
    )


def _slowest(played: PacketRun) -> int | None:
    """The flow with most time beyond its bytes at its host's rate, of those that are alone at both ends."""
    first, traffic = played.first, played.traffic
    travels = traffic.travels
    sent = np.bincount(traffic.source[travels], minlength=traffic.hosts)
    received = np.bincount(traffic.target[travels], minlength=traffic.hosts)
    alone = (sent[traffic.source] == 1) & (received[traffic.target] == 1)
    rows = np.flatnonzero(travels & first.ended & alone)
    if travels.sum() < 2 or not len(rows) or played.settings.faults:
        return None
    least_ps = 8e12 * traffic.size_bytes[rows] / played.network.rate_bps.max()
    return int(rows[np.argmax(first.duration_ps[rows] - least_ps)])


def _cause(played: PacketRun, row: int, quiet: Record) -> str:
    first, traffic = played.first, played.traffic
    paused = first.optional.get("paused_ps")
    if paused is not None and paused[row]:
        origin = int(first.column("victim_of")[row])
        port = "" if origin < 0 else f", mostly for the queue of {played.names.link(origin)}"
        return f"its packets stood for {paused[row] / _PS_PER_US:,.2f} us at paused ports{port}"
    if played.settings.load_balancing != "ecmp":
        return "its packets wait in queues inside the network"
    path = np.flatnonzero(quiet.table("links")["bytes"] >= traffic.size_bytes[row])
    others = first.table("links")["bytes"][path] - quiet.table("links")["bytes"][path]
    shared = int(path[np.argmax(others)])
    pauses = first.table("links").get("paused_ps")
    still = "" if pauses is not None and pauses.any() else "; no link was paused"
    return f"its hashed path shares {played.names.link(shared)} with {others.max() / 1e6:,.1f} MB of others{still}"
