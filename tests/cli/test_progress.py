"""The line of progress: how long is left, by the pace of the stage at hand, and lines where there is no terminal."""

from __future__ import annotations

import io
from threading import Event
from types import SimpleNamespace

import pytest

from railyard.face import terminal


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def shown(monkeypatch):
    clock, out = [100.0], Terminal()
    monkeypatch.setattr(terminal.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(terminal, "sys", SimpleNamespace(stderr=out))
    made = terminal.Progress(wanted=True)

    def at(seconds: float, share: float) -> str:
        clock[0] = 100.0 + seconds
        out.seek(0)
        out.truncate()
        made("stage", share)
        return out.getvalue().strip()

    return at


def test_what_is_left_follows_from_the_pace_so_far(shown):
    assert "left" not in shown(1.0, 0.05)  # too early to say
    assert shown(4.0, 0.1).endswith("4.0 s, 36 s left  stage")
    assert shown(50.0, 0.125).endswith("50.0 s, 6 min left  stage")
    assert "left" not in shown(51.0, 1.0)


def test_a_share_that_falls_begins_another_stage(shown):
    shown(60.0, 0.9)
    assert "left" not in shown(61.0, 0.1)
    assert shown(66.0, 0.3).endswith("66.0 s, 18 s left  stage")


def test_without_a_terminal_a_line_comes_now_and_then(monkeypatch):
    """Also while one task takes long: the stage is said once, and its line is written until the end."""
    out = io.StringIO()
    monkeypatch.setattr(terminal, "sys", SimpleNamespace(stderr=out))
    wait = Event()
    monkeypatch.setattr(terminal.Progress, "_line", lambda self: (self._latest[0] and wait.set()) or self._latest[0])
    with terminal.Progress(wanted=True, every_s=0.001) as shown:
        shown("flow: 3 of 8; best so far uec", 0.4)
        assert wait.wait(30.0)
    lines = out.getvalue().splitlines()
    assert "flow: 3 of 8; best so far uec" in lines
    with terminal.Progress(wanted=False, every_s=0.001) as silent:
        silent("stage", 0.4)
    assert out.getvalue().splitlines() == lines
