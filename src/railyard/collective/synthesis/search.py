"""The best of several schedules: into how many pieces data is cut, and how near its routes keep to the shortest."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from railyard.collective.synthesis.bound import lower_bound_us, need_solver
from railyard.collective.synthesis.collectives import ScheduleRequest, collectives, image_faults, whole, whole_faults
from railyard.collective.synthesis.repaired import NEARNESS_OF_BROKEN, BrokenNetwork
from railyard.collective.synthesis.routes import MANY
from railyard.collective.synthesis.schedule import faults
from railyard.collective.synthesis.symmetry import symmetry_of
from railyard.kit.errors import InputError, Interrupted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from railyard.collective.synthesis.network import LinkNetwork
    from railyard.collective.synthesis.routes import TreeLink
    from railyard.collective.synthesis.schedule import TimedSchedule
    from railyard.collective.synthesis.symmetry import Symmetry

_CUTS = (1, 2, 4, 8, 16, 32, 64)
_COARSE = 4
NEARNESS = (0.05, 0.3, 1.0, 3.0)
"""Values of nearness to try."""
MOST_SENDS = 200_000
"""Most sends of a search by a run itself: some seconds."""
MOST_WHOLE = 5_000_000
"""The same where a symmetry is broken: all of them are laid down, in about 2 GB."""
NEAR_ENOUGH = 1.0005
"""A schedule this near to the lower bound is not worth a finer one."""


_NEARNESS_OF_MANY = (0.05, 1.0)
_SYMMETRIC = 48
"""Ranks from which symmetries are used; fewer are searched link by link, which gives each its best tree."""
MOST_ALONE = 256
"""Ranks up to which a network without symmetry is searched."""


@dataclass(frozen=True, eq=False)
class Attempt:
    """A schedule and how it was made."""

    schedule: TimedSchedule
    cut: int
    nearness: float


@dataclass(frozen=True, eq=False)
class SynthesizedSchedule:
    """A schedule and how good it is.

    Attributes:
        kept: The best that was found; with a symmetry, the sends of which all others are images.
        cut: Pieces of each part.
        nearness: See `Router`.
        lower_bound_us: What none beats.
        solver_s: Seconds of processors that the search and the bound took, whatever else the machine does.
        symmetry: Of the network, where it was used.
        pieces: int64[ranks, ranks], of an uneven all-to-all the pieces of each pair; None: all have `cut`.
        stopped: Whether Ctrl-C or SIGTERM ended the search: the schedule is the best so far.
    """

    network: LinkNetwork
    collective: str
    kept: TimedSchedule
    cut: int
    nearness: float
    lower_bound_us: float
    solver_s: float
    symmetry: Symmetry | None = None
    pieces: NDArray[np.int64] | None = None
    stopped: bool = False

    @property
    def finish_us(self) -> float:
        """Time at which the last send has arrived."""
        return self.kept.finish_us

    @property
    def images(self) -> int:
        """Sends for which each that is kept stands."""
        return 1 if self.symmetry is None else len(self.symmetry)

    @property
    def sends(self) -> int:
        """All sends."""
        return len(self.kept.sends) * self.images

    @cached_property
    def schedule(self) -> TimedSchedule:
        """All sends."""
        return self.kept if self.symmetry is None else whole(self.network, self.kept, self.collective, self.symmetry)

    def faults(self) -> list[str]:
        """What is wrong with it by a symbolic run of all sends; nothing where it is sound."""
        if self.symmetry is None and self.pieces is None and len(self.network.ranks) > MOST_ALONE:
            return whole_faults(self.network, self.kept, self.collective)
        if self.symmetry is None:
            return faults(self.network, self.kept, self.collective, self.pieces)
        return image_faults(self.network, self.kept, self.collective, self.symmetry)


def synthesize(
    network: LinkNetwork,
    collective: str,
    size: float,
    *,
    most_sends: int = MOST_SENDS,
    most_whole: int | None = None,
    enough: float = NEAR_ENOUGH,
    progress: Callable[[float], None] | None = None,
) -> SynthesizedSchedule:
    """A schedule of a collective; the same for the same arguments.

    Coarse cuts are tried with every nearness, finer ones with the two that were best before, until a schedule is near
    enough to the bound.

    Args:
        network: The links.
        collective: One of the registry's.
        size: Bytes, as the collective counts them.
        most_sends: No schedule of more sends is tried, but for the coarsest; images of a symmetry do not count.
        most_whole: The same of a schedule that is laid down to be played or written, where they do; None: it is not.
        enough: Over the bound, at which the search ends.
        progress: Called with the share of cuts that were tried.

    Raises:
        InputError: There is no such collective, or the network cannot do it.
    """
    build = collectives.get(collective)
    need_solver()
    begin = time.process_time()
    symmetry = _used(network)
    if symmetry is None and len(network.ranks) > MOST_ALONE:
        return _mended(network, collective, size, MOST_WHOLE if most_whole is None else most_whole, enough, progress)
    bound = lower_bound_us(network, collective, size, symmetry)
    most = most_sends if most_whole is None else min(most_sends, most_whole // (len(symmetry) if symmetry else 1))
    kept: dict[tuple[float, str, int], list[TreeLink]] | None = {} if len(network.ranks) >= MANY else None

    def tries(found: list[Attempt]) -> Iterator[Attempt]:
        for cut in _cuts(found, bound * enough, most, progress):
            for nearness in _nearness(found, cut, many=kept is not None):
                yield Attempt(build(ScheduleRequest(network, size, cut, nearness, symmetry, kept)), cut, nearness)

    return best_of(tries, network, collective, bound, begin, symmetry=symmetry)


def best_of(
    tries: Callable[[list[Attempt]], Iterator[Attempt]],
    network: LinkNetwork,
    collective: str,
    bound_us: float,
    begin: float,
    *,
    symmetry: Symmetry | None = None,
) -> SynthesizedSchedule:
    """The best schedule of a search.

    Args:
        tries: Yields schedules, given the list of those so far.
        network: The links.
        collective: What is searched.
        bound_us: What no schedule beats.
        begin: Seconds of processors at which the work began.
        symmetry: Of the network, where it is used.

    Raises:
        Interrupted: It was stopped before there was a schedule.
    """
    found: list[Attempt] = []
    stopped = False
    try:
        for one in tries(found):
            found.append(one)  # noqa: PERF402 - which `tries` looks at
    except Interrupted:
        if not found:
            raise
        stopped = True
    best, took = min(found, key=lambda one: one.schedule.finish_us), time.process_time() - begin
    return SynthesizedSchedule(
        network, collective, best.schedule, best.cut, best.nearness, bound_us, took, symmetry, stopped=stopped
    )


def _cuts(found: list[Attempt], enough: float, most: int, progress: Callable[[float], None] | None) -> Iterator[int]:
    """Pieces of each part, ever finer, while that is worth a try."""
    for number, cut in enumerate(_CUTS):
        if found and not _goes_on(found, cut, enough, most):
            return
        yield cut
        if progress is not None:
            progress((number + 1) / len(_CUTS))


def _used(network: LinkNetwork) -> Symmetry | None:
    """The symmetry that a search rests on; None for few ranks, and where there is none."""
    ranks = len(network.ranks)
    if ranks < _SYMMETRIC:
        return None
    found = symmetry_of(network)
    return found if len(found) > 1 else None


def _mended(  # noqa: PLR0917
    network: LinkNetwork,
    collective: str,
    size: float,
    most: int,
    enough: float,
    progress: Callable[[float], None] | None,
) -> SynthesizedSchedule:
    """A schedule where a few links break a symmetry.

    Raises:
        InputError: It is not so.
    """
    begin = time.process_time()
    broken = BrokenNetwork.of(network)
    if broken is None:
        raise InputError(
            "so many ranks are searched by symmetry, and this network has none, nor had it before a few links failed",
            key="ranks",
            found=len(network.ranks),
            allowed=f"up to {MOST_ALONE} ranks without",
        )
    bound = broken.bound_us(collective, size)

    def tries(found: list[Attempt]) -> Iterator[Attempt]:
        for cut in _cuts(found, bound * enough, most, progress):
            yield Attempt(broken.schedule(collective, size, cut), cut, NEARNESS_OF_BROKEN)

    return best_of(tries, network, collective, bound, begin)


def _goes_on(found: list[Attempt], cut: int, enough: float, most_sends: int) -> bool:
    """Whether a finer cut is worth a try."""
    best = min(one.schedule.finish_us for one in found)
    sends = max(len(one.schedule.sends) // one.cut for one in found)
    return best > enough and sends * cut <= most_sends


def _nearness(found: list[Attempt], cut: int, *, many: bool) -> Sequence[float]:
    """Values of nearness to try: of many ranks every tree takes seconds."""
    if not found:
        return _NEARNESS_OF_MANY if many else NEARNESS
    return NEARNESS if cut <= _COARSE and not many else best_two(found)


def best_two(found: list[Attempt]) -> list[float]:
    """The nearness of the best schedule, and another of the next best that had one."""
    order = sorted(found, key=lambda one: one.schedule.finish_us)
    return list(dict.fromkeys(one.nearness for one in order))[:2]
