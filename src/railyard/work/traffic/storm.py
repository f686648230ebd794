"""Pauses told: where they began, which links they stopped, which flows suffered that had no part in it.

A victim is a flow that sends to no link where pauses began and took longer than when the flows that do are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.measure.result.packet import PausedLink, StormFigures, Victim

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.traffic.played import Played

LINKS = 64
"""Paused links that are told: those that stood longest."""

VICTIMS = 8
"""Flows that are told: the worst hit."""

LEAST = 1.1
"""Slowdown from which a flow is a victim."""

_PS_PER_US = 1e6


def storm(played: Played) -> StormFigures | None:
    """The object `storm` of a packet result; None where nothing was paused."""
    links, name = played.first.table("links"), played.names.link
    if "paused_ps" not in links or not links["paused_ps"].any():
        return None
    paused_ps = links["paused_ps"]
    paused = np.flatnonzero(paused_ps > 0)
    worst = paused[np.argsort(-paused_ps[paused], kind="stable")][:LINKS]
    return StormFigures(
        paused_us_total=float(paused_ps.sum()) / _PS_PER_US,
        pauses=int(links["pauses"].sum()),
        longest_us=float(links["longest_pause_ps"].max()) / _PS_PER_US,
        links=tuple(
            PausedLink(
                link=name(link),
                paused_us=float(paused_ps[link]) / _PS_PER_US,
                pauses=int(links["pauses"][link]),
                origin=_origin(played, link),
            )
            for link in worst.tolist()
        ),
        victims=_victims(played),
    )


def _origin(played: Played, link: int) -> str:
    origin = int(played.first.table("links")["pause_origin"][link])
    return played.names.link(origin) if origin >= 0 else "unknown"


def _victims(played: Played) -> tuple[Victim, ...]:
    """Flows that were slowed by others which send to where pauses began; they themselves do not."""
    first, traffic = played.first, played.traffic
    rows = _innocent(played)
    if not len(rows):
        return ()
    source, target, size = traffic.source[rows], traffic.target[rows], traffic.size_bytes[rows]
    without = type(traffic).of(traffic.hosts, source, target, size, start_ps=first.start_ps[rows])
    undisturbed = played.simulate(without, played.settings).duration_ps
    slowdown = np.where(undisturbed > 0, first.duration_ps[rows] / np.maximum(undisturbed, 1), 0.0)
    return tuple(
        Victim(
            flow=f"h{source[at]}->h{target[at]}",
            fct_us=float(first.duration_ps[rows[at]]) / _PS_PER_US,
            alone_us=float(undisturbed[at]) / _PS_PER_US,
            slowdown=float(slowdown[at]),
            stopped_by=_stopper(played, int(source[at])),
        )
        for at in np.argsort(-slowdown, kind="stable")[:VICTIMS].tolist()
        if slowdown[at] >= LEAST
    )


def _innocent(played: Played) -> NDArray[np.int64]:
    """Finished flows that send to no host behind a link where pauses began."""
    first, traffic = played.first, played.traffic
    origin = first.table("links")["pause_origin"]
    origins = np.unique(origin[origin >= 0])
    guilty = played.network.link_target[origins]
    innocent = first.ended & (traffic.source != traffic.target) & ~np.isin(traffic.target, guilty)
    return np.flatnonzero(innocent)


def _stopper(played: Played, source: int) -> str:
    """Who stopped the host's own link longest, else the one who stopped most of the fabric."""
    paused = played.first.table("links")["paused_ps"]
    paused_links = np.flatnonzero((played.network.link_source == source) & (paused > 0))
    known = paused_links if len(paused_links) else np.flatnonzero(paused > 0)
    return _origin(played, int(known[paused[known].argmax()]))
