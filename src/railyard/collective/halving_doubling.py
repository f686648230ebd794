"""Recursive halving and doubling: partners at distances 1, 2, 4, ... exchange halves, then double them back.

The nearest partners come first and exchange the most, so that little is left for the network. Ranks beyond the largest
power of two first fold their data into a neighbour and get the result back at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.algorithm import ALGORITHMS, Algorithm, Pattern, Schedule, Send, Steps, backwards
from railyard.graph import CollectiveKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.collective.machine import CollectiveMachine, Shape


def _active(ranks: int) -> tuple[NDArray[np.int64], int]:
    """The positions that take part in the halving, and log2 of their number."""
    bits = ranks.bit_length() - 1
    extra = ranks - (1 << bits)
    folded = np.arange(0, 2 * extra, 2)
    return np.setdiff1d(np.arange(ranks), folded), bits


def _folds(ranks: int) -> NDArray[np.int64]:
    """Positions that fold into the next one: every second of the first 2 (n - 2^k)."""
    return np.arange(0, 2 * (ranks - (1 << (ranks.bit_length() - 1))), 2)


def _refuses(kind: CollectiveKind, shape: Shape, _machine: CollectiveMachine) -> str | None:
    if kind != CollectiveKind.ALL_REDUCE and shape.ranks & (shape.ranks - 1):
        return f"{shape.ranks} ranks are not a power of two"
    return None


def _pattern(kind: CollectiveKind, shape: Shape) -> Pattern:
    active, bits = _active(shape.ranks)
    rounds = 2 if kind == CollectiveKind.ALL_REDUCE else 1
    index = np.arange(len(active))
    edges = [(active, active[index ^ (1 << bit)], rounds / 2.0 ** (bit + 1)) for bit in range(bits)]
    folds = _folds(shape.ranks)
    edges += [(folds, folds + 1, 1.0), (folds + 1, folds, 1.0)]
    return Pattern.of(edges)


def _steps(kind: CollectiveKind, shape: Shape) -> Steps:
    rounds = 2 if kind == CollectiveKind.ALL_REDUCE else 1
    bits = shape.ranks.bit_length() - 1
    folds = 2 if len(_folds(shape.ranks)) else 0
    inside = min(shape.per_domain.bit_length() - 1, bits)
    return Steps(scale_up=rounds * inside + folds, scale_out=rounds * (bits - inside))


def _schedule(kind: CollectiveKind, shape: Shape) -> Schedule:
    active, bits = _active(shape.ranks)
    size = 1 << bits
    steps: list[tuple[Send, ...]] = []
    if kind in (CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE_SCATTER):
        steps += [_exchange(active, size, bit, halve=True) for bit in range(bits)]
    if kind in (CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER):
        steps += [_exchange(active, size, bit, halve=False) for bit in reversed(range(bits))]
    folds = _folds(shape.ranks)
    if len(folds):
        everything = tuple(range(size))
        into = tuple(Send(int(fold), int(fold) + 1, everything, reduce=True) for fold in folds)
        steps = [into, *steps, *backwards([into])]
    return Schedule(kind, shape.ranks, size, tuple(steps), tuple(int(position) for position in active))


def _exchange(active: NDArray[np.int64], size: int, bit: int, *, halve: bool) -> tuple[Send, ...]:
    """One exchange with the partner whose index differs in `bit`; lower bits of owner and chunk agree already."""
    low = (1 << bit) - 1
    sends = []
    for index in range(size):
        partner = index ^ (1 << bit)
        wanted = partner if halve else index
        chunks = tuple(
            chunk for chunk in range(size) if chunk & low == index & low and (chunk >> bit) & 1 == (wanted >> bit) & 1
        )
        sends.append(Send(int(active[index]), int(active[partner]), chunks, reduce=halve))
    return tuple(sends)


ALGORITHM = ALGORITHMS.enter(
    Algorithm(
        name="halving-doubling",
        summary="Recursive halving, then doubling; logarithmic steps and the fewest bytes for powers of two",
        kinds=(CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER),
        protocols=("ll", "simple"),
        family="peer",
        refuses=_refuses,
        pattern=_pattern,
        steps=_steps,
        schedule=_schedule,
        phased=True,
        sources=("Thakur, Rabenseifner, Gropp, IJHPCA 2005",),
    ),
)
