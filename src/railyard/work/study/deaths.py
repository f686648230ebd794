"""Parts that a fault hits, for any kind of work: links and their share of each tier, isolated ranks; and its text."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from railyard.cluster.fault import LinkErrors, LinkRate, LinkSetting, RankDeath
from railyard.cluster.fault.cluster_places import ClusterPlaces
from railyard.cluster.steering import lost
from railyard.engine.faults import placed
from railyard.kit.errors import Hung, InputError
from railyard.measure.result.network import TierHit
from railyard.work.scenario.load import blaming

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.cluster.fault import Effect, Fault
    from railyard.work.scenario.load import Draft

    Play = Callable[[tuple[Fault, ...]], object]


def is_death(effect: Effect) -> bool:
    """Whether something is dead rather than only slower."""
    return isinstance(effect, RankDeath) or (isinstance(effect, LinkRate) and effect.factor == 0)


def from_the_start(fault: Fault, **changes: Any) -> Fault:
    """A fault of the same kind and place that starts with the step and lasts."""
    given = {"at_ps": 0, "for_ps": None, "every_ps": None, "times": 1, **changes}
    return cast("Fault", replace(cast("Any", fault), **given))


def cut_off_by(effects: Sequence[Effect], cluster: Cluster) -> set[int]:
    """Ranks with a NIC that has no link left under these effects."""
    link = dead_links(effects)
    return cut_off(link, cluster) if len(link) else set()


def cut_off(link: NDArray[np.int64], cluster: Cluster) -> set[int]:
    """Ranks with a NIC all of whose links are dead."""
    network, ends = cluster.back_end, cluster.links
    source = ends.source[: ends.physical].astype(np.int64) - network.node_offset
    alive = np.ones(ends.physical, np.bool_)
    alive[link] = False
    port = (source >= 0) & (source < network.ports)
    before = np.bincount(source[port], minlength=network.ports)
    after = np.bincount(source[port & alive], minlength=network.ports)
    gone = np.flatnonzero((before > 0) & (after == 0))
    return set(np.flatnonzero(np.isin(network.port_of_rank, gone).any(axis=1)).tolist())


def hits_of(effects: Sequence[Effect], cluster: Cluster) -> tuple[TierHit, ...]:
    """Affected links and their share of each tier, the tier with the largest share first.

    Both directions of a cable are one link. The share counts directions: one direction of one of two cables is a
    quarter.
    """
    found = [effect.link for effect in effects if isinstance(effect, LinkRate | LinkErrors | LinkSetting)]
    if not found:
        return ()
    table = cluster.links
    hit = np.unique(np.concatenate(found))
    hits = []
    for tier in np.unique(table.tier[hit]).tolist():
        every = table.of_tier(table.tiers[tier])
        mine = hit[table.tier[hit] == tier]
        cables = (len(np.unique(_cable_of(some, cluster))) for some in (mine, every))
        hits.append(TierHit(tier=table.tiers[tier], links=next(cables), of=next(cables), share=len(mine) / len(every)))
    return tuple(sorted(hits, key=lambda one: -one.share))


def _cable_of(link: NDArray[np.integer], cluster: Cluster) -> NDArray[np.int64]:
    """A number for each link that both directions of a cable share; networks number these consecutively."""
    number = 2 * link.astype(np.int64)
    for network in cluster.networks:
        mine = (link >= network.link_offset) & (link < network.link_offset + network.wiring.links)
        number[mine] = 2 * network.link_offset + (link[mine] - network.link_offset) // 2 * 2
    return number


def parted(link: NDArray[np.int64], cluster: Cluster) -> set[int]:
    """Servers with a NIC that can no longer reach its rail in the largest part of the back-end."""
    wiring = cluster.back_end.wiring
    own = link - cluster.back_end.link_offset
    gone = lost(wiring, own[(own >= 0) & (own < wiring.links)])
    ports = wiring.port_of[: cluster.servers]
    left, parts = set(range(cluster.servers)), list[set[int]]()
    while left:
        first = min(left)
        rest = np.array(sorted(left - {first}), np.int64)
        apart = np.zeros(len(rest), np.bool_)
        for rail, port in enumerate(ports[first].tolist()):
            for low, high in gone.get(port, ()):
                apart |= (ports[rest, rail] >= low) & (ports[rest, rail] < high)
        out = set(rest[apart].tolist())
        parts.append(left - out)
        left = out
    return set(range(cluster.servers)) - max(parts, key=len)


def dead_links(effects: Sequence[Effect]) -> NDArray[np.int64]:
    """Links that some effect stops completely."""
    links = [effect.link for effect in effects if isinstance(effect, LinkRate) and effect.factor == 0]
    return np.unique(np.concatenate(links)) if links else np.empty(0, np.int64)


_PLACES = ("switch", "towards", "cable", "tier", "link", "host", "nic", "port", "rank")
_BARE = frozenset({"switch", "cable"})
"""Kinds of places whose names are self-explanatory."""


def words(fault: Fault) -> str:
    """A fault in words: `switch-down: leaf 0`, `degrade-link: all cables leaf 0 - spine 0 at 25 %`."""
    given = {key: getattr(fault, key, None) for key in _PLACES}
    named = [str(value) if key in _BARE else f"{key} {value}" for key, value in given.items() if value is not None]
    return f"{fault.kind}: {_cables(fault)}{', '.join(named)}{_amount(fault)}"


def listed(names: Iterable[str]) -> str:
    """Faults by name, each once; if there are many, the first and the number of others."""
    once = list(dict.fromkeys(names))
    return " and ".join(once) if len(once) < _MANY else f"{once[0]} and {len(once) - 1} more faults"


_MANY = 4


def _cables(fault: Fault) -> str:
    """Words for the faulty cables between two nodes; empty for the first alone."""
    count, first = getattr(fault, "cables", 1), getattr(fault, "first", 0)
    if count == "all":
        return "all cables " if not first else f"all cables from number {first} on, "
    if count > 1:
        return f"{count} cables " if not first else f"{count} cables from number {first} on, "
    return f"cable {first} of " if first else ""


def _amount(fault: Fault) -> str:
    """The remaining share, or what is wrong."""
    factor, ratio, by_ps = (getattr(fault, key, None) for key in ("factor", "ratio", "by_ps"))
    if factor is not None:
        return f" at {100 * factor:g} %"
    if ratio is not None:
        return f" with {ratio:.3g} of all bits wrong"
    return "" if by_ps is None else f" by {span(by_ps * 1e-12)}"


def span(seconds: float) -> str:
    """A time in a suitable unit."""
    for unit, size in (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return "0 s"


HINT = "only a scenario with one training job starts again from its checkpoint: leave it out"
UNTIL = f"{HINT}, or end it with `for`"


def refuse_fatal(
    draft: Draft,
    faults: Sequence[Fault],
    cluster: Cluster,
    rank: NDArray[np.int32],
    play: Play,
    *,
    single: Collection[int] = (),
) -> None:
    """Rejects the first death, in time order, after which some of the work can never finish.

    Args:
        draft: The scenario with the `faults`.
        faults: The faults; ranks are counted from the work's first rank.
        cluster: The cluster.
        rank: int32[ranks of the work], the accelerator of each.
        play: Runs the work in the flow engine with some faults; raises `Hung` if it hangs.
        single: Accelerators that need all their NICs.

    Raises:
        InputError: There is such a death, or a fault names an unknown place.
    """
    with blaming(draft):
        there = placed(faults, rank)
    places = ClusterPlaces.of(cluster)
    known: tuple[Fault, ...] = ()
    for number, fault in sorted(enumerate(there), key=lambda item: getattr(item[1], "at_ps", 0)):
        with blaming(draft, "faults", str(number)):
            effects = tuple(fault.effects(places))
            if not any(is_death(effect) for effect in effects):
                continue
            _refuse_dead(fault, effects, set(rank.tolist()))
            known = (*known, faults[number])
            _refuse_hung(fault, known, play)
            _refuse_cut_off(fault, effects, cluster, single)


def _refuse_dead(fault: Fault, effects: Sequence[Effect], used: set[int]) -> None:
    dead = {rank for effect in effects if isinstance(effect, RankDeath) for rank in effect.ranks} & used
    if dead:
        raise _fatal(fault, f"takes {len(dead)} of the accelerators that work with it", HINT)


def _refuse_hung(fault: Fault, known: tuple[Fault, ...], play: Play) -> None:
    try:
        play(known)
    except Hung as hung:
        since = span(hung.since_ps * 1e-12)
        raise _fatal(fault, f"leaves {hung.what} without a path, which waits forever from {since} on") from None


def _refuse_cut_off(fault: Fault, effects: Sequence[Effect], cluster: Cluster, single: Collection[int]) -> None:
    lost = cut_off_by(effects, cluster).intersection(single)
    if lost and getattr(fault, "for_ps", None) is None:
        raise _fatal(fault, f"leaves NICs of {len(lost)} serving accelerators without a link")


def _fatal(fault: Fault, what: str, hint: str = UNTIL) -> InputError:
    message = f"the work does not survive `{words(fault)}`, which {what}"
    return InputError(message, key="kind", found=fault.kind, hint=hint)
