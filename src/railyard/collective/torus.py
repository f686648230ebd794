"""Rings along every axis of a torus at the same time, so that all links of every rank work.

The data is cut into 2 d parts for d axes, one for each axis to begin with and each direction round. A part is reduced
along its first axis, then what is left of it along the next, and gathered back in the opposite order.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from railyard.collective.algorithm import ALGORITHMS, Algorithm, Pattern, Schedule, Send, Steps
from railyard.graph import CollectiveKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.collective.machine import CollectiveMachine, Shape


_REDUCES = (CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE_SCATTER)
_GATHERS = (CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER)


class _Part(NamedTuple):
    """A part of the data: the axes in the order in which it is reduced, and the direction round them."""

    axes: tuple[int, ...]
    sign: int


def _refuses(_kind: CollectiveKind, shape: Shape, _machine: CollectiveMachine) -> str | None:
    return None if shape.torus else "the ranks do not fill a torus"


def _parts(shape: Shape) -> list[_Part]:
    axes = [axis for axis, size in enumerate(shape.torus) if size > 1]
    rotations = [tuple(axes[first:] + axes[:first]) for first in range(len(axes))]
    return [_Part(rotation, sign) for rotation in rotations for sign in (1, -1)]


def _neighbour(shape: Shape, axis: int, sign: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """The next position along an axis, for every position; positions run along the first axis first."""
    index = np.arange(shape.ranks).reshape(tuple(reversed(shape.torus)))
    return np.roll(index, -sign, axis=len(shape.torus) - 1 - axis).ravel()


def _pattern(kind: CollectiveKind, shape: Shape) -> Pattern:
    rounds = (kind in _REDUCES) + (kind in _GATHERS)
    parts = _parts(shape)
    position = np.arange(shape.ranks)
    edges = []
    for part in parts:
        left = rounds / len(parts)
        for axis in part.axes:
            size = shape.torus[axis]
            edges.append((position, _neighbour(shape, axis, part.sign), left * (size - 1) / size))
            left /= size
    return Pattern.of(edges)


def _steps(kind: CollectiveKind, shape: Shape) -> Steps:
    rounds = (kind in _REDUCES) + (kind in _GATHERS)
    return Steps(scale_up=rounds * sum(size - 1 for size in shape.torus))


def _schedule(kind: CollectiveKind, shape: Shape) -> Schedule:
    parts = _parts(shape)
    turns: list[tuple[Send, ...]] = []
    if kind in _REDUCES:
        turns += _interleaved([list(_reduce(shape, part, number)) for number, part in enumerate(parts)])
    if kind in _GATHERS:
        turns += _interleaved([list(_gather(shape, part, number)) for number, part in enumerate(parts)])
    owner = tuple(range(shape.ranks)) * len(parts)
    return Schedule(kind, shape.ranks, shape.ranks * len(parts), tuple(turns), owner)


def _interleaved(parts: list[list[tuple[Send, ...]]]) -> list[tuple[Send, ...]]:
    """Turn k of every part as one step."""
    return [tuple(send for part in parts for send in part[turn]) for turn in range(len(parts[0]))]


def _reduce(shape: Shape, part: _Part, number: int) -> Iterator[tuple[Send, ...]]:
    for stage, axis in enumerate(part.axes):
        for turn in range(1, shape.torus[axis]):
            yield _turn(shape, part, number, stage, -part.sign * turn, reduce=True)


def _gather(shape: Shape, part: _Part, number: int) -> Iterator[tuple[Send, ...]]:
    for stage in reversed(range(len(part.axes))):
        for turn in range(1, shape.torus[part.axes[stage]]):
            yield _turn(shape, part, number, stage, part.sign * (1 - turn), reduce=False)


def _turn(shape: Shape, part: _Part, number: int, stage: int, shift: int, *, reduce: bool) -> tuple[Send, ...]:
    """Every rank sends on the chunks whose home along the axis is `shift` places from its own.

    Along the axes before, a rank deals only with chunks at home in its own row; along those after, with all.
    """
    axis, done = part.axes[stage], part.axes[:stage]
    target = _neighbour(shape, axis, part.sign)
    sends = []
    for position in range(shape.ranks):
        here = _coordinates(shape, position)
        ranges = [
            [(here[a] + shift) % size] if a == axis else [here[a]] if a in done else list(range(size))
            for a, size in enumerate(shape.torus)
        ]
        homes = [_position(shape, home) for home in product(*ranges)]
        chunks = tuple(number * shape.ranks + home for home in sorted(homes))
        sends.append(Send(position, int(target[position]), chunks, reduce))
    return tuple(sends)


def _coordinates(shape: Shape, position: int) -> list[int]:
    return [position // prod(shape.torus[:axis]) % size for axis, size in enumerate(shape.torus)]


def _position(shape: Shape, coordinates: tuple[int, ...]) -> int:
    return sum(place * prod(shape.torus[:axis]) for axis, place in enumerate(coordinates))


ALGORITHM = ALGORITHMS.enter(
    Algorithm(
        name="torus",
        summary="Rings along all axes of a torus at once, in both directions",
        kinds=(CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER),
        protocols=("simple",),
        family="ring",
        refuses=_refuses,
        pattern=_pattern,
        steps=_steps,
        schedule=_schedule,
        sources=("Sack and Gropp, PPoPP 2012", "Jain and Sabharwal, IPDPS 2010 (bucket algorithms on tori)"),
    ),
)
