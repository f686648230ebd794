"""Progress on stderr, once a run takes long enough to wonder: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from threading import Event, Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

_AFTER_S = 0.5
_EVERY_S = 0.1
_SAYS_S = 2.0
_MINUTES_S = 180.0


class Progress:
    """Shows what a run is doing; to be called with a stage, a share of it from 0 to 1, and used as a context.

    Args:
        wanted: False keeps silent.
        every_s: So often a line is written where stderr is no terminal; None: never.
    """

    def __init__(self, *, wanted: bool, every_s: float | None = None) -> None:
        terminal = sys.stderr.isatty()
        self.wanted = wanted and terminal
        self.begin = time.monotonic()
        self.last = 0.0
        self.width = 0
        self._stage = (self.begin, 0.0)
        self._seen = 0.0
        self._latest = ("", 0.0)
        self._lines = _Lines(every_s, self._line) if wanted and not terminal and every_s is not None else None

    def __enter__(self) -> Progress:
        """Begins."""
        if self._lines is not None:
            self._lines.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Clears the bar; no line comes after it."""
        if self._lines is not None:
            self._lines.end()
        self._write("")

    def __call__(self, stage: str, share: float) -> None:
        """Says that `stage` is done to `share`."""
        now = time.monotonic()
        self._latest = stage, share
        left = self._left(now, share)
        if not self.wanted or now - self.begin < _AFTER_S or now - self.last < _EVERY_S:
            return
        self.last = now
        filled = round(20 * min(max(share, 0.0), 1.0))
        self._write(f"{'#' * filled}{'.' * (20 - filled)} {share:4.0%}  {now - self.begin:5.1f} s{left}  {stage}")

    def _line(self) -> str:
        stage, share = self._latest
        return f"{time.monotonic() - self.begin:.0f} s, {share:.0%}: {stage}"

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


class _Lines(Thread):
    """Writes a line every so often, also while one task takes long.

    Args:
        every_s: From one line to the next.
        line: Gives it.
    """

    def __init__(self, every_s: float, line: Callable[[], str]) -> None:
        super().__init__(name="progress", daemon=True)
        self._every_s, self._line, self._over = every_s, line, Event()

    def run(self) -> None:
        while not self._over.wait(self._every_s):
            sys.stderr.write(f"{self._line()}\n")
            sys.stderr.flush()

    def end(self) -> None:
        """Writes no more."""
        self._over.set()
        self.join()
