"""Steps under settings: run once each, on any workers, and known from then on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from railyard.ask.tune.settings.judging import Run
from railyard.ask.tune.settings.work import JUDGED, STEP
from railyard.work.study.journal import Journal, key_of
from railyard.work.study.provenance import version
from railyard.work.study.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from railyard.ask.tune.settings.cases import Case
    from railyard.work.scenario.load import Draft
    from railyard.work.study.tasks import Workers

    Asked = tuple[Mapping[str, Any], Case]


@dataclass
class Trials:
    """Runs steps of one scenario.

    Attributes:
        draft: The scenario.
        engine: Name.
        workers: Where steps run.
        journal: Steps that are known.
        count: Steps that were run.
    """

    draft: Draft
    engine: str
    workers: Workers
    journal: Journal = field(default_factory=lambda: Journal(None))
    count: int = 0

    def steps(self, asked: Sequence[Asked]) -> list[float | str]:
        """Steps in seconds, or why one cannot be.

        Args:
            asked: Settings (dotted keys and values) and the case that each runs under.
        """
        tasks = [self._task(*one) for one in asked]
        keys = [key_of(version(), task) for task in tasks]
        left = list({key: at for at, key in enumerate(keys) if key not in self.journal.known}.values())
        self.count += len(left)
        errors: dict[str, str] = {}
        for done in self.workers.run([Task(STEP, tasks[at]) for at in left]):
            key = keys[left[done.number]]
            if done.error:
                errors[key] = done.error
            else:
                self.journal.add(key, done.value)
        return [errors[key] if key in errors else float(self.journal.known[key]) for key in keys]

    def runs(self, asked: Sequence[Asked], found: list[Run | str], told: Callable[[float], None]) -> None:
        """Steps with the tails of what was sent in them, or why one cannot be.

        Args:
            asked: Settings and cases.
            found: Filled as they end, in the order of `asked`.
            told: Of the share that is done.
        """
        for count, done in enumerate(self.workers.run([Task(JUDGED, self._task(*one)) for one in asked])):
            told(count / len(asked))
            found[done.number] = done.error or Run.read(done.value)

    def _task(self, settings: Mapping[str, Any], case: Case) -> dict[str, Any]:
        return {
            "values": self.draft.tree.plain(),
            "folder": str(self.draft.folder.resolve()),
            "settings": {**case.job, **settings},
            "engine": self.engine,
            "seed": case.seed,
            "load": case.load,
        }
