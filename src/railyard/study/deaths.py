"""What dead links and ranks mean for any kind of work: who is cut off, and what died in words."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from railyard.fault import LinkRate, RankDeath

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.fault import Effect, Fault


def is_death(effect: Effect) -> bool:
    """Whether something is gone, not only slower."""
    return isinstance(effect, RankDeath) or (isinstance(effect, LinkRate) and effect.factor == 0)


def from_the_start(fault: Fault, **changes: Any) -> Fault:
    """A fault of its kind and place that begins with the step and lasts."""
    given = {"at_ps": 0, "for_ps": None, "every_ps": None, "times": 1, **changes}
    return cast("Fault", replace(cast("Any", fault), **given))


def cut_off_by(effects: Sequence[Effect], cluster: Cluster) -> set[int]:
    """Ranks with a NIC of which effects leave no link."""
    links = [effect.link for effect in effects if isinstance(effect, LinkRate) and effect.factor == 0]
    return cut_off(np.unique(np.concatenate(links)), cluster) if links else set()


def cut_off(link: NDArray[np.int64], cluster: Cluster) -> set[int]:
    """Ranks with a NIC of which every link is gone.

    Args:
        link: Links that carry nothing.
        cluster: The cluster.
    """
    network, ends = cluster.back_end, cluster.links
    source = ends.source[: ends.physical].astype(np.int64) - network.node_offset
    alive = np.ones(ends.physical, np.bool_)
    alive[link] = False
    port = (source >= 0) & (source < network.ports)
    before = np.bincount(source[port], minlength=network.ports)
    after = np.bincount(source[port & alive], minlength=network.ports)
    gone = np.flatnonzero((before > 0) & (after == 0))
    return set(np.flatnonzero(np.isin(network.port_of_rank, gone).any(axis=1)).tolist())


def words(fault: Fault) -> str:
    """A fault in words: `switch-down: leaf 0`."""
    named = {key: getattr(fault, key, None) for key in ("switch", "cable", "host", "nic", "port", "rank")}
    listed = [
        str(value) if key in ("switch", "cable") else f"{key} {value}"
        for key, value in named.items()
        if value is not None
    ]
    return f"{fault.kind}: {', '.join(listed)}"


def span(seconds: float) -> str:
    """A time in the unit that suits it."""
    for unit, size in (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return "0 s"
