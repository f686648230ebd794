"""The schedule of a collective, along trees and paths: one function a collective.

Bytes are those of a rank, as nccl-tests counts them: the whole output of all-gather, the whole input of
reduce-scatter and all-reduce, and what a rank sends in an all-to-all (an equal part to every rank, itself included); of
an uneven one, what it would send if every pair had as much as the heaviest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.synthesis.routes import PieceRouter
from railyard.collective.synthesis.schedule import SendList, Sends, TimedSchedule, link_faults, order_faults, timed
from railyard.collective.synthesis.symmetry import Symmetry, followed, mirrored, quotient
from railyard.kit.quantities import ranges
from railyard.kit.registry import Registry

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.collective.synthesis.network import LinkNetwork

    Ints = NDArray[np.int64]
    from collections.abc import Callable, Sequence

    from railyard.collective.synthesis.routes import TreeLink

    Build = Callable[["ScheduleRequest"], TimedSchedule]


_EPSILON = 1e-9
_AT_A_TIME = 4096
"""Pieces whose places are looked at together, of a schedule without symmetry."""


def timed_images(network: LinkNetwork, sends: Sends, symmetry: Symmetry | None) -> TimedSchedule:
    """Times of sends whose images go at the same times: what is on a link is on all of its orbit."""
    if symmetry is None:
        return timed(network, sends)
    orbits = replace(sends, link=symmetry.orbit[sends.link].astype(np.int32))
    found = timed(quotient(network, symmetry), orbits)
    return replace(found, sends=sends)


def whole(network: LinkNetwork, schedule: TimedSchedule, collective: str, symmetry: Symmetry) -> TimedSchedule:
    """All sends, pieces numbered as in a schedule without symmetry; image after image."""
    sends, count = schedule.sends, len(symmetry)
    number = np.full(network.nodes, -1, np.int64)
    number[network.ranks] = np.arange(len(network.ranks))
    link = symmetry.link[:, sends.link]
    ends = ends_of(network, schedule, collective, symmetry)
    ranks = len(network.ranks)
    turn = sends.piece // _parts(network, collective, symmetry)
    root = number[symmetry.node[:, ends[0][sends.piece]]]
    if collective == "all-to-all":
        target = number[symmetry.node[:, ends[1][sends.piece]]]
        piece = turn * ranks * (ranks - 1) + ((target - root) % ranks - 1) * ranks + root
    else:
        piece = turn * ranks + root
    moved = np.arange(count)[:, None] * len(sends)
    pointers = np.diff(sends.after_ptr)
    everything = Sends(
        sends.piece_bytes,
        sends.pieces * count,
        link.ravel().astype(np.int32),
        piece.ravel().astype(np.int32),
        np.tile(sends.reduce, count),
        np.concatenate([[0], np.cumsum(np.tile(pointers, count))]),
        (moved + sends.after[None, :]).ravel().astype(np.int32),
    )
    return TimedSchedule(everything, np.tile(schedule.start_us, count), np.tile(schedule.arrive_us, count))


def _parts(network: LinkNetwork, collective: str, symmetry: Symmetry) -> int:
    """Pieces of a cut of one."""
    roots = len(symmetry.roots)
    return roots * (len(network.ranks) - 1) if collective == "all-to-all" else roots


def ends_of(
    network: LinkNetwork, schedule: TimedSchedule, collective: str, symmetry: Symmetry, first: int = 0
) -> tuple[Ints, Ints]:
    """int64[pieces], nodes where each piece begins (a sum: is to be), and in an all-to-all those which want it."""
    roots, ranks = np.array(symmetry.roots), np.array(network.ranks)
    pieces = first + np.arange(schedule.sends.pieces)
    root = roots[pieces % len(roots)]
    if collective != "all-to-all":
        return root, root
    shift = pieces % (len(roots) * (len(ranks) - 1)) // len(roots) + 1
    number = np.full(network.nodes, -1, np.int64)
    number[ranks] = np.arange(len(ranks))
    return root, ranks[(number[root] + shift) % len(ranks)]


# ----------------------------------------------------------------------------------------------------------- checking


def image_faults(network: LinkNetwork, schedule: TimedSchedule, collective: str, symmetry: Symmetry) -> list[str]:
    """What is wrong with a schedule and its images: links, then the data of each image; nothing for sound ones."""
    found = [*_no_symmetry(network, symmetry), *_crowded(network, schedule, symmetry)]
    if found:
        return found
    check = _Data(network, schedule, collective, symmetry)
    for element in range(len(symmetry)):
        wrong = check.of(symmetry.node[element])
        if wrong is not None:
            return [f"image {element}: {wrong}"]
    return []


def whole_faults(network: LinkNetwork, schedule: TimedSchedule, collective: str) -> list[str]:
    """What is wrong with a schedule of many sends and no symmetry: links, then the data of some pieces at a time."""
    found = [*link_faults(schedule, network), *order_faults(schedule, network)]
    sends, nodes = schedule.sends, np.arange(network.nodes)
    alone = Symmetry(nodes[None, :], np.arange(len(network.source))[None, :], tuple(network.ranks))
    order = np.argsort(sends.piece, kind="stable")
    number = np.empty(len(sends), np.int64)
    for first in range(0, sends.pieces, _AT_A_TIME):
        if found:
            break
        many = min(_AT_A_TIME, sends.pieces - first)
        rows = order[slice(*np.searchsorted(sends.piece[order], [first, first + many]))]
        rows = np.sort(rows)
        number[rows] = np.arange(len(rows))
        waits = np.diff(sends.after_ptr)[rows]
        after = sends.after[ranges(sends.after_ptr[rows], waits)]
        if (sends.piece[after] // _AT_A_TIME != first // _AT_A_TIME).any():
            return ["a send waits for another piece"]
        part = Sends(
            sends.piece_bytes,
            many,
            sends.link[rows],
            sends.piece[rows] - first,
            sends.reduce[rows],
            np.concatenate([[0], np.cumsum(waits)]),
            number[after].astype(np.int32),
        )
        times = TimedSchedule(part, schedule.start_us[rows], schedule.arrive_us[rows])
        wrong = _Data(network, times, collective, alone, first).of(nodes)
        found += [] if wrong is None else [wrong]
    return found


def _no_symmetry(network: LinkNetwork, symmetry: Symmetry) -> list[str]:
    """Whether links go where their ends go, to links that are alike."""
    for ends in (network.source, network.target):
        if (ends[symmetry.link] != symmetry.node[:, ends]).any():
            return ["the images of links do not join the images of their ends"]
    for column in (network.bytes_per_us, network.latency_us):
        if (column[symmetry.link] != column).any():
            return ["links are taken to others that are not alike"]
    return []


def _crowded(network: LinkNetwork, schedule: TimedSchedule, symmetry: Symmetry) -> list[str]:
    """Whether any link has more to carry at a time than it can, by all images of all sends, orbit by orbit."""
    sends = schedule.sends
    takes = sends.piece_bytes / network.bytes_per_us[sends.link] * symmetry.together[symmetry.orbit[sends.link]]
    for orbit in range(len(symmetry.first)):
        mine = np.flatnonzero(symmetry.orbit[sends.link] == orbit)
        link = symmetry.link[:, sends.link[mine]]  # images x sends
        lanes = np.sort(link, axis=0).reshape(len(symmetry) // symmetry.together[orbit], symmetry.together[orbit], -1)
        if (lanes != lanes[:, :1]).any() or (np.diff(lanes[:, 0], axis=0) == 0).any():
            return ["images of a send meet on a link"]
        order = mine[np.argsort(schedule.start_us[mine], kind="stable")]
        free = (schedule.start_us + takes)[order][:-1] * (1 - _EPSILON) - _EPSILON
        if (schedule.start_us[order][1:] < free).any():
            return [f"links like {symmetry.first[orbit]} carry two sends at once"]
    arrive = schedule.start_us + takes + network.latency_us[sends.link]
    return ["a send arrives before it can"] if (schedule.arrive_us < arrive * (1 - _EPSILON)).any() else []


class _Data:
    """Follows the pieces of one image after another; of some pieces of a schedule, `first` numbers the first."""

    def __init__(
        self, network: LinkNetwork, schedule: TimedSchedule, collective: str, symmetry: Symmetry, first: int = 0
    ) -> None:
        self.network, self.schedule, self.collective = network, schedule, collective
        sends = schedule.sends
        self.source, self.target = network.source[sends.link], network.target[sends.link]
        self.through = network.switch[self.source]
        self.ends = network.switch[self.target]
        self.root, self.wants = ends_of(network, schedule, collective, symmetry, first)
        self.owner = np.repeat(np.arange(len(sends)), np.diff(sends.after_ptr))
        self.up = self._upward()

    def _upward(self) -> NDArray[np.bool_]:
        """bool[sends], those that bring a part to be added, over all links of their journeys."""
        up: NDArray[np.bool_] = self.schedule.sends.reduce.copy()
        passed = self.through[self.owner]
        while True:
            before = up.copy()
            up[self.schedule.sends.after[passed]] |= up[self.owner[passed]]
            if (before == up).all():
                return up

    def of(self, node: Ints) -> str | None:
        """Faults of the image under one element; None if there is none."""
        sends, pieces = self.schedule.sends, len(self.root)
        start, arrive = self.schedule.start_us, self.schedule.arrive_us
        wrong = self._handed_on(node)
        if wrong:
            return wrong
        there = np.full((self.network.nodes, pieces), np.inf)
        source, target, piece = node[self.source], node[self.target], sends.piece
        root = node[self.root]
        there[root, np.arange(pieces)] = 0.0
        if self.collective in ("reduce-scatter", "all-reduce"):
            leaves, wrong = self._summed(node, root)
            if wrong:
                return wrong
            there[root, np.arange(pieces)] = leaves
        down = ~self.up & ~self.ends
        np.minimum.at(there, (target[down], piece[down]), arrive[down])
        first = ~self.up & ~self.through
        if (start[first] < there[source[first], piece[first]] * (1 - _EPSILON) - _EPSILON).any():
            return "a rank sends a piece before it has it"
        if self.collective == "reduce-scatter":
            return None
        wanted = there[self.network.ranks]
        if self.collective == "all-to-all":
            wanted = there[node[self.wants], np.arange(pieces)]
        return None if np.isfinite(wanted).all() else "a rank ends without a piece"

    def _handed_on(self, node: Ints) -> str | None:
        """Whether what leaves a switch is what the one send that it waits for brought there, and not before it can."""
        sends = self.schedule.sends
        passed = self.through[self.owner]
        late, early = self.owner[passed], sends.after[passed]
        if (np.bincount(late, minlength=len(sends))[self.through] != 1).any():
            return "a switch sends what nobody brought"
        if (sends.piece[late] != sends.piece[early]).any() or (
            node[self.network.target[sends.link[early]]] != node[self.network.source[sends.link[late]]]
        ).any():
            return "a switch sends what came to another"
        there = self.schedule.arrive_us[early]
        if self.network.packets:
            takes = self.schedule.arrive_us - self.schedule.start_us - self.network.latency_us[sends.link]
            there = there - np.minimum(takes[early], takes[late])
        soon = self.schedule.start_us[late] < there * (1 - _EPSILON) - _EPSILON
        return "a switch sends what has not come" if soon.any() else None

    def _summed(self, node: Ints, root: Ints) -> tuple[NDArray[np.float64], str | None]:
        """Times at which each sum is complete at its root: every other rank sends once, after all that comes to it."""
        sends, pieces = self.schedule.sends, len(self.root)
        begins, comes = self.up & ~self.through, self.up & ~self.ends
        sent = np.zeros((self.network.nodes, pieces), np.int64)
        np.add.at(sent, (node[self.source[begins]], sends.piece[begins]), 1)
        wanted = np.where(self.network.switch[:, None], 0, np.ones((1, pieces), np.int64))
        wanted[root, np.arange(pieces)] = 0
        last = np.zeros((self.network.nodes, pieces))
        np.maximum.at(last, (node[self.target[comes]], sends.piece[comes]), self.schedule.arrive_us[comes])
        goes = self.schedule.start_us[begins]
        early = goes < last[node[self.source[begins]], sends.piece[begins]] * (1 - _EPSILON) - _EPSILON
        wrong = None
        if (sent != wanted).any():
            wrong = "a rank's part is added twice or not at all"
        elif early.any():
            wrong = "a rank sends a sum before all of it has come"
        return last[root, np.arange(pieces)], wrong


TREES = 2
"""Trees of a root where they are kept."""
_ROUNDS = 3
"""How often each path of an uneven all-to-all is laid again when all others are known; once beyond `_FEW` paths."""
_FEW = 20_000


@dataclass(frozen=True, eq=False)
class ScheduleRequest:
    """Which schedule to find.

    Attributes:
        size: Bytes, as the collective counts them.
        cut: Pieces of each part.
        nearness: See `Router`.
        symmetry: Only the parts of its roots are laid out, for all of their images; None: all parts.
        kept: Trees that were grown before, by nearness, purpose and number: each root has `TREES`, which its pieces
            take in turn. None: every piece has one of its own.
        bound_us: See `Router`.
        pieces: int64[ranks, ranks], of an uneven all-to-all the pieces of each pair, at most `cut`; None: all have as
            many.
    """

    network: LinkNetwork
    size: float
    cut: int
    nearness: float
    symmetry: Symmetry | None = None
    kept: dict[tuple[float, str, int], list[TreeLink]] | None = None
    bound_us: float | None = None
    pieces: NDArray[np.int64] | None = None

    @property
    def roots(self) -> Sequence[int]:
        """Ranks whose parts are laid out."""
        return self.network.ranks if self.symmetry is None else self.symmetry.roots

    def router(
        self, piece: float, busy_us: list[float] | None = None, *, up: bool = False, copies: bool = True
    ) -> PieceRouter:
        """Router of pieces over the links; `up` over the reversed ones."""
        network = self.network.reversed() if up else self.network
        return PieceRouter(
            network, piece, self.nearness, busy_us, symmetry=self.symmetry, copies=copies, bound_us=self.bound_us
        )

    def timed(self, sends: Sends, *, up: bool = False) -> TimedSchedule:
        """Sends with their times; `up`: over the reversed links."""
        return timed_images(self.network.reversed() if up else self.network, sends, self.symmetry)

    def tree(self, router: PieceRouter, number: int, purpose: str = "") -> list[TreeLink]:
        """Tree of a piece to all ranks; trees of one `purpose` are shared by all of the same."""
        root = self.roots[number % len(self.roots)]
        if self.kept is None:
            return router.tree(root)
        key = (self.nearness, purpose, number % (TREES * len(self.roots)))
        if key not in self.kept:
            self.kept[key] = router.tree(root)
        return self.kept[key]

    def path(self, router: PieceRouter, turn: int, ends: tuple[int, int]) -> list[TreeLink]:
        """Path from a rank to another, the `turn`-th pair."""
        if self.kept is None:
            return router.tree(ends[0], [ends[1]])
        key = (self.nearness, "path", turn)
        if key not in self.kept:
            self.kept[key] = router.tree(ends[0], [ends[1]])
        return self.kept[key]


collectives: Registry[Build] = Registry("collective to synthesize")


def _all_gather(ask: ScheduleRequest) -> TimedSchedule:
    """Each rank's part along trees of its own, in `cut` pieces."""
    return ask.timed(_spread(ask))


