"""One line of progress on stderr: only on a terminal, only once a run takes long enough to wonder."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

_AFTER_S = 0.5
_EVERY_S = 0.1
_SAYS_S = 2.0
_MINUTES_S = 180.0


class Progress:
    """Shows what a run is doing; to be called with a stage, a share of it from 0 to 1, and used as a context.

    Args:
        wanted: False keeps silent.
    """

    def __init__(self, *, wanted: bool) -> None:
        self.wanted = wanted and sys.stderr.isatty()
        self.begin = time.monotonic()
        self.last = 0.0
        self.width = 0
        self._stage = (self.begin, 0.0)
        self._seen = 0.0

    def __enter__(self) -> Progress:
        """Begins."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Clears the line."""
        self._write("")

    def __call__(self, stage: str, share: float) -> None:
        """Says that `stage` is done to `share`."""
        now = time.monotonic()
        left = self._left(now, share)
        if not self.wanted or now - self.begin < _AFTER_S or now - self.last < _EVERY_S:
            return
        self.last = now
        filled = round(20 * min(max(share, 0.0), 1.0))
        self._write(f"{'#' * filled}{'.' * (20 - filled)} {share:4.0%}  {now - self.begin:5.1f} s{left}  {stage}")

    def _left(self, now: float, share: float) -> str:
        """How long the stage at hand still takes at its pace so far; empty while that says little.

        A share that falls begins another stage: a plan looks at all designs, then runs some.
        """
        if share < self._seen:
            self._stage = (now, share)
        self._seen = share
        took_s, done = now - self._stage[0], share - self._stage[1]
        if took_s < _SAYS_S or done <= 0.0 or share >= 1.0:
            return ""
        left_s = took_s * (1.0 - share) / done
        return f", {left_s:.0f} s left" if left_s < _MINUTES_S else f", {left_s / 60:.0f} min left"

    def _write(self, text: str) -> None:
        if not self.wanted:
            return
        cut = text[: shutil.get_terminal_size().columns - 1]
        sys.stderr.write("\r" + cut.ljust(self.width) + ("\r" if not cut else ""))
        sys.stderr.flush()
        self.width = len(cut)
