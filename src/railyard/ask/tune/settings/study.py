"""A tuning as one call: settings searched on some draws, judged on others, and the same as a document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.ask.tune.settings.answer import answer_of
from railyard.ask.tune.settings.search import Tuner
from railyard.kit.errors import InputError
from railyard.work.scenario import load
from railyard.work.scenario.tune_section import TuneSection

if TYPE_CHECKING:
    from collections.abc import Callable

    from railyard.ask.tune.settings.search import Tuned
    from railyard.measure.result.answers.tune import TuneAnswer
    from railyard.work.scenario.load import Draft
    from railyard.work.study.tasks import Workers

ENGINES = ("flow", "packet")
"""On which settings can be seen."""


def tune(
    draft: Draft, *, engine: str | None, pool: Callable[[], Workers], report: Callable[[str, float], None]
) -> tuple[Tuned, TuneAnswer]:
    """Settings that make a step shorter, and the same as a document.

    Args:
        draft: The scenario; its `tune` says what is tried.
        engine: In place of the scenario's.
        pool: Makes what trials run on; closed at the end.
        report: Takes what is being done, and its share from 0 to 1.

    Raises:
        InputError: The scenario is wrong, or cannot run as written.
    """
    name = engine or draft.scenario.engine
    if name not in ENGINES:
        raise InputError("settings are tried on an engine that sees them", key="--engine", found=name, allowed=ENGINES)
    workers = pool()
    try:
        found = Tuner(draft, name, draft.scenario.tune or TuneSection(), workers, report).run()
    finally:
        workers.close()
    return found, answer_of(found, load.dump(draft.scenario))
