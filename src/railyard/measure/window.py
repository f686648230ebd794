"""The steady window of a run: the part whose rates are its headline.

A run begins empty and ends with a drain: nothing comes any more, and what is left runs on alone. Rates until the last
end would count the drain, and a single long answer would set them. So the window is from the first begin to the last;
of a service it starts later by the mean time from begin to end, as so long nothing or little can have ended. Work
counts when it ends. Where nothing ends in that window, as in a burst, the whole run is the window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Window:
    """A part of a run: what ends after its start, at its end at the latest, counts."""

    start_s: float
    end_s: float

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self.end_s - self.start_s

    def ended(self, end_s: NDArray[np.float64]) -> NDArray[np.bool_]:
        """What ended in it; NaN has not ended."""
        return np.asarray((end_s > self.start_s) & (end_s <= self.end_s))


def steady_window(begin_s: NDArray[np.float64], end_s: NDArray[np.float64]) -> Window:
    """The steady window of work that comes and ends; of no work none.

    Args:
        begin_s: float64[n], when each piece came.
        end_s: float64[n], when it ended, NaN if it did not.
    """
    if not len(begin_s):
        return Window(0.0, 0.0)
    first, last, ended = float(begin_s.min()), float(begin_s.max()), np.isfinite(end_s)
    if ended.any():
        # What takes as long as all the rest ends at the start of the window, whatever its mean is rounded to.
        steady = Window(first + float((end_s - begin_s)[ended].mean()) + _ROUNDING * (last - first), last)
        if steady.ended(end_s).any():
            return steady
        last = max(last, float(end_s[ended].max()))
    # What ended at once, at the very start, counts as well.
    return Window(np.nextafter(first, -np.inf), last)
