"""The schedule of a collective, along trees and paths: one function a collective.

Bytes are those of a rank, as nccl-tests counts them (`size.py`): the whole output of all-gather, the whole input of
reduce-scatter and all-reduce, and what a rank sends in an all-to-all (an equal part to every rank, itself included); of
an uneven one, what it would send if every pair had as much as the heaviest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.collective.synthesis.images import timed_images
from railyard.collective.synthesis.mended import followed, mirrored
from railyard.collective.synthesis.routes import Router
from railyard.collective.synthesis.schedule import SendList
from railyard.kit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from railyard.collective.synthesis.network import LinkNetwork
    from railyard.collective.synthesis.routes import Hop
    from railyard.collective.synthesis.schedule import Schedule, Sends
    from railyard.collective.synthesis.symmetry import Symmetry

TREES = 2
"""Trees of a root where they are kept."""
_ROUNDS = 3
"""So often each path of an uneven all-to-all is laid anew when all others are known; once where they are not few."""
_FEW = 20_000


@dataclass(frozen=True, eq=False)
class Ask:
    """What schedule is wanted.

    Attributes:
        network: The links.
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
    kept: dict[tuple[float, str, int], list[Hop]] | None = None
    bound_us: float | None = None
    pieces: NDArray[np.int64] | None = None

    @property
    def roots(self) -> Sequence[int]:
        """Ranks whose parts are laid out."""
        return self.network.ranks if self.symmetry is None else self.symmetry.roots

    def router(
        self, piece: float, busy_us: list[float] | None = None, *, up: bool = False, copies: bool = True
    ) -> Router:
        """For pieces over the links; `up` over the reversed ones."""
        network = self.network.reversed() if up else self.network
        return Router(
            network, piece, self.nearness, busy_us, symmetry=self.symmetry, copies=copies, bound_us=self.bound_us
        )

    def timed(self, sends: Sends, *, up: bool = False) -> Schedule:
        """Sends with their times; `up`: over the reversed links."""
        return timed_images(self.network.reversed() if up else self.network, sends, self.symmetry)

    def tree(self, router: Router, number: int, purpose: str = "") -> list[Hop]:
        """Of a piece, to all ranks; `purpose`: trees of one do for another that has the same."""
        root = self.roots[number % len(self.roots)]
        if self.kept is None:
            return router.tree(root)
        key = (self.nearness, purpose, number % (TREES * len(self.roots)))
        if key not in self.kept:
            self.kept[key] = router.tree(root)
        return self.kept[key]

    def path(self, router: Router, turn: int, ends: tuple[int, int]) -> list[Hop]:
        """From a rank to another, the `turn`-th pair."""
        if self.kept is None:
            return router.tree(ends[0], [ends[1]])
        key = (self.nearness, "path", turn)
        if key not in self.kept:
            self.kept[key] = router.tree(ends[0], [ends[1]])
        return self.kept[key]


if TYPE_CHECKING:
    Build = Callable[["Ask"], Schedule]

collectives: Registry[Build] = Registry("collective to synthesize")


def _all_gather(ask: Ask) -> Schedule:
    """Each rank's part along trees of its own, in `cut` pieces."""
    return ask.timed(_spread(ask))


def _spread(ask: Ask, *, up: bool = False) -> Sends:
    """Each piece down a tree to all ranks; `up`: over the reversed links, where switches copy nothing."""
    piece = ask.size / len(ask.network.ranks) / ask.cut
    router = ask.router(piece, up=up, copies=not ask.network.packets and not up)
    sends = SendList(piece, ask.cut * len(ask.roots))
    for number in range(sends.pieces):
        _broadcast(ask.tree(router, number, "reversed" if up else ""), number, sends, [])
    return sends.done()


def _broadcast(hops: list[Hop], piece: int, sends: SendList, first: list[int]) -> None:
    """Sends down a tree; those that leave the root wait for `first`."""
    number: list[int] = []
    for hop in hops:
        number.append(sends.add(hop.link, piece, first if hop.above < 0 else [number[hop.above]]))


def _reduce(network: LinkNetwork, hops: list[Hop], piece: int, sends: SendList) -> list[int]:
    """Sends up a tree whose links lead to the root, the lowest first; returns those that arrive there.

    What goes to a switch is passed on as it is; ranks add.
    """
    arrived: dict[int, list[int]] = {}
    for at in range(len(hops) - 1, -1, -1):
        adds = not network.switch[network.target[hops[at].link]]
        send = sends.add(hops[at].link, piece, arrived.get(at, []), reduce=bool(adds))
        arrived.setdefault(hops[at].above, []).append(send)
    return arrived[-1]


def _reduce_scatter(ask: Ask) -> Schedule:
    """An all-gather over the reversed links, played backward."""
    return mirrored(ask.network, ask.timed(_spread(ask, up=True), up=True))


def _all_reduce(ask: Ask) -> Schedule:
    """Either each piece up a tree and down another, as soon as it is there; or all sums, and then all down."""
    return min(_in_stream(ask), followed(_reduce_scatter(ask), _all_gather(ask)), key=lambda one: one.finish_us)


def _in_stream(ask: Ask) -> Schedule:
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


def _all_to_all(ask: Ask) -> Schedule:
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
