"""Deaths that work without a checkpoint does not survive: refused by name before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.cluster.fault import RankDeath
from railyard.cluster.fault.cluster_places import ClusterPlaces
from railyard.engine.faults import placed
from railyard.kit.errors import Hung, InputError
from railyard.work.scenario.load import blaming
from railyard.work.study.deaths import cut_off_by, is_death, span, words

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.cluster.fault import Effect, Fault
    from railyard.work.scenario.load import Draft

    Play = Callable[[tuple[Fault, ...]], object]

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
    """Refuses the first death, in the order of time, after which some of the work can never end.

    Args:
        draft: The scenario, whose `faults` they are.
        faults: As given; ranks count from the work's first on.
        cluster: The cluster.
        rank: int32[ranks of the work], the accelerator of each.
        play: Runs the work in the flow engine with some faults; raises `Hung` where it hangs.
        single: Accelerators that need all their NICs.

    Raises:
        InputError: There is such a death; or a fault names a place that is not there.
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
        raise _fatal(fault, f"leaves {hung.what} without a path, which waits from {since} on for ever") from None


def _refuse_cut_off(fault: Fault, effects: Sequence[Effect], cluster: Cluster, single: Collection[int]) -> None:
    lost = cut_off_by(effects, cluster).intersection(single)
    if lost and getattr(fault, "for_ps", None) is None:
        raise _fatal(fault, f"leaves NICs of {len(lost)} serving accelerators without a link")


def _fatal(fault: Fault, what: str, hint: str = UNTIL) -> InputError:
    message = f"the work does not survive `{words(fault)}`, which {what}"
    return InputError(message, key="kind", found=fault.kind, hint=hint)