def _spread(ask: ScheduleRequest, *, up: bool = False) -> Sends:
    """Each piece down a tree to all ranks; `up`: over the reversed links, where switches copy nothing."""
    piece = ask.size / len(ask.network.ranks) / ask.cut
    router = ask.router(piece, up=up, copies=not ask.network.packets and not up)
    sends = SendList(piece, ask.cut * len(ask.roots))
    for number in range(sends.pieces):
        _broadcast(ask.tree(router, number, "reversed" if up else ""), number, sends, [])
    return sends.done()


def _broadcast(hops: list[TreeLink], piece: int, sends: SendList, first: list[int]) -> None:
    """Sends down a tree; those that leave the root wait for `first`."""
    number: list[int] = []
    for hop in hops:
        number.append(sends.add(hop.link, piece, first if hop.above < 0 else [number[hop.above]]))


def _reduce(network: LinkNetwork, hops: list[TreeLink], piece: int, sends: SendList) -> list[int]:
    """Sends up a tree whose links lead to the root, the lowest first; returns those that arrive there.

    What goes to a switch is passed on as it is; ranks add.
    """
    arrived: dict[int, list[int]] = {}
    for at in range(len(hops) - 1, -1, -1):
        adds = not network.switch[network.target[hops[at].link]]
        send = sends.add(hops[at].link, piece, arrived.get(at, []), reduce=bool(adds))
        arrived.setdefault(hops[at].above, []).append(send)
    return arrived[-1]


