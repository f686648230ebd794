"""How far the closed form of a step is off, from those layouts that were simulated.

Misses in logarithms are a sum of four: one that all layouts of a scenario share, one that layouts of a kind share, one
that neighbours share, and what is left. Sizes of the second and third are read off the misses themselves, a small one
assumed before any are seen; which is a Gaussian process over sizes in doublings (Rasmussen and Williams, 2006, ch. 2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

# Deviations of the three that are shared and of the rest, as logarithms. Those of kinds and neighbours are the least,
# and a first guess that counts as so many misses; what is missed by a factor of ten is not missed alike, so the guess
# grows with the misses. Neighbours lie up to about two doublings apart.
_ALL, _KIND, _NEAR, _REST = 0.1, 0.1, 0.03, 0.01
_GROWS = 0.2
_GUESS, _REACH = 3.0, 2.0


@dataclass(frozen=True)
class ClosedError:
    """Layouts in closed form, and how their errors go together.

    Attributes:
        closed: float64[n], logarithms of steps in closed form.
        places: float64[n, sizes], where layouts lie, in doublings.
        kinds: int64[n], layouts whose traffic is of one law.
    """

    closed: NDArray[np.float64]
    places: NDArray[np.float64]
    kinds: NDArray[np.int64]

    def best_of_kinds(self) -> list[int]:
        """Of each kind the layout that is fastest in closed form, the fastest first."""
        order = np.argsort(self.closed, kind="stable")
        _, first = np.unique(self.kinds[order], return_index=True)
        return [int(order[place]) for place in np.sort(first)]

    def expected(self, known: Mapping[int, float]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Steps and how far they may be off: float64[n] logarithms, and deviations.

        Args:
            known: Logarithms of simulated steps, by number; endless where a layout cannot be run.
        """
        seen = np.array([number for number, value in known.items() if np.isfinite(value)], np.int64)
        if not seen.size:
            return self.closed.copy(), np.full(len(self.closed), np.hypot(_ALL, _KIND))
        misses = np.array([known[int(number)] for number in seen]) - self.closed[seen]
        near = self._alike(seen, seen)
        kind, neighbour = self._kind_variance(seen, misses), self._near_variance(seen, misses, near)
        same = self.kinds[:, None] == self.kinds[seen]
        to_all = _ALL**2 + kind * same + neighbour * self._alike(np.arange(len(self.closed)), seen)
        among = _ALL**2 + kind * same[seen] + neighbour * near + _REST**2 * np.eye(seen.size)
        solved = np.linalg.solve(among, np.column_stack([misses, to_all.T]))
        left = _ALL**2 + kind + neighbour - np.sum(to_all * solved[:, 1:].T, axis=1)
        return self.closed + to_all @ solved[:, 0], np.sqrt(np.maximum(left, 0.0))

    def _alike(self, one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.float64]:
        """How much the errors of neighbours go together: float64[a, b]."""
        away = np.zeros((one.size, other.size))
        for column in self.places.T:
            away += np.abs(column[one][:, None] - column[other])
        return np.asarray(np.exp(-away / _REACH))

    def _kind_variance(self, seen: NDArray[np.int64], misses: NDArray[np.float64]) -> float:
        """Of what the layouts of a kind share."""
        means = np.array([misses[self.kinds[seen] == kind].mean() for kind in np.unique(self.kinds[seen])])
        return max(_KIND**2, float(np.mean((means - np.median(means)) ** 2)))

    def _near_variance(self, seen: NDArray[np.int64], misses: NDArray[np.float64], near: NDArray[np.float64]) -> float:
        """Of what neighbours share: misses about the mean of their kind, each as far as it says something new."""
        squares, count = _GUESS * (_NEAR**2 + _GROWS**2 * float(np.mean(misses**2))), _GUESS
        for kind in np.unique(self.kinds[seen]):
            (some,) = np.nonzero(self.kinds[seen] == kind)
            new = np.linalg.inv(near[np.ix_(some, some)] + (_REST / _NEAR) ** 2 * np.eye(some.size))
            apart = misses[some] - (new @ misses[some]).sum() / new.sum()
            squares, count = squares + float(apart @ new @ apart), count + some.size - 1
        return squares / count
