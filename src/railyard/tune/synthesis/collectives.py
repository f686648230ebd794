"""The sends of a collective, along trees and paths: one function a collective.

Bytes are given as the whole output of all-gather, the whole input of a rank for reduce-scatter and all-reduce, and for
all-to-all what all ranks together send (each an equal part to every rank, itself included).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.errors import InputError
from railyard.registry import Registry
from railyard.tune.synthesis.routes import Router
from railyard.tune.synthesis.schedule import SendList

if TYPE_CHECKING:
    from collections.abc import Callable

    from railyard.tune.synthesis.network import LinkNetwork
    from railyard.tune.synthesis.schedule import Sends

    Build = Callable[[LinkNetwork, float, int, float], Sends]

collectives: Registry[Build] = Registry("collective to synthesize")


def _all_gather(network: LinkNetwork, size: float, cut: int, nearness: float) -> Sends:
    """Each rank's part along trees of its own, in `cut` pieces."""
    piece = size / len(network.ranks) / cut
    router, sends = Router(network, piece, nearness), SendList(piece)
    for number in range(cut * len(network.ranks)):
        _broadcast(network, router.tree(network.ranks[number % len(network.ranks)]), number, sends, [])
    return sends.done()


def _broadcast(network: LinkNetwork, links: list[int], piece: int, sends: SendList, first: list[int]) -> None:
    """Sends down a tree; those that leave the root wait for `first`."""
    arrived: dict[int, list[int]] = {}
    for link in links:
        before = arrived.get(int(network.source[link]), first)
        arrived[int(network.target[link])] = [sends.add(link, piece, before)]


def _reduce(network: LinkNetwork, links: list[int], piece: int, sends: SendList) -> list[int]:
    """Sends up a tree whose links lead to the root, the lowest first; returns those that arrive there."""
    arrived: dict[int, list[int]] = {}
    last: list[int] = []
    for link in reversed(links):
        send = sends.add(link, piece, arrived.get(int(network.source[link]), []), reduce=True)
        last = arrived.setdefault(int(network.target[link]), [])
        last.append(send)
    return last


def _no_switches(network: LinkNetwork) -> None:
    if network.switch.any():
        raise InputError(
            "a switch of this network would have to add, which it does not",
            key="--collective",
            allowed="all-gather and all-to-all over switches; or `--switches` without them",
        )


def _reduce_scatter(network: LinkNetwork, size: float, cut: int, nearness: float) -> Sends:
    """The trees of an all-gather over the reversed links, upward."""
    _no_switches(network)
    piece = size / len(network.ranks) / cut
    router, sends = Router(network.reversed(), piece, nearness), SendList(piece)
    for number in range(cut * len(network.ranks)):
        _reduce(network, router.tree(network.ranks[number % len(network.ranks)]), number, sends)
    return sends.done()


def _all_reduce(network: LinkNetwork, size: float, cut: int, nearness: float) -> Sends:
    """Each piece up a tree and down another, as soon as it is there."""
    _no_switches(network)
    piece = size / len(network.ranks) / cut
    busy = [0.0] * len(network.source)
    up, down = Router(network.reversed(), piece, nearness, busy), Router(network, piece, nearness, busy)
    sends = SendList(piece)
    for number in range(cut * len(network.ranks)):
        root = network.ranks[number % len(network.ranks)]
        _broadcast(network, down.tree(root), number, sends, _reduce(network, up.tree(root), number, sends))
    return sends.done()


def _all_to_all(network: LinkNetwork, size: float, cut: int, nearness: float) -> Sends:
    """A path for each piece of each pair; what a rank keeps goes nowhere."""
    ranks = network.ranks
    piece = size / len(ranks) ** 2 / cut
    router, sends = Router(network, piece, nearness), SendList(piece)
    pairs = [(a, b) for shift in range(1, len(ranks)) for a, b in enumerate([*range(shift, len(ranks)), *range(shift)])]
    for number in range(cut):
        for at, (a, b) in enumerate(pairs):
            links = router.tree(ranks[a], [ranks[b]])
            _broadcast(network, links, number * len(pairs) + at, sends, [])
    return sends.done()


collectives.add("all-gather", _all_gather)
collectives.add("reduce-scatter", _reduce_scatter)
collectives.add("all-reduce", _all_reduce)
collectives.add("all-to-all", _all_to_all)