def _reduce_scatter(ask: ScheduleRequest) -> TimedSchedule:
    """An all-gather over the reversed links, played backward."""
    return mirrored(ask.network, ask.timed(_spread(ask, up=True), up=True))


def _all_reduce(ask: ScheduleRequest) -> TimedSchedule:
    """Either each piece up a tree and down another, as soon as it is there; or all sums, and then all down."""
    return min(_in_stream(ask), followed(_reduce_scatter(ask), _all_gather(ask)), key=lambda one: one.finish_us)


def _in_stream(ask: ScheduleRequest) -> TimedSchedule:
    """Sums go down while others are still on their journey up: trees of both share the links."""
    network = ask.network
    piece = ask.size / len(network.ranks) / ask.cut
    busy = [0.0] * len(network.source)
    up = ask.router(piece, busy, up=True, copies=False)
    down = ask.router(piece, busy, copies=not network.packets)
    sends = SendList(piece, ask.cut * len(ask.roots))
    for number in range(sends.pieces):
        added = _reduce(network, ask.tree(up, number, "stream up"), number, sends)
        _broadcast(ask.tree(down, number, "stream down"), number, sends, added)
    return ask.timed(sends.done())


def _all_to_all(ask: ScheduleRequest) -> TimedSchedule:
    """A path for each piece of each pair; what a rank keeps goes nowhere."""
    ranks = ask.network.ranks
    piece = ask.size / len(ranks) / ask.cut
    router = ask.router(piece)
    at = {rank: number for number, rank in enumerate(ranks)}
    pairs = [(root, ranks[(at[root] + shift) % len(ranks)]) for shift in range(1, len(ranks)) for root in ask.roots]
    sends = SendList(piece, ask.cut * len(pairs))
    wanted = [
        (number * len(pairs) + turn, turn, ends)
        for number in range(ask.cut)
        for turn, ends in enumerate(pairs)
        if ask.pieces is None or number < ask.pieces[at[ends[0]], at[ends[1]]]
    ]
    paths = [ask.path(router, turn, ends) for _, turn, ends in wanted]
    rounds = 0 if ask.bound_us is None else _ROUNDS if len(wanted) <= _FEW else 1
    for _ in range(rounds):
        for which, (_, turn, ends) in enumerate(wanted):
            router.lift(paths[which])
            paths[which] = ask.path(router, turn, ends)
    for (number, _, _), hops in zip(wanted, paths, strict=True):
        _broadcast(hops, number, sends, [])
    return ask.timed(sends.done())


collectives.add("all-gather", _all_gather)
collectives.add("reduce-scatter", _reduce_scatter)
collectives.add("all-reduce", _all_reduce)
collectives.add("all-to-all", _all_to_all)
