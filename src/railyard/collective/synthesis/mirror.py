"""A schedule played backward: what spread over some links is brought together over the same links reversed.

An all-gather over the reversed links, from its end to its start, is a reduce-scatter that takes as long; after it an
all-gather completes an all-reduce.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.synthesis.schedule import Schedule, Sends

if TYPE_CHECKING:
    from railyard.collective.synthesis.network import LinkNetwork


def mirrored(network: LinkNetwork, spread: Schedule) -> Schedule:
    """The sums of a schedule over the reversed links of a network.

    Args:
        network: Over whose links the sums go; links of the reversed one have the same numbers.
        spread: Trees over the reversed links, whose branches begin at ranks.
    """
    sends, count = spread.sends, len(spread.sends)
    owner = np.repeat(np.arange(count), np.diff(sends.after_ptr))
    later, before = count - 1 - sends.after, count - 1 - owner  # what waited is waited for
    order = np.lexsort((before, later))
    link = sends.link[::-1]
    back = Sends(
        sends.piece_bytes,
        sends.pieces,
        link,
        sends.piece[::-1],
        ~network.switch[network.target[link]],
        np.searchsorted(later[order], np.arange(count + 1)),
        before[order].astype(np.int32),
    )
    end = spread.finish_us
    return Schedule(back, end - spread.arrive_us[::-1], end - spread.start_us[::-1])


def followed(up: Schedule, down: Schedule) -> Schedule:
    """An all-reduce: sums, and once all are there what spreads them.

    Args:
        up: A reduce-scatter.
        down: An all-gather of the same pieces.
    """
    first, second, count = up.sends, down.sends, len(up.sends)
    waited = np.bincount(first.after, minlength=count) > 0
    last = np.flatnonzero(~waited)
    last = last[np.argsort(first.piece[last], kind="stable")]
    brought = np.searchsorted(first.piece[last], np.arange(second.pieces + 1))
    starts = np.diff(second.after_ptr) == 0
    number = np.where(starts, np.diff(brought)[second.piece], np.diff(second.after_ptr))
    pointer = np.concatenate([[0], np.cumsum(number)])
    after = np.empty(int(pointer[-1]), np.int64)
    within = np.arange(len(after)) - np.repeat(pointer[:-1], number)
    of_start = np.repeat(starts, number)
    piece = np.repeat(second.piece, number)
    after[of_start] = last[(brought[piece] + within)[of_start]]
    after[~of_start] = second.after + count
    sends = Sends(
        first.piece_bytes,
        first.pieces,
        np.concatenate([first.link, second.link]),
        np.concatenate([first.piece, second.piece]),
        np.concatenate([first.reduce, second.reduce]),
        np.concatenate([first.after_ptr, first.after_ptr[-1] + pointer[1:]]),
        np.concatenate([first.after, after]).astype(np.int32),
    )
    moved = up.finish_us
    return Schedule(
        sends,
        np.concatenate([up.start_us, down.start_us + moved]),
        np.concatenate([up.arrive_us, down.arrive_us + moved]),
    )
